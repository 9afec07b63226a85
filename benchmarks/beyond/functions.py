"""F - F* on Ackley and Levy."""

from __future__ import annotations

from benchmarks.beyond.plan import FoundRuns, Planned
from benchmarks.beyond.problems import Problem
from benchmarks.beyond.settings import ALGORITHMS, EXACT, WITH_DEFAULT
from benchmarks.beyond.tables import Options, Part
from benchmarks.beyond.values import value_tables

ROUNDS = (4, 8, 15)


def runs(options: Options) -> list[Planned]:
    rounds = options.rounds(*ROUNDS)[-1]
    return [
        Planned("functions", Problem(kind, c, toy=options.quick), label, seed, rounds)
        for kind in ("ackley", "levy")
        for c in (0.5, 5.0)
        for label in EXACT | ALGORITHMS | WITH_DEFAULT
        for seed in options.few()
    ]


def tables(options: Options, found: FoundRuns) -> str:
    return value_tables("F - F*", runs(options), options.rounds(*ROUNDS), found)


PART = Part("F - F* on Ackley and Levy, d = 300, N = 5, T = 10, Adam(0.01).", runs, tables)
