"""All clients in this process, one after another or on threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Self

from fzoos.federation.client import Client
from fzoos.federation.message import Message

__all__ = ["LocalEngine"]


class LocalEngine:
    """Hands messages to clients in this process.

    Each client has its own state and random generator, so that the number of workers changes nothing but the time.
    Threads, not processes: objectives are arbitrary callables, and NumPy and waiting for an answer release the lock.

    Args:
        clients: the clients.
        workers: how many of them work at the same time.
    """

    def __init__(self, clients: Sequence[Client], workers: int = 1) -> None:
        self._clients = clients
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="fzoos-client") if workers > 1 else None

    @property
    def queries(self) -> tuple[int, ...]:
        """Queries of each client so far, those of an unfinished round included."""
        return tuple(client.queries for client in self._clients)

    def exchange(self, requests: Mapping[int, Message]) -> dict[int, Message]:
        """Let the clients answer; an error of one of them is raised here, and the others make no further query."""
        if self._pool is None:
            return {i: self._clients[i].handle(request) for i, request in requests.items()}
        futures = {i: self._pool.submit(self._clients[i].handle, request) for i, request in requests.items()}
        try:
            wait(futures.values(), return_when=FIRST_EXCEPTION)
            for future in futures.values():
                if future.done():
                    future.result()  # raises the error, if there is one, without waiting for the others
        except BaseException:
            for client in self._clients:
                client.stop()
            raise
        return {i: future.result() for i, future in futures.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
