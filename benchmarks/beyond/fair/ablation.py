"""FedLineSearch and FedTrustRegion with one mechanism switched off.

    python -m benchmarks.beyond ablation [--only TEXT] [--tables] [--page FILE]

Seeds are those on which the algorithm's constants were chosen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.beyond.fair import problems, problems_few
from benchmarks.beyond.fair.command import arguments, finish
from benchmarks.beyond.fair.compare import number
from benchmarks.beyond.fair.entrants import OURS, OURS_FEW
from benchmarks.beyond.fair.race import Instance, Trace, race, within
from benchmarks.beyond.fair.stored import Stored, rounded
from benchmarks.beyond.fair.switches import FEW, MANY, OUTLIER_RULE, Replaced, replaced
from benchmarks.beyond.tables import NOTHING, table
from benchmarks.machine import describe
from fzoos._util.arrays import FloatArray

SEEDS, SEEDS_FEW = (101, 102, 103), (101, 102)
VALUES = 50  # of each client, in few dimensions
NEAR = 1e-6  # F - F* there
OUTLIERS = ", outliers"  # of the problems that only the rule against them is for
WRONG, FACTOR = 0.01, 1e3  # the share of wrong values, and the factor by which they are wrong


def _spoilt(objective: Callable[[FloatArray], Any], seed: Sequence[int]) -> Callable[[FloatArray], Any]:
    """Some of the values are wrong."""
    rng = np.random.default_rng(list(seed))

    def wrong(x: FloatArray) -> Any:
        values = objective(x)
        return np.where(rng.random(np.shape(values)) < WRONG, FACTOR * np.asarray(values), values)[()]

    return wrong


def _outliers_many(seed: int) -> problems.Problem:
    made = problems.ROWS["quadratic-5"](seed)
    return replace(made, objectives=[_spoilt(f, [seed, 13, i]) for i, f in enumerate(made.objectives)])


def _outliers_few(seed: int) -> problems.Problem:
    made = problems_few.ROWS["hartmann-weights"](seed)
    spoilt = [_spoilt(f, [seed, 13, i]) for i, f in enumerate(made.objectives)]
    return problems.Problem(spoilt, made.x0, made.gap, VALUES * len(spoilt))


ROWS_MANY: dict[str, problems.Maker] = {**problems.ROWS, f"quadratic-5{OUTLIERS}": _outliers_many}
ROWS_FEW: dict[str, Callable[[int], Instance]] = {
    **{name: problems_few.ROWS[name] for name in ("rosenbrock-terms", "quadratic-low-rank", "hartmann-weights")},
    f"hartmann-weights{OUTLIERS}": _outliers_few,
}


def main(words: Sequence[str]) -> int:
    """Make the runs that are missing, or those that are named; print the tables."""
    given = arguments("ablation", __doc__, words)
    stored = Stored(given.runs / "ablation.jsonl")
    for rows, switches, make in ((ROWS_MANY, MANY, _many), (ROWS_FEW, FEW, _few)):
        for problem in () if given.tables else rows:
            for label, changes in switches.items():
                spare = problem.endswith(OUTLIERS) and label not in (OURS, OURS_FEW, OUTLIER_RULE)
                if not spare and given.wants(f"{problem}: {label}", stored.get(problem, label)):
                    _make(stored, problem, label, changes, make)
    finish(given, "ablation", ablation_tables(stored), stored)
    return 0


def _make(stored: Stored, problem: str, label: str, changes: Replaced, make: Callable[[str], dict[str, Any]]) -> None:
    started = time.perf_counter()
    with replaced(changes):
        measured = make(problem)
    stored.put(problem, label, f"`python -m benchmarks.beyond ablation` on {describe()}", **measured)
    print(f"{problem}: {label}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


def _many(problem: str) -> dict[str, Any]:
    values = []
    for seed in SEEDS:
        instance = ROWS_MANY[problem](seed)
        values.append(rounded(within(race(instance, None, seed, instance.budget), instance.budget)[1]))
    return {"values": values}


def _few(problem: str) -> dict[str, Any]:
    values, near = [], []
    for seed in SEEDS_FEW:
        instance = ROWS_FEW[problem](seed)
        trace = race(instance, None, seed, VALUES * len(instance.objectives), vectorized=False)
        values.append(rounded(trace[-1][1]))
        near.append(_until(trace, len(instance.objectives)))
    return {"values": values, "near": near}


def _until(trace: Trace, clients: int) -> int | None:
    """Queries of a client until F is near its minimum."""
    return next((queries // clients for queries, value in trace if value <= NEAR), None)


def ablation_tables(stored: Stored) -> str:
    """Many dimensions: mean and worst. Few: each seed's F - F*, and the queries of a client until it was near 0."""
    many = _rows(
        stored, ROWS_MANY, MANY, lambda v: f"{number(float(np.mean(v['values'])))} ({number(max(v['values']))})"
    )
    few = _rows(stored, ROWS_FEW, FEW, _small)
    return "\n\n".join(
        [
            table(["F - F*: mean (worst)", *ROWS_MANY], many),
            table([f"F - F* after N x {VALUES} queries; queries of a client until {NEAR:g}", *ROWS_FEW], few),
        ]
    )


def _rows(
    stored: Stored, rows: Mapping[str, Any], labels: Mapping[str, Any], cell: Callable[[dict[str, Any]], str]
) -> list[list[str]]:
    found = {(p, label): stored.get(p, label) for p in rows for label in labels}
    return [[label, *(NOTHING if (v := found[p, label]) is None else cell(v) for p in rows)] for label in labels]


def _small(line: dict[str, Any]) -> str:
    values = ", ".join(number(value) for value in line["values"])
    return f"{values}; {', '.join(NOTHING if near is None else str(near) for near in line['near'])}"
