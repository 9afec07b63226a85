"""Observations brought to zero mean and unit scale, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["Standardised"]


@dataclass(frozen=True)
class Standardised:
    """y = mean + scale * values; a constant y gets scale 1, so that nothing is divided by zero.

    With leading axes each row is standardised by itself, and mean and scale are arrays.
    """

    values: FloatArray
    mean: Any
    scale: Any

    @classmethod
    def of(cls, y: FloatArray) -> Standardised:
        """Standardise observations, shape (n,)."""
        if not y.shape[-1]:
            return cls(y, *map(_plain, (np.zeros(y.shape[:-1]), np.ones(y.shape[:-1]))))
        mean = np.mean(y, axis=-1)
        centred = y - mean[..., None]
        largest = np.max(np.abs(centred), axis=-1)
        # Dividing by the largest first keeps the squares of huge or tiny observations representable.
        unit = np.where(largest > 0.0, largest, 1.0)
        scale = np.where(largest > 0.0, largest * np.sqrt(np.mean((centred / unit[..., None]) ** 2, axis=-1)), 1.0)
        return cls(centred / scale[..., None], _plain(mean), _plain(scale))


def _plain(numbers: Any) -> Any:
    """A number of one row as a plain one."""
    return numbers if np.ndim(numbers) else float(numbers)
