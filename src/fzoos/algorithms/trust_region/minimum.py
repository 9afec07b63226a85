"""A minimum of surrogates in a box, by SciPy's L-BFGS-B: for the augmented Lagrangian, which has kinks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray

__all__ = ["least_point"]


def least_point(
    both: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, bounds: list[tuple[float, float]]
) -> FloatArray:
    """Return a minimum of a function within bounds, near a start.

    Args:
        both: returns value and gradient at a point of shape (d,).
        start: shape (d,).
        bounds: d pairs.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.trust_region.minimum import least_point
        >>> bowl = lambda t: (float(np.sum((t - 2.0) ** 2)), 2.0 * (t - 2.0))
        >>> least_point(bowl, np.zeros(2), [(-1.0, 1.0), (-3.0, 3.0)]).round(6)
        array([1., 2.])
    """
    known: dict[bytes, tuple[float, FloatArray]] = {}  # line searches that end in rounding repeat a fifth of all points

    def evaluated(t: FloatArray) -> tuple[float, FloatArray]:
        key = t.tobytes()
        if key not in known:
            known[key] = both(t)
        return known[key]

    def value(t: FloatArray) -> float:
        return evaluated(t)[0]

    def slope(t: FloatArray) -> FloatArray:
        return evaluated(t)[1].copy()

    found = scipy.optimize.minimize(
        value,
        start,
        jac=slope,  # `jac=True` costs as much as a surrogate
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 100, "ftol": 1e-15, "gtol": 1e-10},
    )
    return np.asarray(found.x, dtype=np.float64)
