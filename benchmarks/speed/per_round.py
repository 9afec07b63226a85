"""Seconds per round of FZooS at the paper's size: ours, the floor, and a textbook implementation, in one run.

    python -m benchmarks.speed.per_round

d = 300, N = 5, T = 10, M = 10 000, the 150 nearest points for the local surrogate and 500 for the features, one core.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, whatever the machine has
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np

from benchmarks.machine import best_of, describe
from benchmarks.speed.textbook import Textbook
from fzoos import FZooS, minimize
from fzoos._util.arrays import cos_in_place, sin
from fzoos_experiments.tasks import Quadratic

D, N, T, M = 300, 5, 10, 10_000
GP_POINTS, FEATURE_POINTS = 150, 500
ALGORITHM = FZooS(points=GP_POINTS, feature_points=FEATURE_POINTS)
NEW = ALGORITHM.queries(D, first=False, refreshed=True)  # new points of a client in a round


def floor() -> dict[str, float]:
    """Seconds per round and client of what cannot be avoided, each part measured alone on warm data."""
    rng = np.random.default_rng(0)
    v, x, w = rng.standard_normal((M, D)), rng.standard_normal(D), rng.standard_normal(M)
    new, used = rng.standard_normal((NEW, D)), rng.standard_normal((FEATURE_POINTS, M))
    angles, alpha = new @ v.T, rng.standard_normal(FEATURE_POINTS)
    return {
        f"correction: 2 passes over V ({v.nbytes / 1e6:.0f} MB) and {M:,} sines, {T} times": T
        * (best_of(lambda: v @ x) + best_of(lambda: w @ v) + best_of(lambda: sin(w))),
        f"angles of {NEW} new points: {2 * NEW * D * M / 1e9:.2f} Gflop": best_of(lambda: new @ v.T),
        f"their {NEW * M / 1e6:.2f} million cosines": best_of(lambda: cos_in_place(angles)),
        f"Gram update, {NEW} x {FEATURE_POINTS}: {2 * NEW * FEATURE_POINTS * M / 1e9:.2f} Gflop": best_of(
            lambda: angles @ used.T
        ),
        f"weights: one pass over the features ({used.nbytes / 1e6:.0f} MB)": best_of(lambda: alpha @ used),
    }


def ours(rounds: int = 16) -> float:
    """Median seconds per round once both sets of nearest points are full."""
    task = Quadratic(dim=D, clients=N, heterogeneity=5.0)
    result = minimize(
        task.objectives, task.x0, bounds=task.bounds, algorithm=ALGORITHM, rounds=rounds, vectorized=True, seed=0
    )
    seconds = np.diff([record.seconds for record in result.history])
    full = FEATURE_POINTS // NEW + 2
    return float(np.median(seconds[full:]))


def textbook() -> float:
    """Seconds of one round of one client, times N."""
    task = Quadratic(dim=D, clients=N, heterogeneity=5.0)
    rng = np.random.default_rng(0)
    box = 2.0 * task.half_width

    def objective(u: np.ndarray) -> np.ndarray:
        return task.objectives[0](u * box - task.half_width)

    start = task.x0 / box + 0.5
    x = start + rng.uniform(-0.01, 0.01, (FEATURE_POINTS, D))
    client = Textbook(objective, rng.standard_normal((M, D)), rng.uniform(0, 2 * np.pi, M), x, objective(x), rng)
    w = client.weights(start)
    started = time.perf_counter()
    client.round(start, w, T)
    return N * (time.perf_counter() - started)


def main() -> None:
    print(f"# FZooS, d = {D}, N = {N}, T = {T}, M = {M:,}, {GP_POINTS} and {FEATURE_POINTS} nearest points, one core")
    print(f"# {describe()}\n")
    print("| floor, seconds per round of N clients | |\n| --- | --- |")
    parts = floor()
    for name, seconds in parts.items():
        print(f"| {name} | {N * seconds:.3f} |")
    bottom = N * sum(parts.values())
    print(f"| **floor** | **{bottom:.3f}** |\n")
    fzoos, naive = ours(), textbook()
    np_cos = best_of(lambda: np.cos(np.linspace(0, 100, 100_000))) / 1e5
    our_cos = best_of(lambda: cos_in_place(np.linspace(0, 100, 100_000))) / 1e5
    print("| seconds per round | | to the floor |\n| --- | --- | --- |")
    print(f"| fzoos | {fzoos:.3f} | {fzoos / bottom:.2f} |")
    print(f"| textbook | {naive:.1f} | {naive / bottom:.0f} |")
    print(f"\nfzoos is {naive / fzoos:.0f} times as fast as the textbook implementation.")
    print(f"A cosine takes {our_cos * 1e9:.1f} ns here, NumPy's own {np_cos * 1e9:.1f} ns.")


if __name__ == "__main__":
    main()
