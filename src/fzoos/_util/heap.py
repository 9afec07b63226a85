"""Reuse of freed memory for arrays of a few megabytes that are created in every round.

glibc requests memory from the system for each array above a threshold, and returns it as soon as it is free: the
system then clears every page of the next array, which takes longer than to compute with it. The threshold rises to the
size of the largest array that was returned, up to 32 MB, and twice as much free memory is retained at the end of the
heap. So one array of nearly that size is enough, of which no page is ever touched.
"""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["retain_freed_memory"]

_ALMOST = 2**25 - 2**15  # bytes: with what the C library adds, still below its largest threshold


@cache
def retain_freed_memory() -> None:
    """Let this process retain up to 64 MB of freed memory; with other C libraries this has no effect."""
    np.empty(_ALMOST, dtype=np.uint8)
