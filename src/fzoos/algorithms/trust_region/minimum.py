"""A minimum of the surrogates in a box, by SciPy's L-BFGS-B."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray

__all__ = ["least_point"]


class _ValueAndSlope:
    """Value and slope apart, as SciPy asks for them, from one call: its own way costs as much as a surrogate.

    Line searches that end in rounding come to the same points again, a fifth of all.
    """

    def __init__(self, both: Callable[[FloatArray], tuple[float, FloatArray]]) -> None:
        self._both, self._known = both, dict[bytes, tuple[float, FloatArray]]()

    def _at(self, t: FloatArray) -> tuple[float, FloatArray]:
        key = t.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._both(t)
        return found

    def value(self, t: FloatArray) -> float:
        return self._at(t)[0]

    def slope(self, t: FloatArray) -> FloatArray:
        return self._at(t)[1].copy()


def least_point(
    both: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, bounds: list[tuple[float, float]]
) -> FloatArray:
    """Where a function is least within bounds, near a start.

    Args:
        both: value and gradient at a point of shape (d,).
        start: shape (d,).
        bounds: d pairs.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.trust_region.minimum import least_point
        >>> bowl = lambda t: (float(np.sum((t - 2.0) ** 2)), 2.0 * (t - 2.0))
        >>> least_point(bowl, np.zeros(2), [(-1.0, 1.0), (-3.0, 3.0)]).round(6)
        array([1., 2.])
    """
    parts = _ValueAndSlope(both)
    found = scipy.optimize.minimize(
        parts.value,
        start,
        jac=parts.slope,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 100, "ftol": 1e-15, "gtol": 1e-10},
    )
    return np.asarray(found.x, dtype=np.float64)
