"""CPU seconds of a round of the default beside the floor, from 2 to 20 000 dimensions, in one run.

    python -m benchmarks.speed.default                  # all of it
    python -m benchmarks.speed.default 2 10 20 50       # these dimensions only

One core; N = 2, so that seconds per client are not those of a single one. The floor is what the round has to compute,
counted in multiplications and additions, at the rate of a large matrix product in the same run:

    trust region    evidence: Cholesky factors of n x n (n^3 / 3 each), as many as the run makes, and the inverse of one
                    (n^3 / 3); averaged gradients: a system of n' (n' - 1) equations; a minimum: 5 matrices of second
                    derivatives and their factors (2 n d^2 + d^3 / 3 each). n is what a client has at round 20, where
                    the time is taken
    star            bytes that have to be moved are counted as well: see `benchmarks/speed/star.py`, which also leaves
                    out the objective's own time

A matrix of 60 x 60 is too small for that rate: the calls of LAPACK alone are timed as well, and for the trust region
the matrix products and the exponentials of kernels and evaluations.
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
from fzoos._util.arrays import FloatArray
from fzoos.surrogates import maximum_evidence

N = 2
REGION, STAR = (2, 10, 20, 50), (100, 300, 1_000, 2_000, 5_000, 20_000)
EARLY, LATE = 20, 200
LENGTHS, GRADIENTS, EVALUATIONS = 4, 15, 5  # length scales tried; averaged gradients; evaluations of the surrogates
CYCLE = 16  # rounds that are averaged: every eighth search goes through all length scales; late twice as many


class Measured(NamedTuple):
    """CPU seconds per client and round, early and late, and queries and, early, factors per client and round."""

    early: float
    late: float
    queries: float
    factors: float


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
    spent, queries, factors, made = [time.process_time()], [0], [0], [0]

    def note(_: object) -> None:
        spent.append(time.process_time())
        queries.append(sum(asked))
        factors.append(made[0])

    compute = maximum_evidence._Search._compute

    def counted(search: maximum_evidence._Search, *which: int) -> float:
        made[0] += 1
        return compute(search, *which)

    maximum_evidence._Search._compute = counted  # type: ignore[assignment,method-assign]
    try:
        star.solve([site(k) for k in range(N)], dim, last, note)
    finally:
        maximum_evidence._Search._compute = compute  # type: ignore[method-assign]
    seconds, first, end = np.diff(spent) / N, EARLY - CYCLE // 2, EARLY + CYCLE // 2
    return Measured(
        float(np.mean(seconds[first:end])),
        float(np.mean(seconds[-2 * CYCLE :])),
        (queries[-1] - queries[1]) / N / (last - 1),
        (factors[end] - factors[first]) / N / CYCLE,
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


def region_flops(dim: int, factors: float) -> float:
    n, equations = region_points(dim), GRADIENTS * min(GRADIENTS - 1, dim)
    return (factors + 1) * n**3 / 3 + equations**3 / 3 + EVALUATIONS * (2 * n * dim**2 + dim**3 / 3)


def region_calls(dim: int, factors: float) -> float:
    """Factors and what is solved with them, the system of equations, kernels, and second derivatives, alone."""
    rng, n, equations = np.random.default_rng(0), region_points(dim), GRADIENTS * min(GRADIENTS - 1, dim)
    lapack = scipy.linalg.lapack
    points, many = rng.random((n, dim)), rng.random((equations, equations))
    squares = np.sum((points[:, None] - points) ** 2, axis=-1)
    kernel = np.exp(-squares) + 200.0 * points @ points.T + 1e-3 * np.eye(n)
    system, right, both = many @ many.T + np.eye(equations), np.ones(equations), np.ones((n, 2), order="F")
    lower = lapack.dpotrf(kernel.T, lower=1)[0]
    bend = points.T @ points + np.eye(dim)
    one_factor = cpu(lambda: lapack.dpotrf(kernel.T, lower=1, clean=0)) + cpu(
        lambda: lapack.dtrtrs(lower, both, lower=1)
    )
    inverse, solved = cpu(lambda: lapack.dtrtri(lower, lower=1)), cpu(lambda: lapack.dposv(system, right, lower=1))
    made = cpu(lambda: np.exp(squares)) * LENGTHS
    one = cpu(lambda: points.T @ points) + cpu(lambda: np.exp(points[:, 0])) + cpu(lambda: lapack.dposv(bend, bend[0]))
    return factors * one_factor + inverse + solved + made + EVALUATIONS * one


def main() -> None:
    dims = [int(text) for text in sys.argv[1:]] or [*REGION, *STAR]
    print(f"# Auto(), CPU seconds per client and round, N = {N}, one core\n# {describe()}\n")
    print("| d | queries | ms | ms a query | floor, ms | to it | calls alone, ms | to it | round 200 to round 20 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for dim in dims:
        if dim not in REGION:
            print(star.row(dim), flush=True)
            continue
        found, rate = rounds(dim, LATE), product_rate()
        floor, calls = region_flops(dim, found.factors) / rate, region_calls(dim, found.factors)
        alone = f"{calls * 1e3:.1f} | {found.early / calls:.1f}"
        ms, late = found.early * 1e3, f"{found.late / found.early:.2f}"
        print(
            f"| {dim:,} | {found.queries:.0f} | {ms:.1f} | {ms / found.queries:.2f} | {floor * 1e3:.1f} | "
            f"{found.early / floor:.1f} | {alone} | {late} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
