"""The values of runs in a file of runs, from which a run can be made again: 8 bytes a query."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.sqlite import SqliteFile
from fzoos.objectives.ledger import join_stored
from fzoos.runs.rows import array_of, bytes_of
from fzoos.runs.store import StoreError

__all__ = ["ValueTable"]


class ValueTable(SqliteFile):
    """The values of runs in a file of runs.

    Args:
        path: the file, which is there.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos.runs.store import Store
        >>> from fzoos.runs.value_table import ValueTable
        >>> path = Path(tempfile.mkdtemp()) / "runs.db"
        >>> Store(path).close()
        >>> with ValueTable(path) as table:
        ...     table.write(1, 1, [np.array([0.5, 0.25])])
        ...     table.write(1, 2, [np.array([0.125])])
        ...     table.read(1, clients=1)
        (array([0.5  , 0.25 , 0.125]),)
    """

    def __init__(self, path: str | Path) -> None:
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
        except sqlite3.Error as error:
            raise StoreError(f"{path} cannot be read as a file of runs: {error}") from None
        self._path = path

    def write(self, run: int, round: int, values: Sequence[FloatArray]) -> None:
        """Store those of a round, of each client; once more: in place of what was there."""
        try:
            with closing(self._db.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                widths = [y.shape[1] if y.ndim == 2 else 0 for y in values]
                rows = [(run, round, i, widths[i], bytes_of(y)) for i, y in enumerate(values) if len(y)]
                cursor.execute("DELETE FROM answers WHERE run = ? AND round >= ?", (run, round))
                cursor.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", rows)
                cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from None

    def read(self, run: int, clients: int) -> tuple[FloatArray, ...]:
        """All of a run, of each client."""
        found: list[list[FloatArray]] = [[np.empty(0)] for _ in range(clients)]
        rows = self._db.execute("SELECT client, width, y FROM answers WHERE run = ? ORDER BY round, client", (run,))
        for client, width, y in rows:
            found[client].append(array_of(y).reshape(-1, width) if width else array_of(y))
        return tuple(join_stored(parts) for parts in found)

    def walk(self, run: int) -> tuple[FloatArray, ...]:
        """x after each round of a run."""
        rows = self._db.execute("SELECT x FROM rounds WHERE run = ? ORDER BY round", (run,))
        return tuple(array_of(row[0]) for row in rows)
