"""A run of `minimize` in a file of runs, written round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fzoos._util.arrays import FloatArray
from fzoos._util.describe import describe
from fzoos.result import Record
from fzoos.runs.landmarks import of_monitor
from fzoos.runs.store import Store

__all__ = ["RunWriter"]


class RunWriter:
    """Writes a run while it is running; without a path it does nothing.

    Args:
        path: the file of runs; None: nothing is stored.
        name: the run's name in the file.
        settings: the settings that it was started with.
        x0: the start, in the user's coordinates.
        clients: N, the number of clients.
        monitor: F, or what stands for it: asked at x0, so that curves begin there, and at the recommended x.
    """

    def __init__(
        self,
        path: str | Path | None,
        name: str,
        settings: Mapping[str, Any],
        x0: FloatArray,
        clients: int,
        monitor: Callable[[FloatArray], Any] | None = None,
    ):
        self._store = None if path is None else Store(path)
        self._monitor = monitor
        if self._store is not None:
            self._run = self._store.begin(name, describe(dict(settings)), x0, clients)
            self._store.mark(self._run, start=self._value(x0), **of_monitor(monitor))

    def record(self, record: Record, x: FloatArray) -> None:
        """Store a complete round."""
        if self._store is not None:
            self._store.record(self._run, record, x)

    def finish(
        self,
        status: str,
        message: str,
        queries: Sequence[int],
        extra: Mapping[str, Any],
        recommended: FloatArray | None = None,
    ) -> None:
        """Store how the run ended, with the queries of a round that is not complete; nothing is written after this.

        Args:
            status: as in `Result`.
            message: the status in words.
            queries: of each client.
            extra: further values.
            recommended: the recommended x, where it is not the last.
        """
        if self._store is None:
            return
        self._store.finish(self._run, status, message, extra, queries)
        if recommended is not None and status not in ("interrupted", "failed"):  # who interrupts does not want to wait
            self._store.mark(self._run, recommended=self._value(recommended))
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
