"""A budget of queries, an objective that sometimes fails, and early stopping.

The objectives accept batches, as a simulator or a service would: (n, d) -> (n,). One of them returns NaN at some
points; with on_failure="skip" such points are counted and excluded.
"""

import numpy as np

from fzoos import Record, minimize
from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import BatchObjective

TARGETS = (0.1, 0.3, 0.5)


def site(target: float) -> BatchObjective:
    """Return the objective of a client whose measurements never fail."""
    return lambda x: np.mean((x - target) ** 2, axis=1)


def unreliable_site(target: float) -> BatchObjective:
    """Return an objective that fails at about one point in twenty, always at the same ones."""

    def measure(x: FloatArray) -> FloatArray:
        y = np.mean((x - target) ** 2, axis=1)
        return np.where(np.abs(1e6 * y) % 1.0 < 0.05, np.nan, y)

    return measure


def average(x: FloatArray) -> float:
    """Compute F for the history; it is not counted and never reaches the algorithm."""
    return float(np.mean([np.mean((x - target) ** 2) for target in TARGETS]))


def good_enough(record: Record) -> bool:
    """Stop the run when F is low enough; called after each round."""
    return record.monitor is not None and record.monitor < 0.03  # the smallest possible is 0.0267


sites = [site(TARGETS[0]), site(TARGETS[1]), unreliable_site(TARGETS[2])]

for budget in (35, 20_000):
    result = minimize(
        sites,
        x0=np.full(10, -0.5),
        bounds=(-1, 1),
        max_queries=budget,
        monitor=average,
        callback=good_enough,
        vectorized=True,
        on_failure="skip",
        rng=0,
    )
    print(f"budget {budget}: {result.status}, {result.message}")
    print(f"  F = {result.history[-1].monitor:.4f} with {result.queries} queries {result.queries_per_client}")
