"""Chooses each rival's settings for each problem on the tuning seeds.

python -m benchmarks.beyond tune [--only TEXT] [--again] [--tables]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.beyond.fair.command import arguments, finish
from benchmarks.beyond.fair.entrants import RIVALS, Try
from benchmarks.beyond.fair.problems import ROWS, Maker
from benchmarks.beyond.fair.race import race, within
from benchmarks.beyond.fair.stored import Stored, rounded
from benchmarks.beyond.tables import table
from benchmarks.machine import describe

SEEDS = (101, 102)
SLACK = 1.05  # of the budget: a rival may finish its last round up to here, because rounds are long


def main(words: Sequence[str]) -> int:
    """Tune what is not tuned yet, or what is named; print what was chosen."""
    given = arguments("tune", __doc__, words)
    stored = Stored(given.runs / "tune.jsonl")
    for problem, maker in () if given.tables else ROWS.items():
        for label, tries in RIVALS.items():
            if given.wants(f"{problem}: {label}", stored.get(problem, label)):
                started = time.perf_counter()
                tried = [_try(maker, entrant) for entrant in tries]
                stored.put(problem, label, f"`python -m benchmarks.beyond tune` on {describe()}", tries=tried)
                print(f"{problem}: {label}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    finish(given, "tune", chosen_table(stored), stored)
    return 0


def _try(maker: Maker, entrant: Try) -> dict[str, Any]:
    values, queries = [], 0
    for seed in SEEDS:
        instance = maker(seed)
        most = int(SLACK * instance.budget)
        queries, value = within(race(instance, entrant, seed, most), most)
        values.append(rounded(value))
    return {"settings": entrant.words, "queries": queries, "values": values}


def chosen(stored: Stored, problem: str, label: str) -> Try | None:
    """The settings with the least mean over the tuning seeds; None: they were not tuned."""
    line = stored.get(problem, label)
    if line is None:
        return None
    best = min(line["tries"], key=lambda tried: float(np.mean(tried["values"])))
    return next(entrant for entrant in RIVALS[label] if entrant.words == best["settings"])


def chosen_table(stored: Stored) -> str:
    """A row for each rival, a column for each problem."""
    rows = []
    for label in RIVALS:
        found = [chosen(stored, problem, label) for problem in ROWS]
        rows.append([label, *("–" if entrant is None else entrant.words for entrant in found)])
    return table(["chosen on the tuning seeds", *ROWS], rows)
