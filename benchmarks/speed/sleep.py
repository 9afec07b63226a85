"""Memory of clients that sleep: N = 100 and 1 000, of which all or a tenth take part in a round.

    python -m benchmarks.speed.sleep

Bytes of all arrays (tracemalloc) after the last round, less the points themselves, which every client keeps.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import tracemalloc
from collections.abc import Callable

import numpy as np

from benchmarks.machine import describe
from fzoos import Auto, FZooS, minimize
from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.testing.problem import with_steps

D, ROUNDS, STEPS = 10, 4, 2
ALGORITHMS: dict[str, Algorithm] = {
    "FedTrustRegion": Auto(),
    "FZooS, M = 500": FZooS(features=500, refresh=None, initial=60),
}


def megabytes(algorithm: Algorithm, clients: int, participation: float) -> tuple[float, float]:
    """Of everything, and of the points, after the last round."""

    def site(centre: float) -> Callable[[FloatArray], FloatArray]:
        def f(x: FloatArray) -> FloatArray:
            values: FloatArray = np.mean((x - centre) ** 2, axis=1)
            return values

        return f

    found, asked = 0, 0

    def note(record: object) -> None:
        nonlocal found, asked
        found, asked = tracemalloc.get_traced_memory()[0], record.queries  # type: ignore[attr-defined]

    tracemalloc.start()
    minimize(
        [site(c) for c in np.linspace(0.2, 0.8, clients)],
        np.zeros(D),
        bounds=(0, 1),
        algorithm=with_steps(algorithm, STEPS),
        rounds=ROUNDS,
        participation=participation,
        vectorized=True,
        callback=note,
        seed=0,
    )
    tracemalloc.stop()
    return found / 1e6, asked * (D + 2) * 8 / 1e6


def main() -> None:
    print(f"# d = {D}, {ROUNDS} rounds\n# {describe()}\n")
    print("| algorithm | N | participants | MB | MB of the points | the rest, kB per participant |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, algorithm in ALGORITHMS.items():
        megabytes(algorithm, 2, 1.0)  # so that what is imported on the way is not counted
        for clients, participation in ((100, 1.0), (100, 0.1), (1_000, 0.1), (1_000, 1.0)):
            whole, points = megabytes(algorithm, clients, participation)
            count = round(clients * participation)
            rest = (whole - points) / max(count, 32) * 1e3
            print(f"| {name} | {clients:,} | {count:,} | {whole:.1f} | {points:.1f} | {rest:.0f} |", flush=True)


if __name__ == "__main__":
    main()
