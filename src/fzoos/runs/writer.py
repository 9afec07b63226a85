"""A run of `minimize` in a file of runs, written round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fzoos._util.arrays import FloatArray
from fzoos._util.describe import describe
from fzoos.result import Record

if TYPE_CHECKING:
    from fzoos.runs.store import Store

__all__ = ["RunWriter"]


class HasValues(Protocol):
    """A client, as far as it is written down."""

    @property
    def values(self) -> FloatArray:
        """Of all its queries in their order."""
        ...


class RunWriter:
    """Writes a run while it is running; without a path it does nothing.

    Args:
        path: the file of runs; None: nothing is stored.
        name: the run's name in the file.
        settings: the settings that it was started with.
        x0: the start, in the user's coordinates.
        clients: N, the number of clients.
        monitor: F, or what stands for it: asked at x0, so that curves begin there.
        run: the id of a run of the file that goes on; None: it is a new one.
    """

    def __init__(
        self,
        path: str | Path | None,
        name: str,
        settings: Mapping[str, Any],
        x0: FloatArray,
        clients: int,
        monitor: Callable[[FloatArray], Any] | None = None,
        run: int | None = None,
    ):
        self._store: Store | None = None
        self._monitor, self._settings = monitor, describe(dict(settings))
        self._stored = [0] * clients  # values of each client in the file
        self._round = 0
        self._silent = run is not None
        if path is not None:
            self._open(Path(path), name, x0, clients, run)

    def _open(self, path: Path, name: str, x0: FloatArray, clients: int, run: int | None) -> None:
        from fzoos.runs.landmarks import of_monitor  # here, as SQLite is slow to load and most runs have no file
        from fzoos.runs.store import Store
        from fzoos.runs.value_table import ValueTable

        self._store, self._values = Store(path), ValueTable(path)
        if run is not None:
            self._run = run
            return
        self._run = self._store.begin(name, self._settings, x0, clients)
        self._store.mark(self._run, start=self._value(x0), **of_monitor(self._monitor))

    def go_on(self) -> None:
        """From here on all is new: what came before is in the file."""
        if self._store is not None and self._silent:
            self._store.take(self._run, self._settings)
        self._silent = False

    def abandon(self, message: str) -> None:
        """What came before could not be made again: a run of the file stays as it is."""
        if self._store is not None:
            if not self._silent:
                self._store.finish(self._run, "failed", message, {})
            self._close()

    def record(self, record: Record, x: FloatArray, clients: Sequence[HasValues]) -> None:
        """Store a complete round, and what clients have asked in it."""
        if self._store is None:
            return
        self._round = record.round
        self._write_values(clients)
        if not self._silent:
            self._store.record(self._run, record, x)

    def _write_values(self, clients: Sequence[HasValues]) -> None:
        """Those since the last time."""
        values = [client.values for client in clients]
        if not self._silent:
            new = [y[n:] for y, n in zip(values, self._stored, strict=True)]
            self._values.write(self._run, self._round, new)
        self._stored = [len(y) for y in values]

    def finish(
        self,
        status: str,
        message: str,
        queries: Sequence[int],
        extra: Mapping[str, Any],
        clients: Sequence[HasValues] = (),
    ) -> None:
        """Store how the run ended, with the queries of a round that is not complete; nothing is written after this.

        Args:
            status: as in `Result`.
            message: the status in words.
            queries: of each client.
            extra: further values.
            clients: what they have asked in a round that is not complete is stored, too.
        """
        if self._store is None:
            return
        if any(len(client.values) > n for client, n in zip(clients, self._stored, strict=False)):
            self._round += 1
            self._write_values(clients)
        self._store.finish(self._run, status, message, extra, queries)
        self._close()

    def _close(self) -> None:
        if self._store is not None:
            self._values.close()
            self._store.close()
        self._store = None

    def _value(self, x: FloatArray) -> float | None:
        """The monitor's; a monitor that raises is reported by the rounds, which ask it as well."""
        if self._monitor is None:
            return None
        try:
            return float(self._monitor(x.copy()))
        except Exception:
            return None
