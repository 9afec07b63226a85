"""Points of one client asked at the same time: through an executor, by a map, or on processes (`process_workers.py`).

Values come back in the order of the points, whoever was first, so that a run has the same bits as one that asks them
one by one.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

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
    "answer_of",
    "available_cores",
    "point_pools",
]

_THREADS = 32  # clients that wait for their points at the same time


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
            yield answer_of(future)

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


def point_pools(stack: ExitStack, workers: Any, objectives: Sequence[Objective]) -> tuple[list[PointPool | None], int]:
    """What asks each client's points, and how many clients work at the same time, each on a thread.

    Args:
        stack: closes what is opened here.
        workers: an int, an executor, or a map-like callable.
        objectives: the clients'.
    """
    count = len(objectives)
    if callable(getattr(workers, "submit", None)):
        return [ExecutorPool(workers)] * count, min(count, _THREADS)
    if callable(workers):
        return [MapPool(workers)] * count, min(count, _THREADS)
    check_count("workers", workers, low=-1)
    if workers == 0:
        raise ValueError("workers must be positive, or -1 for all cores, got 0")
    wanted = available_cores() if workers == -1 else int(workers)
    if wanted == 1:
        return [None] * count, 1
    from fzoos.objectives.process_workers import process_pools  # here: takes long to load, and few runs have processes

    pools = process_pools(stack, wanted, objectives)
    return (pools, min(count, wanted)) if pools else ([None] * count, wanted)


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def answer_of(future: Future[Any]) -> Answer:
    """What came of a point; waits for it."""
    try:
        return Answer(future.result())
    except CancelledError as error:
        return Answer(None, error)
    except Exception as error:
        return Answer(None, error)


def _evaluate(objective: Objective, point: FloatArray, ticket: str) -> Any:
    """The ticket makes every task another one: Dask would answer equal ones with one value, and values may be noisy."""
    return objective(point)
