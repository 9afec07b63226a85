"""What `minimize` records of its rounds, and makes its result from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fzoos._util.arrays import FloatArray
from fzoos.federation.client import Client
from fzoos.federation.server import Server
from fzoos.objectives.box import Box
from fzoos.result import UNCOUNTED, Record, Result, Status, best_of
from fzoos.runs.recording import Recording

if TYPE_CHECKING:
    from fzoos.runs.writer import RunWriter

__all__ = ["RunHistory"]


class RunHistory:
    """A run in memory and, after `store_in`, in a file as well."""

    def __init__(
        self,
        server: Server,
        clients: Sequence[Client],
        box: Box,
        settings: Mapping[str, Any],
    ) -> None:
        self._settings = settings
        self.uncounted = False  # whether it was killed and resumed
        self._server, self._clients, self._box = server, clients, box
        self._evaluators = [client.context.evaluator for client in clients]
        self._writer: RunWriter | None = None
        self._space = getattr(box, "space", None)
        self._records: list[Record] = []
        self._points: list[FloatArray] = []  # x after each round
        self._feasible_x = server.state.feasible_x
        self._violation: float | None = None  # of constraints at x
        self._start = box.from_cube(server.x)

    def store_in(
        self,
        path: str | Path,
        name: str,
        x0: FloatArray,
        monitor: Callable[[FloatArray], Any] | None,
        run: int | None,
    ) -> None:
        """Write the run to a file of runs: the rounds so far, and all later ones.

        `monitor` is evaluated at x0, if the run is new; `run` is the id of a run in the file that is resumed.
        """
        from fzoos.runs.writer import RunWriter  # here, because SQLite is slow to load and most runs have no file

        self._writer = RunWriter(path, self._evaluators)
        if run is not None:
            self._writer.resume(run, self._settings, len(self._records))
            return
        self._writer.begin(name, self._settings, x0, monitor)
        for record, x in zip(self._records, self._points, strict=True):
            self._writer.record(record, x)

    def violation(self, round: int) -> float | None:
        """The largest constraint of any client, which is known here, as all clients are."""
        found = [client.violation(round) for client in self._clients]
        return max((v for v in found if v is not None), default=None)

    def after_exchange(self, record: Record | None, x: FloatArray) -> None:
        """Record the round that an exchange has completed."""
        if record is None:
            return
        self._records.append(record)
        self._points.append(x)
        feasible_x = self._server.state.feasible_x
        if feasible_x is not self._feasible_x:  # x is the one with which this round began
            self._feasible_x, self._violation = feasible_x, record.violation
        if self._writer is not None:
            self._writer.record(record, x)

    def finish(self, status: Status, message: str) -> Result:
        """Make the result; the queries of an incomplete round count, too."""
        queries = tuple(client.queries for client in self._clients)
        message += f"; {UNCOUNTED}" if self.uncounted else ""
        failed = sum(evaluator.failed for evaluator in self._evaluators)
        first = next((evaluator.first_failure for evaluator in self._evaluators if evaluator.first_failure), "")
        if self._writer is not None:
            extra: dict[str, Any] = {"failed": failed, "first_failure": first} if failed else {}
            extra |= {} if self._violation is None else {"violation": self._violation}
            self._writer.finish(status, message, queries, extra)
        points, state = self._points or [self._start], self._server.state
        result = Result(
            x=points[-1],
            rounds=len(self._records),
            queries=sum(queries),
            queries_per_client=queries,
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            seconds=state.seconds,
            status=status,
            message=message,
            history=tuple(self._records),
            variables=None if self._space is None else self._space.variables(points[-1]),
            failed=failed,
            first_failure=first,
            feasible=state.feasible if state.constrained else None,
            violation=self._violation,
            best_x=best_of(self._records, self._points),
        )
        values = tuple(evaluator.values for evaluator in self._evaluators)
        return Recording(self._settings, result, tuple(self._points), values).attach_to(result)
