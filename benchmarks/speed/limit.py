"""CPU seconds of a round of `FixedFZooS()` below and above its limit of points, beside the counted floor, in one run.

    python -m benchmarks.speed.limit

One core; N = 5, T = 10. A client uses its 500 nearest points, at most 525 for a while. What a round cannot do without,
with n points in use, k candidates and m new points in all, at rates measured in the same run:

    uncertainties   T - 1 times: distances 2 n k d and two products 4 n^2 k operations; n k exponentials; A^-1 and D
                    are read
    new points      m (2 n d + 6 n^2) operations: distances, two products with the inverse factor W, and A^-1;
                    of the T - 1 that come singly W is read twice, and A^-1 read and written

Making the factor anew, where more points have left than it may have too many, is not in it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.machine import best_of, describe
from fzoos import FixedFZooS, minimize
from fzoos._util.arrays import FloatArray

N, T, CANDIDATES, LIMIT = 5, 10, 100, 500
CASES = {300: 12, 20: 60}  # dimensions, and rounds


class Round(NamedTuple):
    """Of one round, per client: CPU seconds, queries in it, and queries in all."""

    seconds: float
    new: int
    total: int


def rounds(dim: int, count: int) -> list[Round]:
    """Of a run on bowls with ripples, whose clients differ."""
    rng = np.random.default_rng(5)
    centres, scales = rng.uniform(0.3, 0.7, (N, dim)), rng.uniform(0.5, 2.0, (N, dim))
    asked = [0]

    def site(k: int) -> Callable[[FloatArray], FloatArray]:
        def f(x: FloatArray) -> FloatArray:
            asked[0] += len(x)
            gap = x - centres[k]
            values: FloatArray = np.mean(scales[k] * gap**2 + 0.02 * np.cos(9.0 * gap), axis=1)
            return values

        return f

    spent, queries = [time.process_time()], [0]

    def note(_: object) -> None:
        spent.append(time.process_time())
        queries.append(asked[0])

    minimize(
        [site(k) for k in range(N)],
        np.zeros(dim),
        bounds=(0, 1),
        algorithm=FixedFZooS(),
        rounds=count,
        local_steps=T,
        tolerance=0.0,
        vectorized=True,
        callback=note,
        seed=0,
    )
    columns = np.diff(spent) / N, np.diff(queries) // N, np.array(queries[1:]) // N
    return [Round(float(s), int(new), int(total)) for s, new, total in zip(*columns, strict=True)]


def floor(dim: int, new: int, points: int) -> float:
    """Seconds of a round that a client cannot do without."""
    square, line = np.random.default_rng(0).standard_normal((1000, 1000)), np.full(2**15, -0.1)
    source, target = np.ones((500, 500)), np.ones((500, 500))
    operation = best_of(lambda: square @ square) / (2 * len(square) ** 3)
    exponential = best_of(lambda: np.exp(line)) / line.size
    moved = best_of(lambda: np.copyto(target, source)) / (2 * source.size)  # a number read or written
    n, k = points, CANDIDATES
    ranked = (2 * n * k * dim + 4 * n * n * k) * operation + n * k * exponential + 2 * n * n * moved
    added = new * (2 * n * dim + 6 * n * n) * operation + (T - 1) * 4 * n * n * moved
    return (T - 1) * ranked + added


def main() -> None:
    print(f"# N = {N}, T = {T}, CPU per client and round\n# {describe()}\n")
    print("| d | rounds | points in use | ms | floor, ms | to it |\n| --- | --- | --- | --- | --- | --- |")
    for dim, count in CASES.items():
        made = rounds(dim, count)
        below = [i for i, r in enumerate(made) if 0.7 * LIMIT < r.total <= LIMIT]
        above = [i for i, r in enumerate(made) if r.total - r.new > LIMIT][:3]
        for which in (below, above, list(range(count))[-3:]):
            seconds = float(np.median([made[i].seconds for i in which]))
            points = min(LIMIT, int(np.mean([made[i].total for i in which])))
            least = floor(dim, made[which[0]].new, points)
            named = f"{which[0] + 1} to {which[-1] + 1}" if len(which) > 1 else str(which[0] + 1)
            cells = (dim, named, points, f"{1e3 * seconds:.1f}", f"{1e3 * least:.1f}", f"{seconds / least:.1f}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
