"""When a second BLAS thread helps: products with matrices of many sizes, on one thread and on all.

    python -m benchmarks.speed.threads

Prints, for each size, the time with all threads over the time with one: above 1, one thread is faster. The library
gives its own products one thread below `fzoos._util.blas.LARGE` numbers.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
from threadpoolctl import ThreadpoolController

from fzoos._util.arrays import FloatArray
from fzoos._util.blas import LARGE

SIZES = ((100, 100), (500, 300), (1_000, 1_000), (2_000, 2_000), (10_000, 300), (10_000, 1_000), (10_000, 2_000))


def seconds(left: FloatArray, right: FloatArray, repeats: int = 15) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - started)
    return median(times)


def main() -> None:
    pool, rng = ThreadpoolController(), np.random.default_rng(0)
    print(f"threads: {[library['num_threads'] for library in pool.info()]}, limit {LARGE:,} numbers")
    print("  rows  columns       numbers  matrix x vector  matrix x 500 columns")
    for rows, columns in SIZES:
        matrix, vector, block = rng.random((rows, columns)), rng.random(columns), rng.random((columns, 500))
        ratios = []
        for right in (vector, block):
            many = seconds(matrix, right)
            with pool.limit(limits=1, user_api="blas"):
                ratios.append(many / seconds(matrix, right))
        print(f"{rows:6d} {columns:8d} {rows * columns:13,d} {ratios[0]:16.2f} {ratios[1]:21.2f}")


if __name__ == "__main__":
    main()
