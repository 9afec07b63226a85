"""Points of one client asked at the same time: on processes of our own, through an executor, or by a map.

Values come back in the order of the points, whoever was first, so that a run has the same bits as one that asks them
one by one. A process that dies takes no value with it: what it worked on is asked again, and counted once.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import pickle
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol, Self

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count
from fzoos.objectives.box import Objective

__all__ = [
    "Answer",
    "Asked",
    "ExecutorPool",
    "MapPool",
    "Parallel",
    "PointPool",
    "ProcessWorkers",
    "available_cores",
    "point_pools",
]

log = logging.getLogger("fzoos")

_THREADS = 32  # clients that wait for their points at the same time

_TRIES = 3  # deaths of processes after which points are asked one at a time, to find the one that kills


class Answer(NamedTuple):
    """What came of one point: a value, or the exception that the objective raised."""

    value: Any
    error: Exception | None = None


class Asked(Protocol):
    """Points that are being asked."""

    def __iter__(self) -> Iterator[Answer]:
        """Their answers, in the order of the points."""
        ...

    def cancel(self) -> int:
        """Ask no more of them; how many were never asked."""
        ...


class PointPool(Protocol):
    """Asks an objective about several points at the same time."""

    def ask(self, objective: Objective, points: Sequence[FloatArray]) -> Asked:
        """Begin to ask; each entry of `points` is what the objective is called with."""
        ...


class ExecutorPool:
    """Asks through any `concurrent.futures.Executor`: a pool of processes or threads, Dask's, mpi4py's, Ray's.

    Args:
        executor: it stays open; whoever made it closes it. Its workers need fzoos.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> import numpy as np
        >>> from fzoos.objectives.parallel import ExecutorPool
        >>> with ThreadPoolExecutor(2) as executor:
        ...     [answer.value for answer in ExecutorPool(executor).ask(np.sum, [np.ones(2), np.ones(3)])]
        [np.float64(2.0), np.float64(3.0)]
    """

    def __init__(self, executor: Executor) -> None:
        self._executor, self._name, self._numbers = executor, uuid.uuid4().hex, itertools.count()

    def ask(self, objective: Objective, points: Sequence[FloatArray]) -> Asked:
        """Submit them all."""
        submit, name = self._executor.submit, self._name
        return _Futures([submit(_evaluate, objective, point, f"{name}-{next(self._numbers)}") for point in points])


class _Futures:
    def __init__(self, futures: list[Future[Any]]) -> None:
        self._futures = futures

    def __iter__(self) -> Iterator[Answer]:
        for future in self._futures:
            yield _answer(future)

    def cancel(self) -> int:
        return sum(future.cancel() for future in self._futures)


class MapPool:
    """Asks by a map-like callable, such as `multiprocessing.Pool().map`.

    Args:
        apply: called with a function and a list of points; gives the values in their order.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.parallel import MapPool
        >>> [answer.value for answer in MapPool(map).ask(np.sum, [np.ones(2), np.ones(3)])]
        [np.float64(2.0), np.float64(3.0)]
    """

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply = apply

    def ask(self, objective: Objective, points: Sequence[FloatArray]) -> Asked:
        """Ask them all, and wait for the values."""
        answers = list(self._apply(_Guarded(objective), points))
        if len(answers) != len(points) or not all(isinstance(answer, Answer) for answer in answers):
            raise TypeError(
                f"workers must be a map-like callable: it was given {len(points)} points and returned "
                f"{len(answers)} values, or others than the function's"
            )
        return _Answers(answers)


class _Guarded:
    """An objective whose exceptions are answers, so that a map goes on."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __call__(self, point: FloatArray) -> Answer:
        try:
            return Answer(self._objective(point))
        except Exception as error:
            return Answer(None, error)


class _Answers(list[Answer]):
    def cancel(self) -> int:
        return 0  # all have been asked


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
        >>> from fzoos.objectives.parallel import ProcessWorkers
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
            while isinstance((answer := _answer(self._given[i][0])).error, BrokenProcessPool | CancelledError):
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
            answer = _answer(future)
            if not isinstance(answer.error, BrokenProcessPool | CancelledError):
                return answer
            self._workers.renew(pool)
        return Answer(None, RuntimeError(f"the process that evaluated this point died, {_TRIES} times"))

    def cancel(self) -> int:
        return sum(future.cancel() for future, _ in self._given)


class Parallel:
    """An objective with the executor that its points are asked through: what a site of a study is given.

    Args:
        objective: what is called in the executor's workers: picklable where these are processes.
        executor: any `concurrent.futures.Executor`; closed with the objective.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from fzoos import Parallel
        >>> site = Parallel(sum, ThreadPoolExecutor(2))
        >>> site([1.0, 2.0])
        3.0
        >>> site.close()
    """

    def __init__(self, objective: Objective, executor: Executor) -> None:
        self.objective, self.executor = objective, executor

    def __call__(self, x: Any) -> Any:
        """One point, or one batch, here."""
        return self.objective(x)

    def close(self) -> None:
        """End the executor, and the objective if it has an end."""
        self.executor.shutdown(cancel_futures=True)
        if hasattr(self.objective, "close"):
            self.objective.close()


def point_pools(
    stack: ExitStack, workers: Any, executor: Any, objectives: Sequence[Objective]
) -> tuple[list[PointPool | None], int]:
    """What asks each client's points, and how many clients work at the same time, each on a thread.

    Args:
        stack: closes what is opened here.
        workers: an int, or a map-like callable.
        executor: in place of it.
        objectives: the clients'.
    """
    count = len(objectives)
    if executor is not None:
        if isinstance(workers, bool) or workers != 1:
            raise ValueError("workers and executor say the same thing: give one of them")
        if not callable(getattr(executor, "submit", None)):
            raise TypeError(f"executor must be a concurrent.futures.Executor, got {executor!r}")
        return [ExecutorPool(executor)] * count, min(count, _THREADS)
    if callable(workers):
        return [MapPool(workers)] * count, min(count, _THREADS)
    check_count("workers", workers, low=-1)
    if workers == 0:
        raise ValueError("workers must be positive, or -1 for all cores, got 0")
    wanted = available_cores() if workers == -1 else int(workers)
    if wanted == 1:
        return [None] * count, 1
    try:
        processes = stack.enter_context(ProcessWorkers(wanted, objectives))
    except (pickle.PicklingError, TypeError, AttributeError):  # what pickle says of what it cannot do
        return [None] * count, wanted
    except BrokenProcessPool:
        log.warning("the objectives cannot be loaded in other processes; clients work on threads")
        return [None] * count, wanted
    return [processes.of(i) for i in range(count)], min(count, wanted)


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _answer(future: Future[Any]) -> Answer:
    try:
        return Answer(future.result())
    except CancelledError as error:
        return Answer(None, error)
    except Exception as error:
        return Answer(None, error)


def _evaluate(objective: Objective, point: FloatArray, ticket: str) -> Any:
    """The ticket makes every task another one: Dask would answer equal ones with one value, and values may be noisy."""
    return objective(point)


_received: list[Objective] = []  # in a worker: the clients' objectives


def _receive(objectives: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who waits
    _received[:] = pickle.loads(objectives)  # from our own process


def _call(client: int, point: FloatArray) -> Any:
    return _received[client](point)
