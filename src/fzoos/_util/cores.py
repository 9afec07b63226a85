"""Work that is done on all cores of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

__all__ = ["in_background", "on_cores", "shares"]

_T = TypeVar("_T")


def on_cores(work: Callable[[_T], object], items: Sequence[_T]) -> None:
    """work(item) for each of them, each core having a share of them.

    For NumPy on large arrays, which lets other threads run meanwhile.

    Example:
        >>> import numpy as np
        >>> from fzoos._util.cores import on_cores
        >>> rows = np.zeros((3, 2))
        >>> on_cores(lambda i: np.copyto(rows[i], i), range(3))
        >>> rows[2]
        array([2., 2.])
    """
    count = min(_cores(), len(items))
    if count < 2:
        for item in items:
            work(item)
        return

    def share(first: int) -> None:
        for item in items[first::count]:
            work(item)

    list(_pool(os.getpid(), "fzoos-cores").map(share, range(count)))


def in_background(work: Callable[[range], object], count: int) -> list[Future[object]]:
    """work(numbers) for shares of the numbers below `count`, one share a core, while the caller does something else.

    Example:
        >>> from fzoos._util.cores import in_background
        >>> done: list[int] = []
        >>> for share in in_background(done.extend, 5):
        ...     _ = share.result()
        >>> sorted(done)
        [0, 1, 2, 3, 4]
    """
    pool = _pool(os.getpid(), "fzoos-background")  # of its own: what somebody waits for is not to wait for this
    return [pool.submit(work, share) for share in shares(count)]


def shares(count: int) -> list[range]:
    """The numbers below `count`, in one part for each core: few long operations are faster there than many short."""
    size = max(-(-count // _cores()), 1)
    return [range(i, min(i + size, count)) for i in range(0, count, size)]


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(process: int, name: str) -> ThreadPoolExecutor:
    """Kept: to start the threads takes longer than much of the work. A fork has none of its parent's."""
    return ThreadPoolExecutor(_cores(), name)
