"""Threads that do not keep their process alive: what they wait for may never come."""

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


class DaemonThreads:
    """A pool of threads; unlike an executor of the standard library, it does not wait for its threads at exit."""

    def __init__(self, count: int, name: str) -> None:
        self._queue: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}-{i}", daemon=True) for i in range(count)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Call `work` when a thread is free."""
        future: Future[_T] = Future()
        self._queue.put((future, work))
        return future

    def close(self, patience: float | None = None) -> None:
        """Cancel what is queued, and wait at most `patience` seconds for what is running; None: without limit."""
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
            with contextlib.suppress(InvalidStateError):  # its caller has set an outcome in the meantime
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    result = work()
                except BaseException as error:  # the caller decides what to do about it
                    future.set_exception(error)
                else:
                    future.set_result(result)
