"""Several points of one client evaluated at the same time: by an executor, a map, or processes (`process_workers.py`).

Values are returned in the order of the points, whichever was first, so that a run has the same bits as one that
evaluates them one by one.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Objective

__all__ = [
    "ExecutorPool",
    "MapPool",
    "Parallel",
    "Pending",
    "PointPool",
    "Returned",
    "available_cores",
    "parallel_copies",
    "returned_by",
]


class Returned(NamedTuple):
    """What the objective returned at a point, or the exception that it raised."""

    value: Any
    error: Exception | None = None


class Pending(Protocol):
    """Points whose evaluation has begun."""

    def __iter__(self) -> Iterator[Returned]:
        """What the objective returns, in the order of the points."""
        ...

    def cancel(self) -> int:
        """Cancel what has not begun, and return how many points that are."""
        ...


class PointPool(Protocol):
    """Evaluates an objective at several points at the same time."""

    def submit(self, objective: Objective, points: Sequence[FloatArray]) -> Pending:
        """Begin to evaluate; each entry of `points` is an argument of the objective."""
        ...


class ExecutorPool(PointPool):
    """A pool made of any `concurrent.futures.Executor`: processes or threads, Dask's, mpi4py's, Ray's.

    Args:
        executor: it stays open; its owner closes it. Its workers need fzoos.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor, self._name, self._numbers = executor, uuid.uuid4().hex, itertools.count()

    def submit(self, objective: Objective, points: Sequence[FloatArray]) -> Pending:
        start, name = self._executor.submit, self._name
        return _Futures([start(_evaluate, objective, point, f"{name}-{next(self._numbers)}") for point in points])


class _Futures(Pending):
    def __init__(self, futures: list[Future[Any]]) -> None:
        self._futures = futures

    def __iter__(self) -> Iterator[Returned]:
        return (returned_by(future.result) for future in self._futures)

    def cancel(self) -> int:
        return sum(future.cancel() for future in self._futures)


class MapPool(PointPool):
    """A pool made of a map-like callable, such as `multiprocessing.Pool().map`.

    Args:
        apply: called with a function and a list of points; returns the values in their order.
    """

    def __init__(self, apply: Callable[..., Any]) -> None:
        self._apply = apply

    def submit(self, objective: Objective, points: Sequence[FloatArray]) -> Pending:
        """Evaluate all points, and wait for the values."""
        found = list(self._apply(partial(returned_by, objective), points))
        if len(found) != len(points) or not all(isinstance(returned, Returned) for returned in found):
            raise TypeError(
                f"workers must be a map-like callable: it was given {len(points)} points and returned "
                f"{len(found)} values, or others than the function's"
            )
        return _Done(found)


class _Done(list[Returned]):
    def cancel(self) -> int:
        return 0


class Parallel:
    """An objective with an executor that evaluates its points: for the sites of a study.

    Args:
        objective: called in the executor's workers; it must be picklable where these are processes.
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
        """Evaluate one point, or one batch, in this process."""
        return self.objective(x)

    def close(self) -> None:
        """Close the executor, and the objective if it can be closed."""
        self.executor.shutdown(cancel_futures=True)
        getattr(self.objective, "close", lambda: None)()


class _Copies:
    """Copies of an objective that evaluates one point at a time; each call uses a copy that is free."""

    def __init__(self, make: Callable[[], Objective], count: int) -> None:
        self._all = [make() for _ in range(count)]
        self._free: SimpleQueue[Objective] = SimpleQueue()
        for objective in self._all:
            self._free.put(objective)

    def __call__(self, x: Any) -> Any:
        objective = self._free.get()
        try:
            return objective(x)
        finally:
            self._free.put(objective)

    def close(self) -> None:
        for objective in self._all:
            getattr(objective, "close", lambda: None)()


def parallel_copies(make: Callable[[], Objective], count: int) -> Objective:
    """Make an objective that evaluates `count` points at the same time, by copies such as programs."""
    if count == 1:
        return make()
    return Parallel(_Copies(make, count), ThreadPoolExecutor(count, "fzoos-program"))


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def returned_by(call: Callable[..., Any], *arguments: Any) -> Returned:
    """Call a function, such as an objective or `Future.result`, and say what it returned or raised."""
    try:
        return Returned(call(*arguments))
    except Exception as error:
        return Returned(None, error)


def _evaluate(objective: Objective, point: FloatArray, ticket: str) -> Any:
    """The ticket makes all tasks different: Dask returns one value for equal ones, and values may be noisy."""
    return objective(point)
