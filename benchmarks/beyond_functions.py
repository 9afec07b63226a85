"""F - F* on Ackley and Levy."""

from __future__ import annotations

from beyond_problems import Problem
from beyond_runs import FoundRuns, Run
from beyond_settings import ALGORITHMS, EXACT, WITH_DEFAULT
from beyond_tables import Options, Part
from beyond_values import value_tables

ROUNDS = (4, 8, 15)


def runs(options: Options) -> list[Run]:
    rounds = options.rounds(*ROUNDS)[-1]
    return [
        Run("functions", Problem(kind, c, toy=options.quick), label, seed, rounds)
        for kind in ("ackley", "levy")
        for c in (0.5, 5.0)
        for label in EXACT | ALGORITHMS | WITH_DEFAULT
        for seed in options.few()
    ]


def tables(options: Options, found: FoundRuns) -> str:
    return value_tables("F - F*", runs(options), options.rounds(*ROUNDS), found)


PART = Part("F - F* on Ackley and Levy, d = 300, N = 5, T = 10, Adam(0.01).", runs, tables)
