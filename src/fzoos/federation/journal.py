"""What must survive a crash at a client: its requests, its queries, its replies. Append-only, in one SQLite file.

=========  ==========================================================================================================
table      row
=========  ==========================================================================================================
about      name, value: format, study, site
requests   id, digest, body: a request of the server as it came; written before the first query that it causes
queries    id, request, round, step, purpose, x (float64 bytes, in the user's coordinates), y, error: written before the
           value is used; y is NULL where the objective raised, which is then in error, and where SQLite cannot hold
           it: error is then "nan" or "-0.0". With k constraints purpose ends in +k, and their values follow x in its
           bytes
replies    request, body, generator: what was answered, and the random generator's state (JSON) after it; body is NULL
           where the server went on without an answer
=========  ==========================================================================================================

Every row carries SHA-256(the row before it in the table, this row), so that a flipped bit or a missing row is seen when
the journal is opened; that its end is there is known from the number of rows, in a file beside it (`RowCount`). What is
refused is left as it was. A journal belongs to one process at a time, which holds a lock beside it. It has the site's
values: only its owner can read it (0600).

A commit is on the disk when it returns (write-ahead log, synchronous = FULL): neither `kill -9` nor a power cut loses a
query whose value was used.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.links import link_of
from fzoos._util.lock import FileLock
from fzoos._util.private import make_private
from fzoos._util.row_count import RowCount
from fzoos._util.sqlite import open_readonly

__all__ = ["CHAINED", "Journal", "JournalError", "Query", "Request"]

_FORMAT = "1"
_WAY_OUT = (
    "Put a copy from a backup in its place and remove the files beside it whose names begin with its name. Without "
    "one, `fzoos journal verify FILE` says what is damaged and `fzoos journal salvage FILE NEW` saves the rest. Or "
    "move all of them away: the site then starts anew, without the queries paid for before"
)
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE requests (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, body BLOB NOT NULL, link BLOB NOT NULL) STRICT;
CREATE TABLE queries (
  id INTEGER PRIMARY KEY, request INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL,
  purpose TEXT NOT NULL, x BLOB NOT NULL, y REAL, error TEXT, asked REAL NOT NULL, link BLOB NOT NULL) STRICT;
CREATE TABLE replies (
  id INTEGER PRIMARY KEY, request INTEGER NOT NULL UNIQUE, body BLOB, generator TEXT, link BLOB NOT NULL) STRICT;
CREATE INDEX requests_by_digest ON requests (digest);
CREATE INDEX queries_by_request ON queries (request);
"""
_ODD = ("nan", "-0.0")
CHAINED = {  # the columns of each table that its links are made of
    "requests": ("digest", "body"),
    "queries": ("request", "round", "step", "purpose", "x", "y", "error", "asked"),
    "replies": ("request", "body", "generator"),
}


class JournalError(RuntimeError):
    """The journal cannot be used; the message says why and what can be done."""


@dataclass(frozen=True)
class Request:
    """A request in the journal, and what was replied, if anything was yet."""

    id: int
    body: bytes
    replied: bool
    reply: bytes | None  # None though replied: the server had gone on without an answer
    generator: dict[str, Any]  # the random generator's state after the reply


@dataclass(frozen=True)
class Query:
    """A query in the journal."""

    x: FloatArray
    y: float | None
    round: int
    step: int
    purpose: str
    c: FloatArray | None = None  # constraints, if the objective has any

    @property
    def values(self) -> FloatArray:
        """f, shape (1,), or f and c, shape (1, 1 + k)."""
        y = np.array([np.nan if self.y is None else self.y])
        return y if self.c is None else np.concatenate([y, self.c])[None]


