"""Every rival at its best, and the default, at equal queries.

python -m benchmarks.beyond rivals [--only TEXT] [--tables] [--page FILE]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.beyond.fair.command import arguments, finish
from benchmarks.beyond.fair.entrants import OURS, RIVALS, Try
from benchmarks.beyond.fair.problems import ROWS
from benchmarks.beyond.fair.race import Instance, Trace, race, within
from benchmarks.beyond.fair.stored import Stored, rounded
from benchmarks.beyond.fair.tune import SLACK, chosen
from benchmarks.beyond.tables import NOTHING, table
from benchmarks.machine import describe

SEEDS = (1, 2, 3, 4, 5)


def main(words: Sequence[str]) -> int:
    """Make the runs that are missing, or those that are named; print the table."""
    given = arguments("rivals", __doc__, words)
    tuned, stored = Stored(given.runs / "tune.jsonl"), Stored(given.runs / "rivals.jsonl")
    for problem in () if given.tables else ROWS:
        for label in (*RIVALS, OURS):
            if given.wants(f"{problem}: {label}", stored.get(problem, label)):
                entrant = None if label == OURS else chosen(tuned, problem, label)
                if label != OURS and entrant is None:
                    raise SystemExit(f"{problem}: {label} is not tuned: python -m benchmarks.beyond tune")
                _make(stored, problem, label, entrant)
    finish(given, "rivals", rivals_table(stored), stored)
    return 0


def _make(stored: Stored, problem: str, label: str, entrant: Try | None) -> None:
    started, traces = time.perf_counter(), {}
    for seed in SEEDS:
        instance = ROWS[problem](seed)
        most = int(instance.budget * (1.0 if entrant is None else SLACK))
        trace = within_all(race(instance, entrant, seed, most), most)
        traces[str(seed)] = [(queries, rounded(value)) for queries, value in trace]
    settings = "none" if entrant is None else entrant.words
    made = f"`python -m benchmarks.beyond rivals` on {describe()}"
    stored.put(problem, label, made, settings=settings, traces=traces)
    print(f"{problem}: {label}: {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)


def within_all(trace: Trace, queries: int) -> Trace:
    """The entries of a trace within a number of queries."""
    return [point for point in trace if point[0] <= queries]


def results(stored: Stored, problem: str, label: str) -> list[tuple[int, float]]:
    """Queries and F - F* at the end of each seed's run."""
    line = stored.get(problem, label)
    return [] if line is None else [within(trace, np.inf) for trace in line["traces"].values()]


def rivals_table(stored: Stored) -> str:
    """A row for each algorithm, a column for each problem: mean and worst, the least mean in bold."""
    first = {problem: ROWS[problem](SEEDS[0]) for problem in ROWS}
    rows = [["queries", *(f"{instance.budget:,}" for instance in first.values())]]
    rows += [["*the centre of the box, no queries*", *(number(_middle(instance)) for instance in first.values())]]
    ends = {(problem, label): results(stored, problem, label) for problem in ROWS for label in (*RIVALS, OURS)}
    means = {key: float(np.mean([value for _, value in found])) for key, found in ends.items() if found}
    least = {problem: min((mean for (p, _), mean in means.items() if p == problem), default=0.0) for problem in ROWS}
    for label in (*RIVALS, OURS):
        cells = []
        for problem in ROWS:
            values = [value for _, value in ends[problem, label]]
            if not values:
                cells.append(NOTHING)
                continue
            mean = number(means[problem, label])
            bold = f"**{mean}**" if means[problem, label] == least[problem] else mean
            cells.append(f"{bold} ({number(max(values))})")
        rows.append([label, *cells])
    return table(["F - F*: mean (worst)", *ROWS], rows)


def _middle(instance: Instance) -> float:
    """F - F* there, the same for all seeds: what a pull to the middle, as walls make one, gains without knowledge."""
    return instance.gap(np.full(len(instance.x0), 0.5))


def number(value: float) -> str:
    """Two or three digits; what is only rounding is 0."""
    if abs(value) < 1e-12:
        return "0"
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:.2g}" if abs(value) < 0.1 else f"{value:.3g}"
