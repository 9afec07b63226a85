"""CPU seconds of a round of `FZooS()` beside the floor, from 2 to 20 000 dimensions, in one run.

    python -m benchmarks.speed.default                  # all of it
    python -m benchmarks.speed.default 2 10 20 50       # these dimensions only

One core; N = 2, so that seconds per client are not those of a single one. The floor is what the round has to compute,
counted in multiplications and additions, at the rate of a large matrix product in the same run:

    trust region    evidence: 15 matrices of n x n to tridiagonal form (4/3 n^3 each), eigenvectors of two (9 n^3),
                    averaged gradients: a system of n' (n' - 1) equations; no more than that is counted. n is what a
                    client has at round 20, where the time is taken
    star            bytes that have to be moved are counted as well: see `benchmarks/speed/star.py`, which also leaves
                    out the objective's own time

A matrix of 60 x 60 is too small for that rate: the calls of LAPACK alone are timed as well, and for the trust region
SciPy's L-BFGS-B around a function that does nearly nothing, for 35 evaluations.
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
import scipy

from benchmarks.machine import describe
from benchmarks.speed import star
from fzoos import FZooS, minimize
from fzoos._util.arrays import FloatArray

N = 2
REGION, STAR = (2, 10, 20, 50), (100, 300, 1_000, 2_000, 5_000, 20_000)
EARLY, LATE = 20, 200
GRID, GRADIENTS, EVALUATIONS = 15, 15, 35  # length scales times polynomials; averaged gradients; of the surrogates


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


def region_points(dim: int) -> int:
    """Of a client at round 20: a star and x, then two a round; at most max(60, 3 d)."""
    return min(max(60, 3 * dim), dim + 1 + 2 * (EARLY - 1))


def region_flops(dim: int) -> float:
    n, equations = region_points(dim), GRADIENTS * min(GRADIENTS - 1, dim)
    return GRID * 4 / 3 * n**3 + 2 * 9 * n**3 + 2 / 3 * equations**3


def region_calls(dim: int) -> float:
    """Tridiagonal forms, two eigendecompositions, the system of equations and L-BFGS-B, alone."""
    rng, n, equations = np.random.default_rng(0), region_points(dim), GRADIENTS * min(GRADIENTS - 1, dim)
    points, many = rng.random((n, dim)), rng.random((equations, equations))
    kernel = np.exp(-np.sum((points[:, None] - points) ** 2, axis=-1)) + 200.0 * points @ points.T
    system, right = many @ many.T + np.eye(equations), np.ones(equations)
    tridiagonal = cpu(lambda: scipy.linalg.lapack.dsytrd(kernel.T, lower=1, lwork=64 * n))
    decomposed, solved = cpu(lambda: np.linalg.eigh(kernel)), cpu(lambda: np.linalg.solve(system, right))
    return GRID * tridiagonal + 2 * decomposed + solved + EVALUATIONS * evaluation(dim)


def evaluation(dim: int) -> float:
    """L-BFGS-B's own time for one evaluation."""
    scales, bounds = np.geomspace(1.0, 1e4, dim), [(-1.0, 1.0)] * dim

    def slope(x: FloatArray) -> FloatArray:
        found: FloatArray = scales * (x - 0.3)
        return found

    def least() -> int:
        start, options = np.zeros(dim), {"ftol": 1e-15, "gtol": 1e-10}
        return scipy.optimize.minimize(  # type: ignore[no-any-return,call-overload]
            lambda x: float(0.5 * scales @ (x - 0.3) ** 2),
            start,
            jac=slope,
            method="L-BFGS-B",
            bounds=bounds,
            options=options,
        ).nfev

    return cpu(least) / least()


def main() -> None:
    dims = [int(text) for text in sys.argv[1:]] or [*REGION, *STAR]
    print(f"# FZooS(), CPU seconds per client and round, N = {N}, one core\n# {describe()}\n")
    print("| d | queries | ms | ms a query | floor, ms | to it | calls alone, ms | to it | round 200 to round 20 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for dim in dims:
        if dim not in REGION:
            print(star.row(dim), flush=True)
            continue
        found, rate = rounds(dim, LATE), product_rate()
        floor, calls = region_flops(dim) / rate, region_calls(dim)
        alone = f"{calls * 1e3:.1f} | {found.early / calls:.1f}"
        ms, late = found.early * 1e3, f"{found.late / found.early:.2f}"
        print(
            f"| {dim:,} | {found.queries:.0f} | {ms:.1f} | {ms / found.queries:.2f} | {floor * 1e3:.1f} | "
            f"{found.early / floor:.1f} | {alone} | {late} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
