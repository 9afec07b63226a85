"""Observations brought to zero mean and unit scale, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["Standardised"]


@dataclass(frozen=True)
class Standardised:
    """y = mean + scale * values; a constant y gets scale 1, so that nothing is divided by zero."""

    values: FloatArray
    mean: float
    scale: float

    @classmethod
    def of(cls, y: FloatArray) -> Standardised:
        """Standardise observations, shape (n,)."""
        if not len(y):
            return cls(y, 0.0, 1.0)
        mean = float(np.mean(y))
        centred = y - mean
        largest = float(np.max(np.abs(centred)))
        # Dividing by the largest first keeps the squares of huge or tiny observations representable.
        scale = largest * float(np.sqrt(np.mean((centred / largest) ** 2))) if largest > 0 else 1.0
        return cls(centred / scale, mean, scale)
