"""How the time of one local step grows with the trajectory n, the dimension d and the features M.

    python -m benchmarks.speed.growth

A local step with the whole trajectory in use: the 5 newest points enter the factor, the local gradient, the correction,
and the uncertainty of 100 candidates and x. One core; peak memory is that of the arrays (tracemalloc).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from benchmarks.machine import best_of, describe
from fzoos._util.arrays import FloatArray
from fzoos.surrogates.fourier import FourierFeatures
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import SquaredExponential

CANDIDATES, PICKS = 101, 5
BLOCK = 500  # points per block while the trajectory is filled


def prepare(n: int, d: int, m: int, device: str | None = None) -> Callable[[], tuple[FloatArray, FloatArray]]:
    """A surrogate of n points and features, and the local step to be timed; each call adds 5 points."""
    rng = np.random.default_rng(0)
    kernel = SquaredExponential(1.0)
    gp = DerivedGP(kernel, noise=1e-6, dim=d, device=device)
    x = np.full(d, 0.5)

    def around(count: int) -> FloatArray:
        points: FloatArray = x + rng.uniform(-1.0, 1.0, (count, d)) / np.sqrt(d)
        return points

    for start in range(0, n, BLOCK):
        points = around(min(BLOCK, n - start))
        gp.append(points, points.sum(axis=1))
    features = FourierFeatures(0, m, d, kernel, device)
    w = rng.standard_normal(m)

    def step() -> tuple[FloatArray, FloatArray]:
        """The gradient estimate and the uncertainties, as NumPy arrays: nothing is left pending on a device."""
        new = around(PICKS)
        gp.append(new, new.sum(axis=1))
        gradient = gp.grad_mean(x) + features.grad(x, w)
        return gradient, gp.grad_uncertainty(around(CANDIDATES))

    return step


def seconds(n: int, d: int, m: int, repeats: int = 7, device: str | None = None) -> float:
    """The fastest of several steps."""
    step = prepare(n, d, m, device)
    step()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return min(times)


def peak_megabytes(n: int, d: int, m: int) -> float:
    """Peak of the arrays while the surrogate is built and one step is made."""
    tracemalloc.start()
    prepare(n, d, m)()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def flops(n: int, d: int, m: int) -> float:
    """Multiplications and additions of the matrix products in one step."""
    trace = 2 * 2 * n * n * CANDIDATES  # A^{-1} C and (A^{-1} o D) C
    append = 3 * 2 * n * n * PICKS  # L_21, the new rows of W, the update of A^{-1}
    distances = 2 * n * d * (CANDIDATES + PICKS)
    return trace + append + distances + 2 * 2 * n * d + 2 * 2 * m * d


def sweep(title: str, sizes: list[tuple[int, int, int]], vary: int) -> None:
    """Print one table and the exponents: fitted to all of it, and between its last two rows."""
    print(f"\n| {title} | seconds | peak MB | Gflop/s |\n| --- | --- | --- | --- |")
    times = []
    for size in sizes:
        times.append(seconds(*size))
        memory, rate = peak_megabytes(*size), flops(*size) / times[-1] / 1e9
        print(f"| {size[vary]:,} | {times[-1]:.4f} | {memory:.0f} | {rate:.1f} |", flush=True)
    values = [size[vary] for size in sizes]
    slope = np.polyfit(np.log(values), np.log(times), 1)[0]
    last = np.log(times[-1] / times[-2]) / np.log(values[-1] / values[-2])
    print(f"\nfitted exponent {slope:.2f}; between the last two {last:.2f}")


def main() -> None:
    print(f"# One local step of FZooS with the whole trajectory, one core\n# {describe()}")
    a, c = np.random.default_rng(0).standard_normal((2000, 2000)), np.random.default_rng(1).standard_normal((2000, 101))

    def product_rate() -> float:
        return 2 * 2000 * 2000 * CANDIDATES / best_of(lambda: a @ c) / 1e9

    before = product_rate()
    at_2000 = flops(2000, 300, 10_000) / seconds(2000, 300, 10_000) / 1e9
    rate = max(before, product_rate())
    print(f"\nmatrix product 2000 x 2000 by 2000 x 101: {rate:.1f} Gflop/s")
    print(f"local step at n = 2000, d = 300, M = 10 000: {at_2000:.1f} Gflop/s, {at_2000 / rate:.0%} of it")
    sweep("n (d = 300, M = 10 000)", [(n, 300, 10_000) for n in (500, 1000, 2000, 4000)], 0)
    sweep("d (n = 1 000, M = 1 000)", [(1000, d, 1000) for d in (100, 300, 1000, 2000, 4000)], 1)
    sweep("M (n = 500, d = 300)", [(500, 300, m) for m in (1000, 10_000, 30_000, 100_000)], 2)


if __name__ == "__main__":
    main()
