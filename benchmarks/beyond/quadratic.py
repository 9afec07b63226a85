"""Rounds, queries and bytes until F is near its minimum, on the quadratic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.beyond.plan import Found, FoundRuns, Planned
from benchmarks.beyond.problems import Problem
from benchmarks.beyond.settings import ALGORITHMS, EXACT, WITH_DEFAULT
from benchmarks.beyond.tables import NOTHING, Options, Part, counts, labels, problems, size, some, table

TARGETS = {0.5: ("F - F* <= 0.05", 0.05), 5.0: ("F - F* <= 0.05", 0.05), 50.0: ("F <= 1.0", 1.025)}
ROUNDS = 30


def runs(options: Options) -> list[Planned]:
    (rounds,) = options.rounds(ROUNDS)
    return [
        Planned("quadratic", Problem("quadratic", c, toy=options.quick), label, seed, rounds, target)
        for c, (_, target) in TARGETS.items()
        for label in EXACT | ALGORITHMS | WITH_DEFAULT
        for seed in options.few()
    ]


def tables(options: Options, found: FoundRuns) -> str:
    planned = runs(options)
    rows = [
        [f"{p.level:g}", TARGETS[p.level][0], label, *_cells(some(found, p, label), TARGETS[p.level][1], label)]
        for p in problems(planned)
        for label in labels(planned)
    ]
    head = [
        "C",
        "target",
        "algorithm",
        "reached by",
        "rounds",
        "queries",
        "bytes per client and round",
        "seconds a round",
    ]
    return table(head, rows)


def _cells(found: Sequence[Found], target: float, label: str) -> list[str]:
    reached = [each for each in found if each.values[-1] <= target]
    share = f"{len(reached)} of {len(found)}" if found else NOTHING
    rounds = counts([len(each.values) for each in reached])
    if label in EXACT:
        return [share, rounds, "", "", ""]
    seconds = f"{np.mean([each.seconds[-1] / len(each.seconds) for each in found]):.2g}" if found else NOTHING
    return [share, rounds, counts([each.queries[-1] for each in reached]), size(found), seconds]


PART = Part(
    f"Quadratic, d = 300, N = 5, T = 10, Adam(0.01), at most {ROUNDS} rounds; a run ends at the target, and rounds and "
    'queries are means over the runs that reached it. Bytes are both ways together. "Exact gradient" is the same loop '
    "with the true gradient of F.",
    runs,
    tables,
)
