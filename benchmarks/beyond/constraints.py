"""Constraints that are returned as (f, c), compared with penalties that are added to f by hand.

    python -m benchmarks.beyond.constraints [--only TEXT] [--tables] [--page docs/beyond.md]

Five problems whose optimum is known, each with one client and with three: those have a part of f each, and each
constraint is known to one of them only. All use the default, FedTrustRegion here, with 100 queries
a client at most. The penalty's rho is the best of seven, chosen for each problem, number of clients and form on two
tuning seeds, by the larger of
|F - F*| / (1 + |F*|) and the violation: that is fourteen runs more, and F* is known to who chooses. Starts are uniform
in the box, one for each seed.

A run is stored as its x; F and c in the table are computed from it.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.beyond.constraints_problems import PROBLEMS, Constrained, Point, Term
from benchmarks.beyond.fair.command import arguments, finish
from benchmarks.beyond.fair.stored import Stored
from benchmarks.machine import describe
from fzoos import minimize

SEEDS, TUNING_SEEDS = (1, 2, 3), (101, 102)
CLIENTS = (1, 3)
QUERIES = 100  # of each client
RHOS = tuple(10.0**k for k in range(-2, 5))  # in units of 1 + |F*|
PENALTIES: dict[str, Callable[[float], float]] = {
    "f + rho max(0, c)": lambda c: max(0.0, c),
    "f + rho max(0, c)^2": lambda c: max(0.0, c) ** 2,
}
TOLD = "(f, c)"
DONE = 1e-12  # a smaller gap or violation is one of rounding


def constrained(f: Term, constraints: Sequence[Term]) -> Callable[[Point], Any]:
    """(f, c), or f where there are none."""
    return (lambda x: (f(x), [c(x) for c in constraints])) if constraints else f


def punished(f: Term, constraints: Sequence[Term], rho: float, form: str) -> Term:
    """f with a penalty."""
    return lambda x: f(x) + rho * sum(PENALTIES[form](c(x)) for c in constraints)


def solve(problem: Constrained, count: int, form: str, rho: float, seed: int) -> tuple[Point, int]:
    """The x that is reported, and the queries of all clients until then."""
    clients = problem.clients(count)
    weight = rho * count * (1.0 + abs(problem.least))  # of a mean over clients: rho as it is for one
    made = [constrained(f, c) if form == TOLD else punished(f, c, weight, form) for f, c in clients]
    found = minimize(
        made,
        problem.start(seed),
        bounds=problem.box,
        rounds=10 * QUERIES,
        max_queries=count * QUERIES,
        seed=seed,
    )
    return found.x, found.queries


def label(form: str, rho: float, seed: int) -> str:
    """Of a run."""
    return f"{form}: seed {seed}" if form == TOLD else f"{form}, rho {rho:g}: seed {seed}"


def stored_x(stored: Stored, name: str, count: int, form: str, rho: float, seed: int) -> Point | None:
    """Where a run ended, if it was made."""
    line = stored.get(f"{name}, N = {count}", label(form, rho, seed))
    return None if line is None else np.array(line["x"])


def best_rho(stored: Stored, name: str, count: int, form: str) -> float:
    """The rho of the smallest mean error on the tuning seeds; nan where a run is missing."""
    problem, errors = PROBLEMS[name], []
    for rho in RHOS:
        ends = [stored_x(stored, name, count, form, rho, seed) for seed in TUNING_SEEDS]
        errors.append([math.nan if x is None else max(abs(problem.gap(x)), problem.violation(x)) for x in ends])
    means = np.mean(errors, axis=1)
    return math.nan if np.isnan(means).any() else RHOS[int(np.argmin(means))]


def table(stored: Stored) -> str:
    """Medians over the seeds, of the stored runs."""
    lines = [
        "| (F - F\\*) / (1 + \\|F\\*\\|); largest violation: medians | " + " | ".join([TOLD, *PENALTIES]) + " |",
        "| --- |" + " --- |" * (1 + len(PENALTIES)),
    ]
    for name, problem in PROBLEMS.items():
        for count in CLIENTS:
            cells = []
            for form in (TOLD, *PENALTIES):
                rho = 0.0 if form == TOLD else best_rho(stored, name, count, form)
                found = [x for seed in SEEDS if (x := stored_x(stored, name, count, form, rho, seed)) is not None]
                cells.append(_cell(problem, found) + ("" if form == TOLD or not found else f" (rho {rho:g})"))
            lines.append(f"| {name}, d = {len(problem.box)}, N = {count} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(problem: Constrained, found: Sequence[Point]) -> str:
    if len(found) < len(SEEDS):
        return "–"
    medians = (float(np.median([measure(x) for x in found])) for measure in (problem.gap, problem.violation))
    return "; ".join("0" if abs(value) < DONE else f"{value:.1e}" for value in medians)


def main(words: Sequence[str] = ()) -> int:
    """Make the runs that are missing, print the table."""
    given = arguments("constraints", __doc__, words)
    stored, machine = Stored(given.runs / "constraints.jsonl"), describe()

    def make(name: str, count: int, form: str, rho: float, seed: int) -> None:
        where, run = f"{name}, N = {count}", label(form, rho, seed)
        if not given.wants(f"{where}: {run}", stored.get(where, run)):
            return
        began = time.process_time()
        x, queries = solve(PROBLEMS[name], count, form, rho, seed)
        seconds = round(time.process_time() - began, 2)
        stored.put(where, run, machine, x=x.tolist(), queries=queries, seconds=seconds)
        print(f"{where}: {run}: {_cell(PROBLEMS[name], [x] * len(SEEDS))}, {seconds} s", file=sys.stderr)

    for name in () if given.tables else PROBLEMS:
        for count in CLIENTS:
            for seed in SEEDS:
                make(name, count, TOLD, 0.0, seed)
            for form in PENALTIES:
                for rho, seed in itertools.product(RHOS, TUNING_SEEDS):
                    make(name, count, form, rho, seed)
                for seed in SEEDS:
                    make(name, count, form, best_rho(stored, name, count, form), seed)
    finish(given, "constraints", table(stored), stored)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
