"""SQLite files: looking into them before using them, copying them, and digests of their rows."""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["copy_database", "link_of", "open_readonly"]


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


def link_of(before: bytes, row: Iterable[Any]) -> bytes:
    """Return the digest of a row and of `before`: SHA-256 over both, each value with its type and length.

    `before` is the digest of the row before; it is empty for the first row, and for a row that stands alone.
    """
    digest = hashlib.sha256(before)
    for value in row:
        if isinstance(value, float):
            data = struct.pack("<d", value)
        elif isinstance(value, bytes):
            data = value
        else:
            data = repr(value).encode()
        digest.update(struct.pack("<cQ", type(value).__name__[0].encode(), len(data)))
        digest.update(data)
    return digest.digest()
