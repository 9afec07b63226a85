"""Processes of our own that ask points at the same time.

A process that dies takes no value with it: what it worked on is asked again, and counted once.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, Self

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Objective
from fzoos.objectives.parallel import Answer, Asked, PointPool, answer_of

__all__ = ["ProcessWorkers", "process_pools"]

log = logging.getLogger("fzoos")

_TRIES = 3  # deaths of processes after which points are asked one at a time, to find the one that kills


def process_pools(stack: ExitStack, count: int, objectives: Sequence[Objective]) -> list[PointPool | None]:
    """What asks each client's points; empty where another process cannot have the objectives.

    Args:
        stack: ends the processes.
        count: how many of them.
        objectives: the clients'.
    """
    try:
        processes = stack.enter_context(ProcessWorkers(count, objectives))
    except (pickle.PicklingError, TypeError, AttributeError):  # what pickle says of what it cannot do
        return []
    except BrokenProcessPool:
        log.warning("the objectives cannot be loaded in other processes; clients work on threads")
        return []
    return [processes.of(i) for i in range(len(objectives))]


class ProcessWorkers:
    """Processes of our own that have all clients' objectives; close them with `with`.

    Args:
        count: how many.
        objectives: picklable; each process gets them once.

    Raises:
        BrokenProcessPool: the objectives cannot be loaded in another process.

    Example:
        >>> import math
        >>> import numpy as np
        >>> from fzoos.objectives.process_workers import ProcessWorkers
        >>> with ProcessWorkers(2, [math.fsum, math.prod]) as workers:
        ...     [float(answer.value) for answer in workers.of(1).ask(math.prod, [np.full(2, 3.0), np.full(3, 2.0)])]
        [9.0, 8.0]
    """

    def __init__(self, count: int, objectives: Sequence[Objective]) -> None:
        self._count, self._objectives = count, pickle.dumps(list(objectives))
        self._lock = threading.Lock()
        self._pool = self._started()

    def of(self, client: int) -> PointPool:
        """What asks this client's objective."""
        return _ProcessPool(self, client)

    def submit(self, client: int, point: FloatArray) -> tuple[Future[Any], ProcessPoolExecutor]:
        """Ask a point, on new processes if the last ones are broken; the pool that has it is returned as well."""
        while True:
            with self._lock:
                pool = self._pool
            try:
                return pool.submit(_call, client, point), pool
            except BrokenProcessPool:
                self.renew(pool)

    def renew(self, broken: ProcessPoolExecutor) -> None:
        """Replace processes one of which died, unless that has been done."""
        with self._lock:
            if self._pool is broken:
                broken.shutdown(wait=False, cancel_futures=True)
                self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        made = ProcessPoolExecutor(
            self._count, multiprocessing.get_context(), initializer=_receive, initargs=(self._objectives,)
        )
        made.submit(os.getpid).result()  # they start here, and not later in the middle of a thread's work
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown(cancel_futures=True)


class _ProcessPool:
    def __init__(self, workers: ProcessWorkers, client: int) -> None:
        self._workers, self._client = workers, client

    def ask(self, objective: Objective, points: Sequence[FloatArray]) -> Asked:
        return _Persistent(self._workers, self._client, points)


class _Persistent:
    """Futures that are submitted again when a process has died."""

    def __init__(self, workers: ProcessWorkers, client: int, points: Sequence[FloatArray]) -> None:
        self._workers, self._client, self._points = workers, client, points
        self._given = [workers.submit(client, point) for point in points]

    def __iter__(self) -> Iterator[Answer]:
        deaths = 0
        for i in range(len(self._points)):
            while isinstance((answer := answer_of(self._given[i][0])).error, BrokenProcessPool | CancelledError):
                deaths += 1
                self._workers.renew(self._given[i][1])
                if deaths >= _TRIES:
                    answer = self._alone(i)
                    break
                self._again(i)
            yield answer

    def _again(self, first: int) -> None:
        """Ask what has no value, from the first on."""
        for j in range(first, len(self._points)):
            future = self._given[j][0]
            if not future.done() or future.cancelled() or isinstance(future.exception(), BrokenProcessPool):
                self._given[j] = self._workers.submit(self._client, self._points[j])

    def _alone(self, i: int) -> Answer:
        """Ask one point with no other beside it, a few times."""
        answer = Answer(None)
        for _ in range(_TRIES):
            future, pool = self._workers.submit(self._client, self._points[i])
            answer = answer_of(future)
            if not isinstance(answer.error, BrokenProcessPool | CancelledError):
                return answer
            self._workers.renew(pool)
        return Answer(None, RuntimeError(f"the process that evaluated this point died, {_TRIES} times"))

    def cancel(self) -> int:
        return sum(future.cancel() for future, _ in self._given)


_received: list[Objective] = []  # in a worker: the clients' objectives


def _receive(objectives: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who waits
    _received[:] = pickle.loads(objectives)  # from our own process


def _call(client: int, point: FloatArray) -> Any:
    return _received[client](point)
