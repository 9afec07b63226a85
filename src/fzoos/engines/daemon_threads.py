"""Threads that do not hold their process alive: what they wait for may never come."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, TypeVar

__all__ = ["DaemonThreads"]

_T = TypeVar("_T")
_Work = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads:
    """A few threads that share a queue, like an executor of the standard library, which waits for its threads for ever.

    Args:
        count: how many.
        name: what their names begin with.

    Example:
        >>> from fzoos.engines.daemon_threads import DaemonThreads
        >>> threads = DaemonThreads(2, "demo")
        >>> threads.submit(lambda: 6 * 7).result()
        42
        >>> threads.close()
    """

    def __init__(self, count: int, name: str) -> None:
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Do it when a thread is free."""
        future: Future[_T] = Future()
        self._queue.put((future, work))
        return future

    def close(self, patience: float | None = None) -> None:
        """Begin nothing more, and wait so many seconds for what is under way; None: for ever."""
        with contextlib.suppress(queue.Empty):
            while (item := self._queue.get_nowait()) is not None:
                item[0].cancel()
        for _ in self._threads:
            self._queue.put(None)
        end = None if patience is None else time.monotonic() + patience
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            with contextlib.suppress(InvalidStateError):
                try:
                    future.set_result(work())
                except BaseException as error:  # the one who waits for it decides
                    future.set_exception(error)
