"""A limited number of queries, objectives that sometimes fail, and stopping early.

The objectives take batches, as a simulator or a service would: (n, d) -> (n,). One of them returns NaN now and then;
with on_failure="skip" such points are counted but left out.
"""

import numpy as np

from fzoos import Record, minimize
from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import BatchObjective

TARGETS = (0.1, 0.3, 0.5)


def site(target: float) -> BatchObjective:
    """A client whose measurements never fail."""
    return lambda x: np.mean((x - target) ** 2, axis=1)


def unreliable_site(target: float) -> BatchObjective:
    """A client whose measurements fail at about one point in twenty, always the same ones."""

    def measure(x: FloatArray) -> FloatArray:
        y = np.mean((x - target) ** 2, axis=1)
        return np.where(np.abs(1e6 * y) % 1.0 < 0.05, np.nan, y)

    return measure


def average(x: FloatArray) -> float:
    """F, for the history only: it is neither counted nor shown to the algorithm."""
    return float(np.mean([np.mean((x - target) ** 2) for target in TARGETS]))


def good_enough(record: Record) -> bool:
    """Called after each round; True stops the run."""
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
