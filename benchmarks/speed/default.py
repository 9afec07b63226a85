"""CPU seconds of a round of `FZooS()` beside the floor, from 2 to 1 000 dimensions, in one run.

    python -m benchmarks.speed.default                  # all of it
    python -m benchmarks.speed.default 2 10 20 50       # these dimensions only

One core; N = 2, so that seconds per client are not those of a single one. The floor is what the round has to compute,
counted in multiplications and additions, at the rate of a large matrix product in the same run:

    trust region    evidence: 15 matrices of n x n to tridiagonal form (4/3 n^3 each), eigenvectors of two (9 n^3),
                    averaged gradients: a system of n' (n' - 1) equations; no more than that is counted
    star            two surrogates of n points: distances n^2 d, Cholesky factor n^3 / 3

A matrix of 60 x 60 is too small for that rate, so that the LAPACK calls alone are timed as well, for the trust region.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.machine import describe
from fzoos import FZooS, minimize
from fzoos._util.arrays import FloatArray

N = 2
REGION, STAR = (2, 10, 20, 50), (100, 300, 1_000)
EARLY, LATE = 20, 200
GRID, GRADIENTS = 15, 15  # length scales times polynomials; averaged gradients


class Measured(NamedTuple):
    """CPU seconds per client and round, early and late, and queries per client and round."""

    early: float
    late: float
    queries: float


def rounds(dim: int, last: int) -> Measured:
    """Of a run on bowls with ripples, whose clients differ."""
    rng = np.random.default_rng(5)
    centres, scales = rng.uniform(0.3, 0.7, (N, dim)), rng.uniform(0.5, 2.0, (N, dim))

    def site(k: int) -> Callable[[FloatArray], FloatArray]:
        def f(x: FloatArray) -> FloatArray:
            gap = x - centres[k]
            values: FloatArray = np.mean(scales[k] * gap**2 + 0.02 * np.cos(9.0 * gap), axis=1)
            asked.append(len(x))
            return values

        return f

    asked: list[int] = []
    spent, queries = [time.process_time()], [0]

    def note(_: object) -> None:
        spent.append(time.process_time())
        queries.append(sum(asked))

    minimize(
        [site(k) for k in range(N)],
        np.full(dim, 0.1),
        bounds=(0, 1),
        algorithm=FZooS(),
        rounds=last,
        tolerance=0.0,
        vectorized=True,
        callback=note,
        seed=0,
    )
    seconds = np.diff(spent) / N
    early = seconds[max(min(EARLY, last) - 5, 1) : min(EARLY, last) + 5]
    return Measured(
        float(np.median(early)),
        float(np.mean(seconds[-12:])),
        (queries[-1] - queries[1]) / N / (last - 1),
    )


def cpu(work: Callable[[], object], repeats: int = 7) -> float:
    """CPU seconds of the fastest of several calls."""
    times = []
    for _ in range(repeats):
        started = time.process_time_ns()
        work()
        times.append(time.process_time_ns() - started)
    return min(times) / 1e9


def product_rate() -> float:
    a = np.random.default_rng(0).standard_normal((1000, 1000))
    return 2e9 / cpu(lambda: a @ a)


def region_flops(dim: int) -> float:
    n, equations = max(60, 3 * dim), GRADIENTS * min(GRADIENTS - 1, dim)
    return GRID * 4 / 3 * n**3 + 2 * 9 * n**3 + 2 / 3 * equations**3


def region_calls(dim: int) -> float:
    """The eigendecompositions and the system of equations, alone."""
    rng, n, equations = np.random.default_rng(0), max(60, 3 * dim), GRADIENTS * min(GRADIENTS - 1, dim)
    points, many = rng.random((n, dim)), rng.random((equations, equations))
    kernel = np.exp(-np.sum((points[:, None] - points) ** 2, axis=-1)) + 200.0 * points @ points.T
    system, right = many @ many.T + np.eye(equations), np.ones(equations)
    return (GRID + 1) * cpu(lambda: np.linalg.eigh(kernel)) + cpu(lambda: np.linalg.solve(system, right))


def star_flops(dim: int, asked: float) -> float:
    """A star of what was asked, and a memory of 2 d points or as many as there are."""
    return sum(n * n * dim + n**3 / 3 for n in (asked - 12, min(2 * dim + 1, LATE * asked)))


def main() -> None:
    dims = [int(text) for text in sys.argv[1:]] or [*REGION, *STAR]
    print(f"# FZooS(), CPU seconds per client and round, N = {N}, one core\n# {describe()}\n")
    print("| d | queries | ms | ms a query | floor, ms | to it | LAPACK alone, ms | to it | round 200 to round 20 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for dim in dims:
        last = LATE if dim <= 300 else 25
        found, rate = rounds(dim, last), product_rate()
        if dim in REGION:
            floor, calls = region_flops(dim) / rate, region_calls(dim)
            alone = f"{calls * 1e3:.1f} | {found.early / calls:.1f}"
        else:
            floor, alone = star_flops(dim, found.queries) / rate, " | "
        ms, late = found.early * 1e3, f"{found.late / found.early:.2f}" if last == LATE else ""
        print(
            f"| {dim:,} | {found.queries:.0f} | {ms:.1f} | {ms / found.queries:.2f} | {floor * 1e3:.1f} | "
            f"{found.early / floor:.1f} | {alone} | {late} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
