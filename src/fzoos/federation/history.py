"""What `minimize` keeps of its rounds, and makes its result of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fzoos._util.arrays import FloatArray
from fzoos.federation.client import Client
from fzoos.federation.server import Server
from fzoos.objectives.box import Box
from fzoos.result import Record, Result, Status, best_of
from fzoos.runs.recording import Recording
from fzoos.runs.writer import RunWriter

__all__ = ["RunHistory"]


class Counts(Protocol):
    """An engine that knows what was asked."""

    @property
    def queries(self) -> tuple[int, ...]:
        """Queries of each client so far, those of an unfinished round included."""
        ...


class RunHistory:
    """A run in memory and, if it has a file, there as well.

    Args:
        server: whose state is recorded.
        engine: counts the queries.
        clients: the clients.
        box: the user's bounds.
        writer: of the file.
        settings: of the run, as plain values.
    """

    def __init__(
        self,
        server: Server,
        engine: Counts,
        clients: Sequence[Client],
        box: Box,
        writer: RunWriter,
        settings: Mapping[str, Any],
    ) -> None:
        self._settings = settings
        self._server, self._engine, self._clients, self._box, self._writer = server, engine, clients, box, writer
        self._space = getattr(box, "space", None)
        self._records: list[Record] = []
        self._walk: list[FloatArray] = []  # x after each round
        self._asked = server.state.asked
        self._violation: float | None = None  # of constraints at x
        self._start = box.from_cube(server.x)

    def violation(self, round: int) -> float | None:
        """Known here, as all clients are."""
        found = [client.violation(round) for client in self._clients]
        return max((v for v in found if v is not None), default=None)

    def after_exchange(self, record: Record | None, x: FloatArray) -> None:
        """Keep the round that an exchange has completed."""
        if record is not None:
            self._records.append(record)
            self._walk.append(x)
            asked = self._server.state.asked
            if asked is not self._asked:  # x is the one with which this round began
                self._asked, self._violation = asked, record.violation
            self._writer.record(record, x, self._clients)

    def finish(self, status: Status, message: str) -> Result:
        """The queries of a round that is not complete are there as well: they were paid for."""
        failed = sum(client.failed for client in self._clients)
        first = next((client.first_failure for client in self._clients if client.first_failure), "")
        extra: dict[str, Any] = {"failed": failed, "first_failure": first} if failed else {}
        extra |= {} if self._violation is None else {"violation": self._violation}
        walk, state = self._walk or [self._start], self._server.state
        self._writer.finish(status, message, self._engine.queries, extra, self._clients)
        result = Result(
            x=walk[-1],
            rounds=len(self._records),
            queries=sum(self._engine.queries),
            queries_per_client=self._engine.queries,
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            seconds=state.seconds,
            status=status,
            message=message,
            history=tuple(self._records),
            variables=None if self._space is None else self._space.variables(walk[-1]),
            failed=failed,
            first_failure=first,
            feasible=state.feasible if state.constrained else None,
            violation=self._violation,
            best_x=best_of(self._records, self._walk),
        )
        values = tuple(client.values for client in self._clients)
        return Recording(self._settings, result, tuple(self._walk), values).within(result)
