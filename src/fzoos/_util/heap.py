"""Arrays of a few megabytes that are made in every round, from memory that the process keeps.

glibc asks the system for each array above a threshold, and gives it back as soon as it is free: every page of the next
one is then cleared by the system, which takes longer than to compute with it. The threshold rises to the size of what
was given back so far, up to 32 MB, and what is free at the end of the heap is kept up to twice that. So one array of
nearly that size, of which no page is ever touched, is enough.
"""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["keep_freed_memory"]

_ALMOST = 2**25 - 2**15  # bytes: with what the C library adds, still below its largest threshold


@cache
def keep_freed_memory() -> None:
    """Let this process keep up to 64 MB that is free; where the C library is another one, nothing happens."""
    np.empty(_ALMOST, dtype=np.uint8)
