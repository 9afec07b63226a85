"""One request at a time, in one thread, whatever the number of threads that FLARE hands requests over in."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError

__all__ = ["Closed", "Overtaken", "SerialWorker"]

_Work = Callable[[], bytes]


class Overtaken(Exception):
    """A newer request replaced this one in the queue."""


class Closed(Exception):
    """The worker was closed before the answer was there."""


class SerialWorker:
    """Does work in a thread of its own, since a journal belongs to one thread.

    Work that had to wait while newer work came is not done: the server has gone on without it. Otherwise a site
    that was slow once would answer old requests for ever after.

    The thread does not hold its process alive: an objective may never return.

    Example:
        >>> from fzoos.engines.flare.serial_worker import SerialWorker
        >>> worker = SerialWorker()
        >>> worker.do(lambda: b"an answer")
        b'an answer'
        >>> worker.close()
    """

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[_Work, Future[bytes]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._newest: Future[bytes] | None = None
        self._open: set[Future[bytes]] = set()
        self._since: float | None = None  # when the work under way was begun
        self._thread = threading.Thread(target=self._work, name="fzoos-worker", daemon=True)
        self._thread.start()

    def do(self, work: _Work) -> bytes:
        """Do the work when its turn comes, and wait for it.

        Raises:
            Overtaken: if newer work came first.
            Closed: if the worker was closed first.
        """
        answer: Future[bytes] = Future()
        with self._lock:
            self._newest = answer
            self._open.add(answer)
            self._queue.put((work, answer))
        try:
            return answer.result()
        finally:
            self._open.discard(answer)

    @property
    def busy(self) -> float:
        """Seconds for which the work under way has been going on; 0 where there is none."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def close(self, last: Callable[[], None] = lambda: None, patience: float = 5.0) -> None:
        """Take no further work, finish the last, and release callers that still wait after some seconds."""
        self._last = last
        self._queue.put(None)
        self._thread.join(patience)
        for answer in list(self._open):
            with contextlib.suppress(InvalidStateError):
                answer.set_exception(Closed())

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            work, answer = item
            with contextlib.suppress(InvalidStateError):  # closed meanwhile
                if answer is not self._newest:
                    answer.set_exception(Overtaken())
                    continue
                self._since = time.monotonic()
                try:
                    answer.set_result(work())
                except InvalidStateError:
                    raise
                except BaseException as error:
                    answer.set_exception(error)
                finally:
                    self._since = None
        self._last()
