"""All clients in this process: one after another, or on threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from functools import partial
from typing import Protocol, Self

from fzoos._util.blas import share_blas_threads
from fzoos.engines.daemon_threads import DaemonThreads
from fzoos.federation.exchange import Gathering, Outcome, Undelivered
from fzoos.messages.message import Message

__all__ = ["LocalEngine", "RequestHandler"]


_AWAKE = 32  # clients that may always keep what they have computed


class RequestHandler(Protocol):
    """What answers requests: a `Client`, or a `StudySite` that also stores queries on disk."""

    @property
    def queries(self) -> int:
        """Queries made so far."""
        ...

    def handle(self, request: Message) -> Message:
        """Answer one request of the server."""
        ...

    def stop(self) -> None:
        """Make no further query."""
        ...


class LocalEngine:
    """Hands messages to clients in this process.

    Each client has its own state and random generator, so that the number of workers changes nothing but the time.
    Threads, not processes: objectives are arbitrary callables, and NumPy and waiting for an answer release the lock.

    Args:
        clients: the clients, or the sites of a study, in the order of their indices.
        workers: how many of them work at the same time. With one there is no time-out: an exchange runs in the caller's
            thread.
        together: whether one client's failure ends the exchange: the others then make no further query.
        patience: seconds that queries under way are waited for at the end; None: for ever.
    """

    def __init__(
        self,
        clients: Sequence[RequestHandler],
        workers: int = 1,
        together: bool = True,
        patience: float | None = None,
    ) -> None:
        self._clients, self._together, self._patience = clients, together, patience
        self._workers = workers
        self._pool = DaemonThreads(workers, "fzoos-client") if workers > 1 else None
        self._late: dict[int, Future[Message]] = {}  # answers that came too late, or have not come
        self._under_way: dict[int, tuple[Future[Message], float]] = {}  # of `gather`, and until when it is waited for
        self._gathers, self._open = False, ExitStack()
        self._awake: dict[int, None] = {}  # who has what it computed last, the longest idle first

    @property
    def queries(self) -> tuple[int, ...]:
        """Queries of each client so far, those of an unfinished round included."""
        return tuple(client.queries for client in self._clients)

    def exchange(self, requests: Mapping[int, Message], timeout: float | None = None) -> Outcome:
        """Let the clients answer."""
        self._let_others_rest(requests)
        if self._pool is None:
            return self._serial(requests)
        with share_blas_threads(self._workers):
            return self._parallel(self._pool, requests, timeout)

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        """Let the clients answer, and go on when enough of them have."""
        return self._gather(requests, timeout, Gathering(requests, enough).left)

    def gather_from(self, requests: Mapping[int, Message], clients: Collection[int]) -> Outcome:
        """The same, but wait for the answers of these clients, and take no others."""

        def left(outcome: Outcome, under_way: Collection[int]) -> float:
            return 0.0 if set(clients).isdisjoint(under_way) else math.inf

        return self._gather(requests, None, left, clients)

    def _gather(
        self,
        requests: Mapping[int, Message],
        timeout: float | None,
        left: Callable[[Outcome, Collection[int]], float],
        taken: Collection[int] | None = None,
    ) -> Outcome:
        if self._pool is None:
            return self._serial(requests)
        if not self._gathers:
            self._gathers = True
            self._open.enter_context(share_blas_threads(self._workers))  # clients work between exchanges, too
        outcome, now = Outcome(), time.monotonic()
        for i, request in requests.items():
            if i in self._late and not self._late[i].done():
                outcome.failures[i] = Undelivered("still busy with an earlier request")
            else:
                future = self._pool.submit(partial(self._clients[i].handle, request))
                self._under_way[i] = future, math.inf if timeout is None else now + timeout
        while (longer := left(outcome, self._under_way)) > 0.0:
            expected = [i for i in self._under_way if taken is None or i in taken]
            until = min(self._under_way[i][1] for i in expected) - time.monotonic()
            patience = max(min(longer, until), 0.0)
            futures = [self._under_way[i][0] for i in expected]
            wait(futures, None if math.isinf(patience) else patience, return_when=FIRST_COMPLETED)
            for i in expected:
                self._look(i, timeout, outcome)
        return outcome

    def _look(self, client: int, timeout: float | None, outcome: Outcome) -> None:
        """Take what came, and give up what is too late."""
        future, end = self._under_way[client]
        if future.done():
            del self._under_way[client]
            self._take(future, client, outcome)
        elif time.monotonic() >= end:
            del self._under_way[client]
            self._give_up({future: client}, timeout, outcome)

    def _let_others_rest(self, requests: Mapping[int, Message]) -> None:
        """Memory grows with the clients that take part, not with all of them: who has slept longest gives it back."""
        self._awake = {i: None for i in self._awake if i not in requests} | dict.fromkeys(requests)
        for i in list(self._awake)[: -max(len(requests), _AWAKE)]:
            if i not in self._late or self._late[i].done():
                del self._awake[i]
                rest = getattr(self._clients[i], "rest", None)  # a site of a study is alone in its process
                if rest is not None:
                    rest()

    def _serial(self, requests: Mapping[int, Message]) -> Outcome:
        outcome = Outcome()
        for i, request in requests.items():
            try:
                outcome.replies[i] = self._clients[i].handle(request)
            except Exception as error:
                outcome.failures[i], outcome.counts[i] = error, self._clients[i].queries
                if self._together:
                    break
        return outcome

    def _parallel(self, pool: DaemonThreads, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        outcome = Outcome()
        pending: dict[Future[Message], int] = {}
        for i, request in requests.items():
            if i in self._late and not self._late[i].done():
                outcome.failures[i] = Undelivered("still busy with an earlier request")
            else:
                pending[pool.submit(partial(self._clients[i].handle, request))] = i
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while pending:
                left = None if end is None else max(0.0, end - time.monotonic())
                done, _ = wait(pending, timeout=left, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future, pending.pop(future), outcome)
                if outcome.failures and self._together:
                    break
                if not done:
                    self._give_up(pending, timeout, outcome)
                    break
        except BaseException:
            self._stop()
            raise
        if outcome.failures and self._together:
            self._stop()
        return outcome

    def _take(self, future: Future[Message], client: int, outcome: Outcome) -> None:
        error = future.exception()
        if error is None:
            outcome.replies[client] = future.result()
        elif isinstance(error, Exception):
            outcome.failures[client], outcome.counts[client] = error, self._clients[client].queries
        else:
            raise error

    def _give_up(self, pending: dict[Future[Message], int], timeout: float | None, outcome: Outcome) -> None:
        for future, i in pending.items():
            self._late[i] = future
            outcome.failures[i] = TimeoutError(f"no answer within {timeout:g} s")

    def _stop(self) -> None:
        for client in self._clients:
            client.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.close(self._patience)
        self._open.close()
