"""Worker processes that evaluate points at the same time.

A process that dies loses no value: the point that it worked on is evaluated again, and counted once.
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
from fzoos.objectives.parallel import Pending, PointPool, Returned, returned_by

__all__ = ["ProcessWorkers", "process_pools"]

log = logging.getLogger("fzoos")

_TRIES = 3  # deaths of processes after which points are evaluated one at a time, to find the one that kills


def process_pools(stack: ExitStack, count: int, objectives: Sequence[Objective]) -> list[PointPool | None]:
    """Make a pool for each client; return an empty list if the objectives cannot be loaded in another process."""
    try:
        processes = stack.enter_context(ProcessWorkers(count, objectives))
    except (pickle.PicklingError, TypeError, AttributeError):  # what pickle raises
        return []
    except BrokenProcessPool:
        log.warning("the objectives cannot be loaded in other processes; clients work on threads")
        return []
    return [processes.of(i) for i in range(len(objectives))]


class ProcessWorkers:
    """Processes that have all clients' objectives, which must be picklable; close them with `with`.

    Raises:
        BrokenProcessPool: the objectives cannot be loaded in another process.
    """

    def __init__(self, count: int, objectives: Sequence[Objective]) -> None:
        self._count, self._objectives = count, pickle.dumps(list(objectives))
        self._lock = threading.Lock()
        self._pool = self._started()

    def of(self, client: int) -> PointPool:
        """The pool of this client."""
        return _ProcessPool(self, client)

    def submit(self, client: int, point: FloatArray) -> tuple[Future[Any], ProcessPoolExecutor]:
        """Submit a point, to new processes if the last ones are broken; the executor is returned, too."""
        while True:
            with self._lock:
                pool = self._pool
            try:
                return pool.submit(_evaluate, client, point), pool
            except BrokenProcessPool:
                self.replace(pool)

    def replace(self, broken: ProcessPoolExecutor) -> None:
        """Replace processes one of which died, unless that has been done."""
        with self._lock:
            if self._pool is broken:
                broken.shutdown(wait=False, cancel_futures=True)
                self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            self._count, multiprocessing.get_context(), initializer=_receive, initargs=(self._objectives,)
        )
        pool.submit(os.getpid).result()  # processes start here, and not later in the middle of a thread's work
        return pool

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._pool.shutdown(cancel_futures=True)


class _ProcessPool(PointPool):
    def __init__(self, workers: ProcessWorkers, client: int) -> None:
        self._workers, self._client = workers, client

    def submit(self, objective: Objective, points: Sequence[FloatArray]) -> Pending:
        return _Resubmitted(self._workers, self._client, points)


class _Resubmitted(Pending):
    """Futures that are submitted again when a process has died."""

    def __init__(self, workers: ProcessWorkers, client: int, points: Sequence[FloatArray]) -> None:
        self._workers, self._client, self._points = workers, client, points
        self._submitted = [workers.submit(client, point) for point in points]

    def __iter__(self) -> Iterator[Returned]:
        deaths = 0
        for i in range(len(self._points)):
            while _died(returned := returned_by(self._submitted[i][0].result)):
                deaths += 1
                self._workers.replace(self._submitted[i][1])
                if deaths >= _TRIES:
                    returned = self._evaluate_alone(i)
                    break
                self._submit_again(i)
            yield returned

    def _submit_again(self, first: int) -> None:
        """Submit all points from `first` on that have no value."""
        for j in range(first, len(self._points)):
            future = self._submitted[j][0]
            if not future.done() or future.cancelled() or isinstance(future.exception(), BrokenProcessPool):
                self._submitted[j] = self._workers.submit(self._client, self._points[j])

    def _evaluate_alone(self, i: int) -> Returned:
        """Evaluate one point with no other beside it, a few times."""
        for _ in range(_TRIES):
            future, pool = self._workers.submit(self._client, self._points[i])
            if not _died(returned := returned_by(future.result)):
                return returned
            self._workers.replace(pool)
        return Returned(None, RuntimeError(f"the process that evaluated this point died, {_TRIES} times"))

    def cancel(self) -> int:
        return sum(future.cancel() for future, _ in self._submitted)


def _died(returned: Returned) -> bool:
    return isinstance(returned.error, BrokenProcessPool | CancelledError)


_objectives: list[Objective] = []  # in a worker: the clients' objectives


def _receive(objectives: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits
    _objectives[:] = pickle.loads(objectives)  # from the process that started this one


def _evaluate(client: int, point: FloatArray) -> Any:
    return _objectives[client](point)
