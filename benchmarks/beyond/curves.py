"""F - F* round by round on the quadratic, without an end at a target: what the README's figure shows."""

from __future__ import annotations

from benchmarks.beyond.plan import FoundRuns, Planned
from benchmarks.beyond.problems import Problem
from benchmarks.beyond.settings import DEFAULT
from benchmarks.beyond.tables import Options, Part
from benchmarks.beyond.values import value_tables

LABELS = ("FedZO", "ScaffoldII", "FedHistory", "DeComFL", "FedCMA", "FZooS, paper's settings", DEFAULT)
ROUNDS = (5, 10, 20)


def runs(options: Options) -> list[Planned]:
    rounds = options.rounds(*ROUNDS)[-1]
    return [
        Planned("curves", Problem("quadratic", c, toy=options.quick), label, seed, rounds)
        for c in (0.5, 5.0, 50.0)
        for label in LABELS
        for seed in options.few()
    ]


def tables(options: Options, found: FoundRuns) -> str:
    return value_tables("F - F*", runs(options), options.rounds(*ROUNDS), found)


PART = Part("F - F* on the quadratic, d = 300, N = 5, T = 10, Adam(0.01).", runs, tables)
