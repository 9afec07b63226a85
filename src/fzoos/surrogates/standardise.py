"""Observations scaled to zero mean and unit variance, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["Standardised"]


@dataclass(frozen=True)
class Standardised:
    """y = mean + scale * values; the scale of constant observations is 1, so that nothing is divided by zero.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.standardise import Standardised
        >>> Standardised.of(np.array([2.0, 6.0]))
        Standardised(values=array([-1.,  1.]), mean=4.0, scale=2.0)
    """

    values: FloatArray
    mean: float
    scale: float

    @classmethod
    def of(cls, y: FloatArray) -> Standardised:
        """Return standardised observations, shape (n,)."""
        if not len(y):
            return cls(y, 0.0, 1.0)
        mean = float(np.mean(y))
        centred = y - mean
        largest = float(np.max(np.abs(centred)))
        if largest == 0.0:
            return cls(centred, mean, 1.0)
        # Dividing by the largest first keeps the squares of huge or tiny observations representable.
        scale = largest * float(np.sqrt(np.mean((centred / largest) ** 2)))
        return cls(centred / scale, mean, scale)