class Journal:
    """The journal of one site.

    Args:
        path: the journal's file; created if it is missing.
        study: id of the study.
        site: name of the site.
        wait: seconds to wait for another process that has it.

    Raises:
        JournalError: another study's, another program's, damaged, or in use elsewhere.

    Example:
        >>> import numpy as np, tempfile
        >>> from pathlib import Path
        >>> from fzoos.federation.journal import Journal
        >>> path = Path(tempfile.mkdtemp()) / "site-1.journal"
        >>> with Journal(path, study="s1", site="site-1") as journal:
        ...     request = journal.begin(b"a request")
        ...     journal.record(request, np.array([[0.5]]), np.array([2.0]), 1, 0, "initial")
        ...     journal.reply(request, b"a reply", {})
        >>> with Journal(path, study="s1", site="site-1") as journal:
        ...     journal.count, journal.find(b"a request").reply
        (1, b'a reply')
    """

    def __init__(self, path: str | Path, study: str, site: str, wait: float = 0.0) -> None:
        self.path = Path(path)
        self._lock = FileLock(self._beside(".lock"))
        try:
            if not self._lock.acquire(wait):
                raise JournalError(f"the journal {self.path} is in use by another process of this machine")
            self._open(study, site)
        except OSError as error:
            self.close()
            raise JournalError(f"the journal {self.path} cannot be opened: {error}") from None
        except BaseException:
            self.close()
            raise

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _open(self, study: str, site: str) -> None:
        self._links, self._rows = dict.fromkeys(CHAINED, b""), 0
        exists = self.path.exists()
        self._tally = RowCount(self._beside(".rows"))
        try:
            begun = exists and self._check(study, site)
            noted = self._tally.count if exists else 0
            if self._rows < noted:
                raise JournalError(
                    f"the journal {self.path} has lost its end: {self._rows} of {noted} rows are there. If it was "
                    f"copied, copy {self.path.name}-wal too; otherwise put a copy from a backup in its place. To go on "
                    f"without what is missing (`fzoos journal verify FILE` says what is there), remove "
                    f"{self._tally.path.name} beside it"
                )
            make_private(self.path)  # SQLite gives the files beside it the same permissions
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not begun:
                about = {"format": _FORMAT, "study": study, "site": site}
                self._db.executescript("BEGIN;" + _TABLES)
                self._db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                self._db.execute("COMMIT")
            self.count = int(self._db.execute("SELECT count(*) FROM queries").fetchone()[0])
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise JournalError(f"the journal {self.path} cannot be read: {error}. {_WAY_OUT}") from None
        self._tally.note(self._rows)

    def _check(self, study: str, site: str) -> bool:
        """Read all of it, changing nothing; whether there is anything: one may be killed before its first table."""
        with closing(open_readonly(self.path)) as db:
            damaged = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damaged != "ok":
                raise JournalError(f"the journal {self.path} is damaged: {damaged.splitlines()[-1]}. {_WAY_OUT}")
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                return False
            self._check_about(dict(db.execute("SELECT name, value FROM about")), study, site)
            for table, columns in CHAINED.items():
                expected = 1
                for id, link, *row in db.execute(f"SELECT id, link, {', '.join(columns)} FROM {table} ORDER BY id"):
                    self._links[table] = link_of(self._links[table], row)
                    if id != expected or link != self._links[table]:
                        raise JournalError(f"the journal {self.path} is damaged at row {id} of {table}. {_WAY_OUT}")
                    expected += 1
                    self._rows += 1
        return True

    def _check_about(self, about: Mapping[str, str], study: str, site: str) -> None:
        found = about.get("format")
        if found != _FORMAT:
            raise JournalError(f"the journal {self.path} has format {found}; this program reads {_FORMAT}")
        for name, expected in (("study", study), ("site", site)):
            if about.get(name) != expected:
                raise JournalError(
                    f"the journal {self.path} belongs to {name} {about.get(name)!r}, not {expected!r}; "
                    "a changed study needs a journal of its own"
                )

    def _append(self, table: str, rows: list[tuple[Any, ...]]) -> int:
        """Add rows, all or none; the last one's id."""
        columns = CHAINED[table]
        text = f"INSERT INTO {table} ({', '.join(columns)}, link) VALUES ({', '.join('?' * (len(columns) + 1))})"
        link = self._links[table]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    link = link_of(link, row)
                    last = self._db.execute(text, (*row, link)).lastrowid
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise JournalError(
                f"the journal {self.path} cannot be written: {error}. Nothing that it holds is lost; make room or "
                "mend the disk and start again"
            ) from None
        self._links[table] = link
        self._rows += len(rows)
        self._tally.note(self._rows)
        assert last is not None
        return last

    def begin(self, body: bytes) -> int:
        """Keep a request; its id."""
        return self._append("requests", [(hashlib.sha256(body).digest(), body)])

    def find(self, body: bytes) -> Request | None:
        """The last request with this very content, if it came before."""
        digest = hashlib.sha256(body).digest()
        [(last,)] = self._read("SELECT max(id) FROM requests WHERE digest = ?", (digest,))
        return None if last is None else next(self._requests("WHERE requests.id = ?", last))

    def requests(self) -> Iterator[Request]:
        """All of them, in the order in which they came."""
        return self._requests("")

    @property
    def last(self) -> Request | None:
        """The last one."""
        return next(self._requests("WHERE requests.id = (SELECT max(id) FROM requests)"), None)

    def _requests(self, where: str, *values: int) -> Iterator[Request]:
        text = (
            "SELECT requests.id, requests.body, replies.id IS NOT NULL, replies.body, generator FROM requests "
            f"LEFT JOIN replies ON replies.request = requests.id {where} ORDER BY requests.id"
        )
        for id, body, replied, reply, generator in self._read(text, values):
            yield Request(id, body, bool(replied), reply, json.loads(generator or "{}"))

    def _read(self, text: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(text, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(f"the journal {self.path} is damaged: {error}. {_WAY_OUT}") from None

    def record(
        self,
        request: int,
        points: FloatArray,
        values: FloatArray | None,
        round: int,
        step: int,
        purpose: str,
        error: str | None = None,
    ) -> None:
        """Keep queries: points, shape (n, d), and their values; with an error, they are paid for but not to be used.

        Values have shape (n,), or (n, 1 + k) with k constraints.
        """
        now, why = time.time(), None if error is None else error.encode("utf-8", "backslashreplace").decode()
        rows: list[tuple[Any, ...]] = []
        if values is not None and values.ndim == 2:
            purpose = f"{purpose}+{values.shape[1] - 1}"
        for i, x in enumerate(points):
            y = None if values is None else float(values[i] if values.ndim == 1 else values[i, 0])
            if values is not None and values.ndim == 2:
                x = np.concatenate([x, values[i, 1:]])
            odd = None if y is None else _odd(y)
            row = (np.ascontiguousarray(x, "<f8").tobytes(), None if odd else y, why or odd, now)
            rows.append((request, round, step, purpose, *row))
        self._append("queries", rows)
        self.count += len(points)

    def queries(self, request: int | None = None) -> list[Query]:
        """Those of one request, or all, in order, without those that have an error; NaN is a value."""
        where, values = ("", ()) if request is None else ("AND request = ?", (request,))
        good = f"(error IS NULL OR error IN {_ODD})"
        text = f"SELECT x, y, error, round, step, purpose FROM queries WHERE {good} {where} ORDER BY id"
        return [
            _query(np.frombuffer(x, "<f8"), float(odd) if y is None else y, *rest)
            for x, y, odd, *rest in self._read(text, values)
        ]

    def append_row(self, table: str, row: tuple[Any, ...]) -> None:
        """Keep a row of another journal of this study and site, with the request's id in this one."""
        self._append(table, [row])
        self.count += table == "queries"

    def reply(self, request: int, body: bytes | None, generator: Mapping[str, Any]) -> None:
        """Keep a reply and the generator's state after it; None where the server went on without one."""
        self._append("replies", [(request, body, json.dumps(dict(generator)))])

    @property
    def generator(self) -> dict[str, Any] | None:
        """The generator's state after the last reply."""
        text = "SELECT generator FROM replies WHERE body IS NOT NULL ORDER BY id DESC LIMIT 1"
        rows = self._read(text)
        return json.loads(rows[0][0]) if rows else None

    def close(self) -> None:
        """Let others have it."""
        for part in ("_db", "_tally"):
            if hasattr(self, part):
                getattr(self, part).close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _query(numbers: FloatArray, y: float, round: int, step: int, purpose: str) -> Query:
    """From a row, in which constraints may follow x."""
    purpose, _, count = purpose.partition("+")
    if not count:
        return Query(numbers, y, round, step, purpose)
    return Query(numbers[: -int(count)], y, round, step, purpose, numbers[-int(count) :])


def _odd(value: float) -> str | None:
    """The name of a number that SQLite would give back as another one."""
    if math.isnan(value):
        return "nan"
    return "-0.0" if value == 0.0 and math.copysign(1.0, value) < 0.0 else None
