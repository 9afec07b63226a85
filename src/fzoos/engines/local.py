"""All clients in this process: one after another, or on threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol, Self

from fzoos._util.blas import share_blas_threads
from fzoos._util.checks import check_count
from fzoos.engines.daemon_threads import DaemonThreads
from fzoos.federation.exchange import Gathering, Outcome, Undelivered
from fzoos.messages.message import Message
from fzoos.objectives.box import Objective
from fzoos.objectives.parallel import ExecutorPool, MapPool, PointPool, available_cores

__all__ = ["LocalEngine", "RequestHandler", "point_pools"]

_THREADS = 32  # clients that wait for their points at the same time
_CACHED = 32  # clients whose caches are never released


class RequestHandler(Protocol):
    """What answers requests: a `Client`, or a `StudySite` that also stores queries on disk."""

    @property
    def queries(self) -> int:
        """The number of queries so far."""
        ...

    def handle(self, request: Message) -> Message:
        """Answer one request of the server."""
        ...

    def stop(self) -> None:
        """Make no further query."""
        ...


class LocalEngine:
    """Passes messages to clients in this process.

    Each client has its own state and random generator, so that the number of workers changes nothing but the time. The
    workers are threads, not processes: objectives are arbitrary callables, and NumPy and waiting release the lock.

    Args:
        clients: the clients, or the sites of a study, in the order of their indices.
        workers: how many of them work at the same time. With one there is no time-out: an exchange runs in the caller's
            thread.
        fail_fast: whether one client's failure ends the exchange: the others then make no further query.
        patience: seconds to wait for running queries at the end; None: without limit.
    """

    def __init__(
        self,
        clients: Sequence[RequestHandler],
        workers: int = 1,
        fail_fast: bool = True,
        patience: float | None = None,
    ) -> None:
        self._clients, self._fail_fast, self._patience = clients, fail_fast, patience
        self._workers = workers
        self._pool = DaemonThreads(workers, "fzoos-client") if workers > 1 else None
        self._late: dict[int, Future[Message]] = {}  # replies that were too late, or have not come
        self._under_way: dict[int, tuple[Future[Message], float]] = {}  # replies, and when they are too late
        self._gathers, self._open = False, ExitStack()
        self._recent: dict[int, None] = {}  # clients with caches, the longest idle first

    @property
    def queries(self) -> tuple[int, ...]:
        """The number of queries per client so far, those of an unfinished round included."""
        return tuple(client.queries for client in self._clients)

    def exchange(self, requests: Mapping[int, Message], timeout: float | None = None) -> Outcome:
        """Let the clients answer."""

        def left(outcome: Outcome, under_way: Collection[int]) -> float:
            failed = self._fail_fast and outcome.failures
            return math.inf if under_way and not failed else 0.0

        self._release_idle(requests)
        if self._pool is None:
            return self._serial(requests)
        with share_blas_threads(self._workers):
            outcome = self._parallel(self._pool, requests, timeout, left)
        if self._fail_fast and outcome.failures:
            self._stop()
            self._under_way.clear()
        return outcome

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        """Let the clients answer; return when enough of them have."""
        return self._gather(requests, timeout, Gathering(requests, enough).left)

    def gather_from(self, requests: Mapping[int, Message], clients: Collection[int]) -> Outcome:
        """Let the clients answer; return when these clients have, with their replies only."""

        def left(outcome: Outcome, under_way: Collection[int]) -> float:
            return 0.0 if set(clients).isdisjoint(under_way) else math.inf

        return self._gather(requests, None, left, clients)

    def _gather(
        self,
        requests: Mapping[int, Message],
        timeout: float | None,
        left: Callable[[Outcome, Collection[int]], float],
        accepted: Collection[int] | None = None,
    ) -> Outcome:
        if self._pool is None:
            return self._serial(requests)
        if not self._gathers:
            self._gathers = True
            self._open.enter_context(share_blas_threads(self._workers))  # clients work between exchanges as well
        return self._parallel(self._pool, requests, timeout, left, accepted)

    def _serial(self, requests: Mapping[int, Message]) -> Outcome:
        outcome = Outcome()
        for i, request in requests.items():
            try:
                outcome.replies[i] = self._clients[i].handle(request)
            except Exception as error:
                outcome.failures[i], outcome.counts[i] = error, self._clients[i].queries
                if self._fail_fast:
                    break
        return outcome

    def _parallel(
        self,
        pool: DaemonThreads,
        requests: Mapping[int, Message],
        timeout: float | None,
        left: Callable[[Outcome, Collection[int]], float],
        accepted: Collection[int] | None = None,
    ) -> Outcome:
        outcome, now = Outcome(), time.monotonic()
        for i, request in requests.items():
            if i in self._late and not self._late[i].done():
                outcome.failures[i] = Undelivered("still busy with an earlier request")
            else:
                future = pool.submit(partial(self._clients[i].handle, request))
                self._under_way[i] = future, math.inf if timeout is None else now + timeout
        try:
            while (longer := left(outcome, self._under_way)) > 0.0:
                expected = [i for i in self._under_way if accepted is None or i in accepted]
                until = min(self._under_way[i][1] for i in expected) - time.monotonic()
                patience = max(min(longer, until), 0.0)
                futures = [self._under_way[i][0] for i in expected]
                wait(futures, None if math.isinf(patience) else patience, return_when=FIRST_COMPLETED)
                for i in expected:
                    self._collect(i, timeout, outcome)
        except BaseException:
            self._stop()
            raise
        return outcome

    def _collect(self, client: int, timeout: float | None, outcome: Outcome) -> None:
        """Store a client's reply or failure, if it has come or is too late."""
        future, end = self._under_way[client]
        if not future.done() and time.monotonic() < end:
            return
        del self._under_way[client]
        if not future.done():
            self._late[client] = future
            outcome.failures[client] = TimeoutError(f"no answer within {timeout:g} s")
            return
        error = future.exception()
        if error is None:
            outcome.replies[client] = future.result()
        elif isinstance(error, Exception):
            outcome.failures[client], outcome.counts[client] = error, self._clients[client].queries
        else:
            raise error

    def _release_idle(self, requests: Mapping[int, Message]) -> None:
        """Release the caches of clients that have been idle longest: memory grows with the clients that take part."""
        self._recent = {i: None for i in self._recent if i not in requests} | dict.fromkeys(requests)
        for i in list(self._recent)[: -max(len(requests), _CACHED)]:
            if i not in self._late or self._late[i].done():
                del self._recent[i]
                rest = getattr(self._clients[i], "release", None)  # a site of a study has its process to itself
                if rest is not None:
                    rest()

    def _stop(self) -> None:
        for client in self._clients:
            client.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.close(self._patience)
        self._open.close()


def point_pools(stack: ExitStack, workers: Any, objectives: Sequence[Objective]) -> tuple[list[PointPool | None], int]:
    """Make a pool for each client, and say how many clients work at the same time, each on a thread."""
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
