"""Matrices that do not fit in the cache, processed a few rows at a time so that each number is loaded once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["panels", "row_squares"]

_NUMBERS = 2**15  # of a panel: 256 kB


def panels(count: int, columns: int) -> Iterator[slice]:
    """Slices of `count` rows, each a panel that fits in the cache; multiples of 8 rows, except for the last."""
    rows = max(8, _NUMBERS // max(columns, 1) // 8 * 8)
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


def row_squares(x: FloatArray) -> FloatArray:
    """|x_i|^2 of each row, shape (n,), with the same bits as np.sum(x * x, axis=1)."""
    found = np.empty(len(x))
    for part in panels(*x.shape):
        np.add.reduce(x[part] * x[part], axis=1, out=found[part])
    return found
