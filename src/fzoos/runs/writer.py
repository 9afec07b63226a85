"""A run of `minimize` in a file of runs, written round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fzoos._util.arrays import FloatArray
from fzoos._util.describe import describe
from fzoos.result import Record
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
    """

    def __init__(self, path: str | Path | None, name: str, settings: Mapping[str, Any], x0: FloatArray, clients: int):
        self._store = None if path is None else Store(path)
        if self._store is not None:
            self._run = self._store.begin(name, describe(dict(settings)), x0, clients)

    def record(self, record: Record, x: FloatArray) -> None:
        """Store a complete round."""
        if self._store is not None:
            self._store.record(self._run, record, x)

    def finish(self, status: str, message: str, queries: Sequence[int], extra: Mapping[str, Any]) -> None:
        """Store how the run ended, with the queries of a round that is not complete; nothing is written after this."""
        if self._store is not None:
            self._store.finish(self._run, status, message, extra, queries)
            self._store.close()
            self._store = None
