"""One request at a time, in one thread, however many threads FLARE delivers requests in."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from functools import partial

from fzoos.engines.daemon_threads import DaemonThreads

__all__ = ["Closed", "Overtaken", "SerialWorker"]


class Overtaken(Exception):
    """A newer request has replaced this one in the queue."""


class Closed(Exception):
    """The worker was closed before the reply was ready."""


class SerialWorker:
    """Runs work in a thread of its own, since a journal belongs to one thread.

    Work that waited while newer work arrived is skipped: the server has continued without it. Otherwise a site that was
    slow once would answer expired requests from then on.

    Example:
        >>> from fzoos.engines.flare.serial_worker import SerialWorker
        >>> worker = SerialWorker()
        >>> worker.run(lambda: b"a reply")
        b'a reply'
        >>> worker.close()
    """

    def __init__(self) -> None:
        self._threads, self._lock = DaemonThreads(1, "fzoos-worker"), threading.Lock()
        self._newest = 0  # the number of the last request
        self._open: set[Future[bytes]] = set()
        self._since: float | None = None  # when the running work was started

    def run(self, work: Callable[[], bytes]) -> bytes:
        """Run the work when it is its turn, and return its result.

        Raises:
            Overtaken: newer work arrived first.
            Closed: the worker was closed first.
        """
        with self._lock:
            self._newest += 1
            reply = self._threads.submit(partial(self._run, self._newest, work))
            self._open.add(reply)
        try:
            return reply.result()
        finally:
            self._open.discard(reply)

    @property
    def busy(self) -> float:
        """Seconds since the running work was started; 0 if there is none."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def close(self, last: Callable[[], None] = lambda: None, patience: float = 5.0) -> None:
        """Run `last` after the queued work, and after `patience` seconds release callers that still wait."""
        wait([self._threads.submit(last)], patience)
        for reply in list(self._open):
            with contextlib.suppress(InvalidStateError):
                reply.set_exception(Closed())
        self._threads.close(0.0)

    def _run(self, number: int, work: Callable[[], bytes]) -> bytes:
        if number != self._newest:
            raise Overtaken
        self._since = time.monotonic()
        try:
            return work()
        finally:
            self._since = None
