"""SQLite files: looking into them before using them, copying and closing them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Self

__all__ = ["SqliteFile", "copy_database", "open_readonly"]


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


def copy_database(source: Path, target: Path) -> None:
    """Replace the contents of one database by those of another, while other processes may read or write both.

    A copy of the file alone would lack what is still in the source's write-ahead log, and would be read together with
    the log of the target.
    """
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def open_readonly(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing, not even by being closed: the file may be damaged, or another program's.

    A file that was killed in the very first milliseconds of its life, before it had a write-ahead log, is an exception:
    SQLite must put it right before it can be read.
    """
    half_made = path.with_name(path.name + "-journal").exists()
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={'rw' if half_made else 'ro'}", uri=True, timeout=10.0)
