"""The tables of README.md.

    python -m benchmarks.prototypes many [--rows ROW ...] [--seeds 1 2 3]
    python -m benchmarks.prototypes few [--rows ROW ...] [--seeds 1 2 3] [--queries 100 500] [--cma]

Rows are "goals" (all that have a goal), "held-out" or names from problems.py and problems_few.py. --queries are those
of one client. --cma runs pooled CMA-ES beside (needs `pip install cmaes`). Constants were chosen on seeds 101 and 102.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.machine import describe
from benchmarks.prototypes import few, many, problems, problems_few
from benchmarks.prototypes.pooled import BOBYQA, cma_es
from benchmarks.prototypes.problems import Trace
from fzoos._util.arrays import FloatArray


def main() -> None:
    """Run and print."""
    arguments = _arguments()
    print(describe())
    if arguments.regime == "many":
        _table(many_rows(arguments.rows, arguments.seeds))
    else:
        _table(few_rows(arguments.rows, arguments.seeds, arguments.queries, arguments.cma))


def many_rows(names: Sequence[str], seeds: Sequence[int]) -> Iterable[list[str]]:
    """F - F* of the last round that ended within the budget (held-out: F / F(x_0)), mean and single seeds."""
    yield ["row", "queries", "goal", "mean", "single seeds", "goal reached at (rounds, queries)", "s"]
    makers = {**problems.ROWS, **problems.HELD_OUT}
    for name in _chosen(names, problems.ROWS, problems.HELD_OUT):
        start, results, reached = time.perf_counter(), [], []
        for seed in seeds:
            problem = makers[name](seed)
            trace = many.run(problem.objectives, problem.x0, problem.budget, seed)
            results.append(problem.excess(within(trace, problem.budget)))
            reached.append(_first(trace, problem.excess, problem.goal))
        goal = "-" if problem.goal is None else f"{problem.goal:g}"
        singles = " ".join(f"{r:.4f}" for r in results)
        took = f"{time.perf_counter() - start:.1f}"
        yield [name, f"{problem.budget:,}", goal, f"{np.mean(results):.4f}", singles, " / ".join(reached), took]


def few_rows(names: Sequence[str], seeds: Sequence[int], cuts: Sequence[int], rival: bool) -> Iterable[list[str]]:
    """F - F* at the server's last x, median and worst; and where the run ended by itself."""
    places = " / ".join(f"N x {cut}" for cut in cuts)
    goal = "goal at N x 100 / N x 500: ahead of CMA-ES, and ten times Py-BOBYQA or 1e-6"
    beside = ["pooled CMA-ES"] if rival else []
    yield ["row", goal, f"median at {places}", "worst", *beside, "ended by itself after (queries of a client)", "s"]
    makers = {**problems_few.ROWS, **problems_few.HELD_OUT}
    for name in _chosen(names, problems_few.ROWS, problems_few.HELD_OUT):
        start, results, ends = time.perf_counter(), [], []
        for seed in seeds:
            problem = makers[name](seed)
            trace, status = few.run(problem.objectives, problem.x0, max(cuts), seed)
            results.append([problem.excess(within(trace, cut)) for cut in cuts])
            ends.append(str(trace[-1][0]) if status == "converged" else "-")
        took = f"{time.perf_counter() - start:.1f}"
        goal = _numbers([max(10 * value, 1e-6) for value in BOBYQA[name]]) if name in BOBYQA else "-"
        if rival:
            beside = [_numbers(np.median([cma_es(makers[name](seed), seed, cuts) for seed in seeds], 0))]
        yield [name, goal, _numbers(np.median(results, 0)), _numbers(np.max(results, 0)), *beside, " ".join(ends), took]


def within(trace: Trace, queries: int) -> FloatArray:
    """Where the server stood after the last round that ended within so many queries; before any, at the first."""
    return ([x for count, x in trace if count <= queries] or [trace[0][1]])[-1]


def _first(trace: Trace, excess: Callable[[FloatArray], float], goal: float | None) -> str:
    if goal is None:
        return "-"
    found = [f"{rounds}, {count:,}" for rounds, (count, x) in enumerate(trace) if excess(x) <= goal]
    return found[0] if found else "not"


def _chosen(names: Sequence[str], goals: Iterable[str], held_out: Iterable[str]) -> list[str]:
    """Names, with the two groups spelt out."""
    groups = {"goals": list(goals), "held-out": list(held_out)}
    known = [*groups["goals"], *groups["held-out"]]
    chosen = [row for name in names for row in groups.get(name, [name])]
    for name in chosen:
        if name not in known:
            raise SystemExit(f"no row {name!r}; there are goals, held-out, {', '.join(known)}")
    return chosen


def _numbers(values: Iterable[float]) -> str:
    return " / ".join(f"{v:.1e}" for v in values)


def _table(rows: Iterable[list[str]]) -> None:
    for index, row in enumerate(rows):
        print("| " + " | ".join(row) + " |", flush=True)
        if index == 0:
            print("|" + " --- |" * len(row))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prototypes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("regime", choices=["many", "few"])
    parser.add_argument("--rows", nargs="+", default=["goals"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--queries", nargs="+", type=int, default=[100, 500])
    parser.add_argument("--cma", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
