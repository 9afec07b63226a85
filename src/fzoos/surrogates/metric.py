"""Coordinates in which a function has the same curvature in all directions.

========  ========  ==================================================================================================
symbol    shape     meaning
========  ========  ==================================================================================================
H         (d, d)    second derivatives of F in the unit cube
u         (d,)      an offset in the unit cube
z         (d,)      the same offset in the coordinates of the metric: z = W^T u, u = L^T z
W, L      (d, d)    V / s and (V s)^T, where H = V diag(lambda) V^T and s = sqrt(min lambda / lambda): the longest axis
                    has length 1
========  ========  ==================================================================================================
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict

__all__ = ["IDENTITY", "Metric"]

_FLAT = 1e-7  # the smallest eigenvalue that counts, relative to the largest
_ROUND = 1.5  # the ratio of eigenvalues up to which the identity is used


class Metric(NamedTuple):
    """The maps between both coordinates; without arrays it is the identity.

    Args:
        w: W, shape (d, d).
        l: L, shape (d, d).

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.metric import Metric
        >>> metric = Metric.of(np.diag([1.0, 100.0]))
        >>> np.abs(metric.offsets(np.array([0.0, 1.0])))       # ten times as long
        array([ 0., 10.])
    """

    w: FloatArray | None = None
    l: FloatArray | None = None  # noqa: E741  (L of the table)

    @classmethod
    def of(cls, curvature: FloatArray, least: float = 0.0) -> Metric:
        """Return the metric of second derivatives H, whose eigenvalues count by their size and at least `least`."""
        eigenvalues, vectors = np.linalg.eigh(curvature)
        sizes = np.abs(eigenvalues)
        sizes = np.maximum(sizes, max(least, _FLAT * float(sizes.max())))
        if not sizes.min() > 0.0 or not np.isfinite(sizes).all() or sizes.max() < _ROUND * sizes.min():
            return cls()
        axes = np.sqrt(sizes.min() / sizes)
        return cls(vectors / axes, (vectors * axes).T)

    @property
    def is_identity(self) -> bool:
        """Whether both coordinates are the same."""
        return self.w is None

    @property
    def extent(self) -> float | FloatArray:
        """The half widths in u of the unit ball in z, shape (d,)."""
        return 1.0 if self.l is None else np.sqrt(np.sum(self.l**2, axis=0))

    def offsets(self, u: FloatArray) -> FloatArray:
        """Return z = W^T u, shape (d,) or (n, d)."""
        return u if self.w is None else u @ self.w

    def inverse(self, z: FloatArray) -> FloatArray:
        """Return u = L^T z, shape (d,) or (n, d)."""
        return z if self.l is None else z @ self.l

    def gradient(self, g: FloatArray) -> FloatArray:
        """Return a gradient with respect to u, given the one with respect to z."""
        return g if self.w is None else g @ self.w.T

    def inverse_gradient(self, g: FloatArray) -> FloatArray:
        """Return a gradient with respect to z, given the one with respect to u."""
        return g if self.l is None else g @ self.l.T

    def hessian(self, h: FloatArray) -> FloatArray:
        """Return second derivatives with respect to u, given those with respect to z."""
        return h if self.w is None else self.w @ h @ self.w.T

    def inverse_hessian(self, h: FloatArray) -> FloatArray:
        """Return second derivatives with respect to z, given those with respect to u."""
        return h if self.l is None else self.l @ h @ self.l.T

    def state(self) -> StateDict:
        """Return both arrays, or nothing for the identity."""
        return {} if self.w is None else {"w": self.w, "l": self.l}

    @classmethod
    def restored(cls, state: StateDict) -> Metric:
        """Return the metric of which `state` returned this."""
        return cls(state.get("w"), state.get("l"))


IDENTITY = Metric()
"""The coordinates of the unit cube."""
