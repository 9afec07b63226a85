"""What an error costs in bytes: kinds of messages, on every kind of task."""

from __future__ import annotations

from benchmarks.beyond.plan import FoundRuns, Planned
from benchmarks.beyond.problems import SMALL, Problem
from benchmarks.beyond.settings import PAYLOADS
from benchmarks.beyond.tables import Options, Part, at, labels, problems, size, some, spread, table

SEEDS, IMAGES = 3, 5
ROUNDS = (8,)


def runs(options: Options) -> list[Planned]:
    toy = options.quick
    tasks = [Problem("quadratic", 5.0, toy=toy), Problem("quadratic", 50.0, toy=toy), Problem("levy", 5.0, toy=toy)]
    tasks += [Problem("metric", 0.3, "precision", samples=SMALL, toy=toy)]
    tasks += [Problem("attack", 0.7, models=options.first, toy=toy)]
    return [
        Planned("payload", problem, label, seed, options.rounds(*ROUNDS)[-1])
        for problem in tasks
        for label in PAYLOADS
        for seed in (options.images(IMAGES) if problem.kind == "attack" else options.few(SEEDS))
    ]


def tables(options: Options, found: FoundRuns) -> str:
    planned, (last,) = runs(options), options.rounds(*ROUNDS)
    head = ["what travels"]
    for problem in problems(planned):
        head += [f"{problem}: {'margin' if problem.kind == 'attack' else 'F'} after {last}", "bytes"]
    rows = []
    for label in labels(planned):
        row = [label]
        for problem in problems(planned):
            here = some(found, problem, label)
            row += [spread(at(here, last)), size(here)]
        rows.append(row)
    return table(head, rows)


PART = Part(
    f"Error against bytes per client and round, both ways; F is F - F* of the quadratic and of Levy. {SEEDS} seeds at "
    f"most, {IMAGES} images, {SMALL:,} rows of Covertype.",
    runs,
    tables,
)
