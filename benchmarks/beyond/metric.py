"""F of a classifier's metric on Covertype."""

from __future__ import annotations

from benchmarks.beyond.plan import FoundRuns, Planned
from benchmarks.beyond.problems import Problem
from benchmarks.beyond.settings import ALGORITHMS, FORMER
from benchmarks.beyond.tables import Options, Part
from benchmarks.beyond.values import value_tables

METRICS = ("precision", "recall", "f1", "jaccard")
ROUNDS = (5, 10)
ALGORITHMS_HERE = [label for label in ALGORITHMS if label != FORMER]
"""The former defaults are dear in so many dimensions; docs/results has them at full size."""


def runs(options: Options) -> list[Planned]:
    rounds = options.rounds(*ROUNDS)[-1]
    return [
        Planned("metric", Problem("metric", portion, metric, toy=options.quick), label, seed, rounds)
        for portion in (0.3, 0.5)
        for metric in METRICS
        for label in ALGORITHMS_HERE
        for seed in options.few()
    ]


def tables(options: Options, found: FoundRuns) -> str:
    return value_tables("F", runs(options), options.rounds(*ROUNDS), found)


PART = Part(
    "F = 1 - metric of a classifier on Covertype, d = 2,189, N = 7, T = 10, Adam(0.01); P is the share of the classes "
    "that a client has.",
    runs,
    tables,
)
