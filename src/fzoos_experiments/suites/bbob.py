"""FedBBOB: the 24 noiseless functions of COCO, split over clients, in 2 to 40 and in 80 to 640 dimensions.

Reference:
    N. Hansen et al., "COCO: A Platform for Comparing Continuous Optimizers in a Black-Box Setting", Optimization
    Methods and Software, 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count
from fzoos_experiments.suites.problem import SuiteProblem, split

__all__ = ["FUNCTIONS", "GROUPS", "bbob"]

FUNCTIONS = range(1, 25)
GROUPS = {
    "separable": range(1, 6),
    "moderate": range(6, 10),
    "ill-conditioned": range(10, 15),
    "multimodal": range(15, 20),
    "weak structure": range(20, 25),
}
"""The groups of COCO's functions."""


def bbob(
    function: int,
    dim: int,
    instance: int,
    *,
    clients: int = 4,
    heterogeneity: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
    large: bool = False,
) -> SuiteProblem:
    """One of COCO's functions, split over clients. Instance and seed determine x0, which is uniform in [-4, 4]^d.

    Args:
        function: 1 to 24.
        dim: d.
        instance: selects the translation and rotation; 1 to 3 are for tuning, 4 to 15 for reporting.
        clients: N.
        heterogeneity: C, the size of the clients' differences as a share of F(x0) - F*.
        noise: standard deviation of the noise of each query, as a share of F(x0) - F*.
        seed: the seed of x0, of the differences and of the noise.
        large: whether to use the suite bbob-largescale, with sparse rotations and 20, 40, 80, 160, 320 or 640
            dimensions.

    Example:
        >>> from fzoos_experiments.suites.bbob import bbob
        >>> problem = bbob(1, dim=5, instance=4)                        # doctest: +SKIP
        >>> problem.value(problem.x0) > problem.minimum                 # doctest: +SKIP
        True
    """
    if function not in FUNCTIONS:
        raise ValueError(f"function must be one of 1 to 24, got {function!r}")
    for name, number in (("dim", dim), ("instance", instance), ("clients", clients)):
        check_count(name, number, low=1)
    minimum = float(_cocoex().BareProblem("bbob", function, 2, instance).best_value())  # the same in all dimensions
    base = _Large(function, dim, instance) if large else _cocoex().BareProblem("bbob", function, dim, instance)
    x0 = np.random.default_rng((function, dim, instance, seed)).uniform(-4.0, 4.0, dim)
    return split(
        lambda x: float(base(np.ascontiguousarray(x, dtype=float))),
        x0,
        np.tile([-5.0, 5.0], (dim, 1)),
        minimum,
        clients=clients,
        heterogeneity=heterogeneity,
        seed=(function, dim, instance, seed, clients),
        noise=noise,
    )


class _Large:
    """A function of bbob-largescale, with a reference to its suite, which must stay alive."""

    def __init__(self, function: int, dim: int, instance: int) -> None:
        chosen = f"dimensions:{dim} function_indices:{function} instance_indices:{instance}"
        self._suite = _cocoex().Suite("bbob-largescale", "", chosen)
        if len(self._suite) != 1:
            raise ValueError(f"bbob-largescale has no function {function} with dim = {dim} and instance = {instance}")
        self._problem = self._suite[0]

    def __call__(self, x: FloatArray) -> float:
        return float(self._problem(x))


def _cocoex() -> Any:
    try:
        import cocoex
    except ImportError:
        raise ImportError("bbob needs coco-experiment: pip install 'fzoos[suites]'") from None
    return cocoex
