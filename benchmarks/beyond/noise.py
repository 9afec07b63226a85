"""F - F* where observations scatter."""

from __future__ import annotations

from benchmarks.beyond.plan import FoundRuns, Planned
from benchmarks.beyond.problems import Problem
from benchmarks.beyond.settings import ALGORITHMS, NOISE
from benchmarks.beyond.tables import Options, Part, at, counts, labels, problems, queries_at, some, spread, table

ROUNDS = (10,)


def runs(options: Options) -> list[Planned]:
    rounds = options.rounds(*ROUNDS)[-1]
    return [
        Planned("noise", Problem("quadratic", 5.0, noise=noise, toy=options.quick), label, seed, rounds)
        for noise in (0.01, 0.1)
        for label in ALGORITHMS | NOISE
        for seed in options.few()
    ]


def tables(options: Options, found: FoundRuns) -> str:
    planned, (last,) = runs(options), options.rounds(*ROUNDS)
    rows = []
    for problem in problems(planned):
        for label in labels(planned):
            here = some(found, problem, label)
            cells = [
                spread(at(here, last)),
                spread([each.recommended for each in here]),
                counts(queries_at(here, last)),
            ]
            rows.append([f"{problem.noise:g}", label, spread([each.start for each in here]), *cells])
    head = ["noise", "algorithm", "F - F* at x0", f"last x, {last} rounds", "recommended x", "queries"]
    return table(head, rows)


PART = Part(
    "Quadratic, C = 5, d = 300, N = 5, T = 10, Adam(0.01), every observation with Gaussian noise: its standard "
    "deviation as a share of F(x0) - F*.",
    runs,
    tables,
)
