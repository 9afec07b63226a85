"""What the few-dimensional prototype is compared with: methods that see F itself, where one value costs N queries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.prototypes.problems_few import SmallProblem

# Medians of F - F* after 100 and 500 values of F, seeds 1 to 5: measured once with Py-BOBYQA (rhobeg 0.1, best value so
# far), which is no dependency here.
BOBYQA = {
    "rosenbrock-terms": (1.4e-3, 6e-20),
    "rosenbrock-perturbed": (0.0, 0.0),
    "quadratic-low-rank": (0.063, 3e-16),
    "quadratic-indefinite": (7e-3, 9e-17),
    "hartmann-weights": (2e-8, 0.0),
    "hartmann-terms": (5e-6, 0.0),
    "logistic": (0.175, 6e-14),
}


def cma_es(problem: SmallProblem, seed: int, cuts: Sequence[int]) -> list[float]:
    """CMA-ES on F, sigma_0 = 0.3: the least F - F* among as many values as each cut says. Needs `cmaes`."""
    from cmaes import CMA

    bounds = np.tile([0.0, 1.0], (len(problem.x0), 1))
    search = CMA(mean=problem.x0, sigma=0.3, bounds=bounds, seed=seed)
    seen: list[float] = []
    while len(seen) < max(cuts) and not search.should_stop():
        points = [search.ask() for _ in range(search.population_size)]
        values = [problem.excess(x) for x in points]
        search.tell(list(zip(points, values, strict=True)))
        seen += values
    return [min(seen[:cut], default=math.inf) for cut in cuts]
