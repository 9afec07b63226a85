"""Our algorithm, and it with one change taken back, on every kind of task."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.beyond.attack import ATTACKED
from benchmarks.beyond.plan import Found, FoundRuns, Planned
from benchmarks.beyond.problems import SMALL, Problem
from benchmarks.beyond.settings import ABLATION, OURS
from benchmarks.beyond.tables import NOTHING, Options, Part, at, counts, labels, problems, size, some, spread, table

SEEDS, IMAGES = 3, 5
SYNTHETIC, LEARNED = (4, 8), (8,)
ATTACK = (10,)


def runs(options: Options) -> list[Planned]:
    toy = options.quick
    seeds, images = options.few(SEEDS), options.images(IMAGES)
    plan = [(Problem("quadratic", c, toy=toy), seeds, options.rounds(*SYNTHETIC)) for c in (0.5, 5.0, 50.0)]
    plan += [(Problem("levy", 5.0, toy=toy), seeds, options.rounds(*LEARNED))]
    plan += [(Problem("metric", 0.3, "precision", samples=SMALL, toy=toy), seeds, options.rounds(*LEARNED))]
    plan += [(Problem("attack", 0.7, models=options.first, toy=toy), images, options.rounds(*ATTACK))]
    return [
        Planned("ablation", problem, label, seed, rounds[-1])
        for problem, each, rounds in plan
        for label in (OURS, *ABLATION)
        for seed in each
    ]


def tables(options: Options, found: FoundRuns) -> str:
    planned = runs(options)
    quadratics = [problem for problem in problems(planned) if problem.kind == "quadratic"]
    (levy,), (metric,), (attack,) = (
        [problem for problem in problems(planned) if problem.kind == kind] for kind in ("levy", "metric", "attack")
    )
    shown, (learned,), (last,) = options.rounds(*SYNTHETIC), options.rounds(*LEARNED), options.rounds(*ATTACK)
    first = table(
        ["without one change", *(f"C = {p.level:g}, F - F* after {r}" for p in quadratics for r in shown), "bytes"],
        [
            [
                label,
                *(spread(at(some(found, p, label), r)) for p in quadratics for r in shown),
                size(some(found, quadratics[0], label)),
            ]
            for label in labels(planned)
        ],
    )
    second = table(
        [
            "without one change",
            f"Levy, C = 5, F - F* after {learned}",
            f"precision, P = 0.3, F after {learned}",
            f"attack, P = 0.7: attacked within {last}",
            "rounds of those",
            f"margin after {last}",
        ],
        [
            [
                label,
                spread(at(some(found, levy, label), learned)),
                spread(at(some(found, metric, label), learned)),
                *_attack(some(found, attack, label), last),
            ]
            for label in labels(planned)
        ],
    )
    return f"{first}\n\n{second}"


def _attack(found: Sequence[Found], last: int) -> list[str]:
    needed = [rounds for each in found if (rounds := each.first_below(ATTACKED)) is not None]
    return [f"{len(needed)} of {len(found)}" if found else NOTHING, counts(needed), spread(at(found, last))]


PART = Part(
    f"Our algorithm, and it with one change taken back. {SEEDS} seeds at most, {IMAGES} images, {SMALL:,} rows of "
    "Covertype; bytes per client and round, both ways, are those of the quadratic (d = 300).",
    runs,
    tables,
)
