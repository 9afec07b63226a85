"""Seconds of a run with `workers=2` over those with `workers=1`, BLAS threads as the process has them, in one run.

    python -m benchmarks.speed.workers

Objectives are closures, so that workers are threads. Runs take turns, and the fastest of each kind is taken. CPU
seconds are printed as well: they show threads that wait for each other in a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.machine import describe
from fzoos import Auto, FZooS, Stop, minimize
from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm

N, TURNS = 4, 5


class Case(NamedTuple):
    """What is run."""

    algorithm: Algorithm
    dim: int
    rounds: int
    waits: float = 0.0  # seconds that an objective waits for others, an instrument say


CASES = {
    "FedTrustRegion, d = 20": Case(Auto(), 20, 15),
    "FedLineSearch, d = 300": Case(Auto(), 300, 6),
    "FZooS, d = 300": Case(FZooS(points=150, feature_points=500), 300, 2),
    "FedTrustRegion, d = 20, a query waits 5 ms": Case(Auto(), 20, 10, 0.005),
}


def site(centre: float, waits: float) -> Callable[[FloatArray], float]:
    def f(x: FloatArray) -> float:
        if waits:
            time.sleep(waits)
        return float(np.mean((x - centre) ** 2))

    return f


def run(case: Case, workers: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    sites = [site(0.3 + 0.1 * k, case.waits) for k in range(N)]
    started, cpu = time.perf_counter(), time.process_time()
    minimize(
        sites,
        np.zeros(case.dim),
        bounds=(0, 1),
        algorithm=case.algorithm,
        rounds=case.rounds,
        stop=Stop(tolerance=0.0),
        seed=0,
        workers=workers,
    )
    return time.perf_counter() - started, time.process_time() - cpu


def main() -> None:
    print(f"# N = {N}, workers are threads\n# {describe()}\n")
    print("| | seconds, 1 worker | 2 workers | 2 to 1 | of CPU, 2 to 1 |\n| --- | --- | --- | --- | --- |")
    for name, case in CASES.items():
        run(case._replace(rounds=2), 2)  # what is loaded at the first call
        turns = [[run(case, workers) for workers in (1, 2)] for _ in range(TURNS)]
        (one, one_cpu), (two, two_cpu) = (map(min, zip(*column, strict=True)) for column in zip(*turns, strict=True))
        print(f"| {name} | {one:.2f} | {two:.2f} | {two / one:.2f} | {two_cpu / one_cpu:.2f} |", flush=True)


if __name__ == "__main__":
    main()
