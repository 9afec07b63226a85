"""Three clients minimise the average of their private functions without revealing them."""

import numpy as np

from fzoos import minimize
from fzoos.objectives.box import Objective


def site(target: float) -> Objective:
    """Return a private black box that maps x of shape (d,) to a number."""
    return lambda x: float(np.mean((x - target) ** 2))


result = minimize([site(0.2), site(0.6), site(0.7)], x0=np.zeros(20), bounds=(-1, 1), rounds=20, rng=0)
print(f"{result.status}: {result.message}")
print(f"mean of x: {result.x.mean():.2f} (the best is 0.5)")
print(f"{result.queries} queries, {result.bytes_up} bytes up, {result.bytes_down} bytes down")
for record in result.history[::5]:
    print(f"round {record.round:2d}: {record.queries} queries, x moved by {record.step:.3f}")
