"""SQLite files: looking into them before using them, copying them, and digests of their rows."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from fzoos._util.files import make_private

__all__ = ["UNCHANGED", "copy_database", "link_of", "open_readonly", "shows_damage"]

UNCHANGED = (
    "Nothing in it is lost. Make room on the disk, let this user write to its folder or end the program that locks it; "
    "then start again"
)

_AROUND_IT = {  # primary result codes that say nothing about the contents of a file
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}


def shows_damage(error: Exception) -> bool:
    """Return whether an error is about the contents of a file, and not about the disk, the folder or a lock."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _AROUND_IT


def copy_database(source: Path, target: Path) -> None:
    """Replace the contents of one database by those of another, while other processes may read or write both.

    A copy of the file alone would lack what is still in the source's write-ahead log, and would be read together with
    the log of the target.
    """
    if not target.exists():
        make_private(target)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def open_readonly(path: Path, timeout: float = 10.0) -> sqlite3.Connection:
    """A connection that changes nothing, not even by being closed: the file may be damaged, or another program's.

    A file that was killed in the very first milliseconds of its life, before it had a write-ahead log, is an exception:
    SQLite must put it right before it can be read. In a folder that is read-only SQLite cannot create a log, and needs
    to be told that nobody writes.
    """
    half_made, log = (path.with_name(path.name + ending).exists() for ending in ("-journal", "-wal"))
    mode = "rw" if half_made else "ro" if log or os.access(path.parent, os.W_OK) else "ro&immutable=1"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA trusted_schema = OFF")  # a crafted file must not call what its views and checks name
    db.execute("PRAGMA query_only = ON")
    return db


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
