"""The price of federation: methods that see F itself, where one value of F costs N queries, compared with the default.

python -m benchmarks.beyond price [--only TEXT] [--tables] [--page FILE]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.beyond.fair import problems, problems_few
from benchmarks.beyond.fair.command import arguments, finish
from benchmarks.beyond.fair.compare import SEEDS, number, results
from benchmarks.beyond.fair.entrants import OURS, OURS_FEW
from benchmarks.beyond.fair.pooled import METHODS, solve
from benchmarks.beyond.fair.race import Instance, race, within
from benchmarks.beyond.fair.stored import Stored, rounded
from benchmarks.beyond.tables import NOTHING, table
from benchmarks.machine import describe


@dataclass(frozen=True)
class Priced:
    """A problem, and after how many queries of all clients one looks.

    Args:
        maker: of a seed's instance.
        cuts: numbers of queries.
        vectorized: whether objectives take batches.
    """

    maker: Callable[[int], Instance]
    cuts: tuple[int, ...]
    vectorized: bool


MANY = {
    name: Priced(problems.ROWS[name], (problems.ROWS[name](1).budget,), True)
    for name in ("quadratic-5", "levy-5", "noise-0.01")
}
FEW = {
    name: Priced(maker, tuple(count * len(maker(1).objectives) for count in (100, 500)), False)
    for name, maker in problems_few.ROWS.items()
}


def main(words: Sequence[str]) -> int:
    """Make the runs that are missing, or those that are named; print the tables."""
    given = arguments("price", __doc__, words)
    stored = Stored(given.runs / "price.jsonl")
    for name, priced in () if given.tables else (MANY | FEW).items():
        for label in _labels(name):
            elsewhere = name in MANY and label == OURS  # ours is run by the command rivals
            if not elsewhere and given.wants(f"{name}: {label}", stored.get(name, label)):
                _make(stored, name, priced, label)
    finish(given, "price", price_tables(stored, Stored(given.runs / "rivals.jsonl")), stored)
    return 0


def _labels(name: str) -> tuple[str, ...]:
    return (*METHODS, OURS if name in MANY else OURS_FEW)


def _make(stored: Stored, name: str, priced: Priced, label: str) -> None:
    started = time.perf_counter()
    values = {str(seed): [rounded(value) for value in _run(priced, label, seed)] for seed in SEEDS}
    made = f"`python -m benchmarks.beyond price` on {describe()}"
    stored.put(name, label, made, queries=priced.cuts, values=values)
    print(f"{name}: {label}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


def _run(priced: Priced, label: str, seed: int) -> list[float]:
    """F - F* after each cut."""
    if label not in METHODS:
        trace = race(priced.maker(seed), None, seed, max(priced.cuts), priced.vectorized)
        return [within(trace, cut)[1] for cut in priced.cuts]
    found = []
    for cut in priced.cuts:  # a separate run for each, because some methods plan with the budget
        instance = priced.maker(seed)
        most = cut // len(instance.objectives)
        found.append(solve(METHODS[label], instance, most, seed, priced.vectorized))
    return found


def price_tables(stored: Stored, raced: Stored) -> str:
    """Many dimensions: mean and worst; few: median and worst of both numbers of queries."""
    found = {(name, label): _by_cut(stored, raced, name, label) for name in MANY | FEW for label in _labels(name)}
    many = [_row([found[name, label] for name in MANY], label, np.mean) for label in (*METHODS, OURS)]
    few = [_row([found[name, label] for name in FEW], label, np.median) for label in (*METHODS, OURS_FEW)]
    budgets = [f"{name}, {priced.cuts[0]:,} queries" for name, priced in MANY.items()]
    return "\n\n".join(
        [
            table(["F - F*, d = 300: mean (worst)", *budgets], many),
            table(["F - F* after N x 100 / N x 500 queries: median (worst)", *FEW], few),
        ]
    )


def _by_cut(stored: Stored, raced: Stored, name: str, label: str) -> list[list[float]]:
    """F - F* of all seeds, for each number of queries."""
    if name in MANY and label == OURS:
        values = [value for _, value in results(raced, name, label)]
        return [values] if values else []
    line = stored.get(name, label)
    return [] if line is None else [list(values) for values in zip(*line["values"].values(), strict=True)]


def _row(found: Iterable[list[list[float]]], label: str, middle: Callable[..., Any]) -> list[str]:
    cells = [" / ".join(f"{number(float(middle(v)))} ({number(max(v))})" for v in by_cut) for by_cut in found]
    return [label, *(cell or NOTHING for cell in cells)]
