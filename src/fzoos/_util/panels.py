"""Large matrices: processed a few rows at a time, so that each number is loaded once, in memory that is reused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["panels", "retain_freed_memory", "row_squares"]

_NUMBERS = 2**15  # of a panel: 256 kB
_ALMOST = 2**25 - 2**15  # bytes: with what the C library adds, still below its largest threshold


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


@cache
def retain_freed_memory() -> None:
    """Let this process retain up to 64 MB of freed memory, so that arrays of a few megabytes reuse it.

    glibc requests memory from the system for each array above a threshold, and returns it as soon as it is free: the
    system then clears every page of the next array, which takes longer than to compute with it. The threshold rises to
    the size of the largest array that was returned, up to 32 MB, and twice as much free memory is retained at the end
    of the heap. So one array of nearly that size is enough, of which no page is ever touched. With other C libraries
    this has no effect.
    """
    np.empty(_ALMOST, dtype=np.uint8)
