"""SQLite files: looking into them before using them, and closing them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Self

__all__ = ["SqliteFile", "open_readonly"]


class SqliteFile:
    """Whoever holds a connection, `_db`, until it is closed or a `with` ends."""

    _db: sqlite3.Connection

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_readonly(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, not even by being closed: the file may be damaged, or another program's.

    A file that was killed in the very first milliseconds of its life, before it had a write-ahead log, is an exception:
    SQLite must put it right before it can be read.
    """
    half_made = path.with_name(path.name + "-journal").exists()
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={'rw' if half_made else 'ro'}", uri=True, timeout=10.0)
