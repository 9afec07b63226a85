"""The quadratics again with the box moved by a quarter of its width, so that the minimum is no longer in its middle.

    python -m benchmarks.beyond moved [--only TEXT] [--tables] [--page FILE]

Settings are those that tune has chosen for the box as it was.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.beyond.fair.command import arguments, finish
from benchmarks.beyond.fair.compare import number
from benchmarks.beyond.fair.entrants import OURS, RIVALS
from benchmarks.beyond.fair.problems import ROWS, Problem, in_cube
from benchmarks.beyond.fair.race import race, within
from benchmarks.beyond.fair.stored import Stored, rounded
from benchmarks.beyond.fair.tune import SLACK, chosen
from benchmarks.beyond.tables import NOTHING, table
from benchmarks.machine import describe
from fzoos_experiments.tasks import Quadratic

SEEDS = (1, 2, 3)
PROBLEMS = {
    "quadratic-0.5": (0.5, 0.0),
    "quadratic-5": (5.0, 0.0),
    "quadratic-50": (50.0, 0.0),
    "noise-0.1": (5.0, 0.1),
    "noise-0.01": (5.0, 0.01),
}  # heterogeneity and noise
LOW, HIGH = -5.0, 15.0  # in place of -10 and 10; the minimum is at -0.5


def moved(name: str, seed: int) -> Problem:
    """The instance of a seed; x_0 is brought into the box."""
    heterogeneity, noise = PROBLEMS[name]
    task = Quadratic(dim=300, clients=5, heterogeneity=heterogeneity, seed=seed, noise=noise)
    return Problem(
        [in_cube(f, LOW, HIGH) for f in task.objectives],
        (np.clip(task.x0, LOW, HIGH) - LOW) / (HIGH - LOW),
        lambda x: task.value(LOW + (HIGH - LOW) * x) - task.minimum,
        ROWS[name](seed).budget,
    )


def main(words: Sequence[str]) -> int:
    """Make the runs that are missing, or those that are named; print the table."""
    given = arguments("moved", __doc__, words)
    tuned, stored = Stored(given.runs / "tune.jsonl"), Stored(given.runs / "moved.jsonl")
    for problem in () if given.tables else PROBLEMS:
        for label in (*RIVALS, OURS):
            if given.wants(f"{problem}: {label}", stored.get(problem, label)):
                _make(tuned, stored, problem, label)
    finish(given, "moved", moved_table(stored), stored)
    return 0


def _make(tuned: Stored, stored: Stored, problem: str, label: str) -> None:
    started, values = time.perf_counter(), []
    entrant = None if label == OURS else chosen(tuned, problem, label)
    for seed in SEEDS:
        instance = moved(problem, seed)
        most = int(instance.budget * (1.0 if entrant is None else SLACK))
        values.append(rounded(within(race(instance, entrant, seed, most), most)[1]))
    stored.put(problem, label, f"`python -m benchmarks.beyond moved` on {describe()}", values=values)
    print(f"{problem}: {label}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


def moved_table(stored: Stored) -> str:
    """A row for each algorithm, a column for each problem: mean and worst."""
    first = {problem: moved(problem, SEEDS[0]) for problem in PROBLEMS}
    rows = [["*at x0, seed 1*", *(number(p.gap(p.x0)) for p in first.values())]]
    rows += [["*the centre of the box*", *(number(p.gap(np.full(len(p.x0), 0.5))) for p in first.values())]]
    for label in (*RIVALS, OURS):
        lines = [stored.get(problem, label) for problem in PROBLEMS]
        cells = [
            NOTHING if line is None else f"{number(float(np.mean(line['values'])))} ({number(max(line['values']))})"
            for line in lines
        ]
        rows.append([label, *cells])
    return table(["F - F*, box moved: mean (worst)", *PROBLEMS], rows)
