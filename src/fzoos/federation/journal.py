"""A site's journal: its requests, queries and replies, which must survive a crash. Append-only, in one SQLite file.

=========  ==========================================================================================================
table      row
=========  ==========================================================================================================
about      name, value: format, study, site; seed: of the site's own random generator, with a digest of its own
requests   id, digest, body: a request of the server, byte for byte; written with the first row that it causes
queries    id, request, round, step, purpose, x (float64 bytes, in the user's coordinates), y, c (values of constraints,
           float64 bytes; NULL without any), error: written before the value is used; y is NULL if the objective raised
           an exception, which is then in error, or if SQLite cannot store y: error is then "nan" or "-0.0"
replies    request, body, generator: the reply, and the state of the random generator (JSON) after it; body is NULL if
           the server continued without a reply
=========  ==========================================================================================================

Every row has a link, SHA-256(link of the previous row of the table, this row): a flipped bit or a missing row is
detected when the journal is opened. A missing end is detected by the number of rows in a file beside it.
A journal that is refused is not changed. One process at a time has it and holds a lock beside it. A journal contains
the site's values, and its seed, from which its queries follow: only its owner can read it (0600). The seed is drawn at
the site and never sent: whoever knows the queries can compute values from replies (docs/privacy.md).

No row is lost by `kill -9` once its method has returned, because the operating system has it. To survive a power cut it
must be on the disk, which takes 1 to 10 ms. This is waited for once per batch, before a value of the batch is used, and
every 0.1 s while values arrive (SQLite's write-ahead log with synchronous = FULL, or NORMAL for values before the last
of a batch). So a power cut loses no query whose value was used, and at most 0.1 s of work.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.files import FileLock, make_private
from fzoos._util.sqlite import UNCHANGED, link_of, open_readonly, shows_damage

__all__ = ["CHAINED", "Journal", "JournalError", "Mark", "Query", "Request", "read_about", "unseal"]

CHAINED = {  # the columns of each table that are part of its links
    "requests": ("digest", "body"),
    "queries": ("request", "round", "step", "purpose", "x", "y", "c", "error", "asked"),
    "replies": ("request", "body", "generator"),
}

Mark = dict[str, tuple[int, bytes]]
"""A place in a journal: the number of rows of each table, and the link of the last one."""

_WAY_OUT = (
    "Put a copy from a backup in its place and remove the files beside it whose names begin with its name. Without "
    "one, `fzoos journal verify FILE` reports the damage and `fzoos journal recover FILE NEW` recovers the rest. Or "
    "move all of them away: the site then begins again, without its earlier queries"
)
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE requests (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, body BLOB NOT NULL, link BLOB NOT NULL) STRICT;
CREATE TABLE queries (
  id INTEGER PRIMARY KEY, request INTEGER NOT NULL, round INTEGER NOT NULL, step INTEGER NOT NULL,
  purpose TEXT NOT NULL, x BLOB NOT NULL, y REAL, c BLOB, error TEXT, asked REAL NOT NULL, link BLOB NOT NULL) STRICT;
CREATE TABLE replies (
  id INTEGER PRIMARY KEY, request INTEGER NOT NULL UNIQUE, body BLOB, generator TEXT, link BLOB NOT NULL) STRICT;
CREATE INDEX requests_by_digest ON requests (digest);
CREATE INDEX queries_by_request ON queries (request);
"""
_FORMAT = "3"
_ODD = ("nan", "-0.0")  # numbers that SQLite would return as others
_SEED_BITS = 128
_WIDTH = 20  # digits of the number of rows in the file beside the journal
_UNFLUSHED = 0.1  # seconds of work that a power cut may lose


class JournalError(RuntimeError):
    """The journal cannot be used; the message says why and what can be done."""


@dataclass(frozen=True)
class Request:
    """A request in the journal, and its reply, if there is one yet."""

    id: int
    body: bytes
    replied: bool
    reply: bytes | None  # None though replied: the server continued without a reply
    generator: dict[str, Any]  # the state of the random generator after the reply


@dataclass(frozen=True)
class Query:
    """A query in the journal."""

    x: FloatArray
    y: float
    round: int
    step: int
    purpose: str
    c: FloatArray | None = None  # values of constraints

    @property
    def values(self) -> FloatArray:
        """f, shape (1,), or f and c, shape (1, 1 + k)."""
        y = np.array([self.y])
        return y if self.c is None else np.concatenate([y, self.c])[None]


class Journal:
    """The journal of one site.

    Args:
        path: the journal's file; created if it is missing.
        study: id of the study.
        site: name of the site.
        wait: seconds to wait for another process that uses it.
        seed: the seed of the site's random generator, for a new journal; None: a secret one from the operating system.
        since: rows up to this mark are not read, if the journal has them; None: all rows are read.

    Attributes:
        seed: the journal's seed.
        since: the mark up to which rows were not read when the journal was opened; None: all were read.
        rows: the number of rows of all tables.
        count: the number of queries.
        flushes: how often the disk was waited for.

    Raises:
        JournalError: it belongs to another study, site or program, has another seed, is damaged, or is in use.
    """

    def __init__(
        self,
        path: str | Path,
        study: str,
        site: str,
        wait: float = 0.0,
        seed: int | None = None,
        since: Mark | None = None,
    ) -> None:
        self.path, self.seed, self.since = Path(path), seed, since if Path(path).exists() else None
        self._lock = FileLock(self._beside(".lock"))
        try:
            if not self._lock.acquire(wait):
                raise JournalError(f"the journal {self.path} is in use by another process of this machine")
            self._open(study, site)
        except OSError as error:
            self.close()
            raise JournalError(f"the journal {self.path} cannot be written: {error}. {UNCHANGED}") from None
        except BaseException:
            self.close()
            raise

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _open(self, study: str, site: str) -> None:
        self._links, self.rows = dict.fromkeys(CHAINED, b""), 0
        self._announced: tuple[bytes, bytes] | None = None  # a request that is written with the next row
        self._flushed, self._waiting = time.monotonic(), False  # whether there are rows that may not be on the disk
        self.flushes = 0
        exists = self.path.exists()
        # A lower bound of the number of rows, which is not forced to the disk.
        count_file = self._beside(".rows")
        self._count_file = open(count_file, "r+b" if count_file.exists() else "w+b", buffering=0)  # noqa: SIM115
        try:
            begun = exists and self._check(study, site)
            text = self._count_file.read(_WIDTH)
            noted = int(text) if exists and text.isdigit() else 0
            if self.rows < noted:
                raise JournalError(
                    f"the journal {self.path} has lost its end: {self.rows} of {noted} rows are there. If it was "
                    f"copied, copy {self.path.name}-wal too; otherwise put a copy from a backup in its place. To "
                    f"continue without the missing rows (`fzoos journal verify FILE` reports what is there), remove "
                    f"{count_file.name} beside it"
                )
            make_private(self.path)  # SQLite gives the files beside it the same permissions
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not begun:
                self.seed = secrets.randbits(_SEED_BITS) if self.seed is None else self.seed
                about = {"format": _FORMAT, "study": study, "site": site, "seed": _seal(self.seed)}
                self._db.executescript("BEGIN;" + _TABLES)
                self._db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                self._db.execute("COMMIT")
            self.count = int(self._db.execute("SELECT count(*) FROM queries").fetchone()[0])
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._refused("cannot be read", error) from None
        self._note_rows()

    def _refused(self, what: str, error: Exception) -> JournalError:
        """What to do after an error of SQLite depends on whether the journal is damaged."""
        if shows_damage(error):
            return JournalError(f"the journal {self.path} {what}: {error}. {_WAY_OUT}")
        return JournalError(f"the journal {self.path} cannot be written: {error}. {UNCHANGED}")

    def _check(self, study: str, site: str) -> bool:
        """Check all rows, or those after `since`, without a change; False if the file has no tables yet."""
        with closing(open_readonly(self.path)) as db:
            if self.since is not None and not _has_been_at(db, self.since):
                self.since = None
            damaged = "ok" if self.since else db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if damaged != "ok":
                raise JournalError(f"the journal {self.path} is damaged: {damaged.splitlines()[-1]}. {_WAY_OUT}")
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                return False
            self._check_about(dict(db.execute("SELECT name, value FROM about")), study, site)
            for table, columns in CHAINED.items():
                count, self._links[table] = (self.since or {}).get(table, (0, b""))
                expected, self.rows = count + 1, self.rows + count
                text = f"SELECT id, link, {', '.join(columns)} FROM {table} WHERE id > ? ORDER BY id"
                for id, link, *row in db.execute(text, (count,)):
                    self._links[table] = link_of(self._links[table], row)
                    if id != expected or link != self._links[table]:
                        raise JournalError(f"the journal {self.path} is damaged at row {id} of {table}. {_WAY_OUT}")
                    expected += 1
                    self.rows += 1
        return True

    def _check_about(self, about: Mapping[str, str], study: str, site: str) -> None:
        found = about.get("format")
        if found != _FORMAT:
            raise JournalError(
                f"the journal {self.path} has format {found}; this program reads format {_FORMAT} only: "
                "another version wrote it"
            )
        for name, expected in (("study", study), ("site", site)):
            if about.get(name) != expected:
                raise JournalError(
                    f"the journal {self.path} belongs to {name} {about.get(name)!r}, not {expected!r}; "
                    "a changed study needs a journal of its own"
                )
        begun_with = unseal(about)
        if begun_with is None:
            raise JournalError(f"the journal {self.path} is damaged: the site's seed has changed. {_WAY_OUT}")
        if self.seed not in (None, begun_with):
            raise JournalError(
                f"the journal {self.path} was begun with another seed than the site's settings have: leave the seed "
                "out of them, or begin a new journal"
            )
        self.seed = begun_with

    def _append(self, table: str, rows: list[tuple[Any, ...]], more: bool = False) -> int:
        """Append rows, after the announced request, in one transaction; the id of the last one."""
        groups = {table: rows} if self._announced is None else {"requests": [self._announced], table: rows}
        links, flush = dict(self._links), not more or time.monotonic() - self._flushed > _UNFLUSHED
        try:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if flush else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for name, group in groups.items():
                    columns = CHAINED[name]
                    marks = ", ".join("?" * (len(columns) + 1))
                    text = f"INSERT INTO {name} ({', '.join(columns)}, link) VALUES ({marks})"
                    for row in group:
                        links[name] = link_of(links[name], row)
                        last = self._db.execute(text, (*row, links[name])).lastrowid
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._refused("is damaged", error) from None
        self._links, self._announced = links, None
        self.rows += sum(map(len, groups.values()))
        self._waiting = True
        if flush:
            self._note_flushed()
        assert last is not None
        return last

    def _note_flushed(self) -> None:
        """All rows are on the disk: store their number, which must never be ahead of them."""
        self._note_rows()
        self._flushed, self._waiting = time.monotonic(), False
        self.flushes += 1

    def _note_rows(self) -> None:
        with suppress(OSError):  # the last number stays
            self._count_file.seek(0)
            self._count_file.write(b"%0*d" % (_WIDTH, self.rows))

    def flush(self) -> None:
        """Wait until all rows are on the disk."""
        if self._waiting:
            with open(self._beside("-wal"), "r+b") as log:
                os.fsync(log.fileno())
            self._note_flushed()

    def begin(self, body: bytes) -> int:
        """Store a request and return its id."""
        return self._append("requests", [(hashlib.sha256(body).digest(), body)])

    def announce(self, body: bytes) -> int:
        """Return the id of a request that is stored in one commit with the first query or reply that it causes."""
        [(last,)] = self._read("SELECT max(id) FROM requests")
        self._announced = hashlib.sha256(body).digest(), body
        return int(last or 0) + 1

    @property
    def mark(self) -> Mark:
        """The number of rows per table and the last links."""
        counts = {table: self._read(f"SELECT max(id) FROM {table}")[0][0] or 0 for table in CHAINED}
        return {table: (count, self._links[table]) for table, count in counts.items()}

    def has_been_at(self, mark: Mark) -> bool:
        """Whether the journal has the rows of a mark."""
        return _has_been_at(self._db, mark)

    def find(self, body: bytes) -> Request | None:
        """The last request with this content, if there is one."""
        digest = hashlib.sha256(body).digest()
        [(last,)] = self._read("SELECT max(id) FROM requests WHERE digest = ?", (digest,))
        if last is None:
            return None
        if self.since is not None and not self._is_as_written(last):  # it may not have been checked
            raise JournalError(f"the journal {self.path} is damaged at request {last}. {_WAY_OUT}")
        return next(self._requests("WHERE requests.id = ?", last))

    def _is_as_written(self, request: int) -> bool:
        """Whether a request and its reply are unchanged, by their own links."""
        for table, column in (("requests", "id"), ("replies", "request")):
            text = f"SELECT id, link, {', '.join(CHAINED[table])} FROM {table} WHERE {column} = ?"
            for id, link, *row in self._read(text, (request,)):
                [before] = self._db.execute(f"SELECT link FROM {table} WHERE id = ?", (id - 1,)).fetchone() or (b"",)
                if not isinstance(before, bytes) or link != link_of(before, row):
                    return False
        return True

    def requests(self, after: int = 0) -> Iterator[Request]:
        """All requests in their order, or those after one of them."""
        return self._requests("WHERE requests.id > ?", after)

    @property
    def last(self) -> Request | None:
        """Return the last request, or None where there is none."""
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
            raise self._refused("is damaged", error) from None

    def record(
        self,
        request: int,
        points: FloatArray,
        values: FloatArray | None,
        round: int,
        step: int,
        purpose: str,
        error: str | None = None,
        more: bool = False,
    ) -> None:
        """Store queries: points, shape (n, d), and values, shape (n,), or (n, 1 + k) with k constraints.

        An error says why the values must not be used; the queries count all the same. With `more`, further values of
        the batch follow, and none is used before the last one is stored.
        """
        now, why = time.time(), None if error is None else error.encode("utf-8", "backslashreplace").decode()
        rows: list[tuple[Any, ...]] = []
        for i, x in enumerate(points):
            y = None if values is None else float(values[i] if values.ndim == 1 else values[i, 0])
            c = None if values is None or values.ndim == 1 else _bytes_of(values[i, 1:])
            odd = repr(y) if repr(y) in _ODD else None
            rows.append((request, round, step, purpose, _bytes_of(x), None if odd else y, c, why or odd, now))
        self._append("queries", rows, more)
        self.count += len(points)

    def queries(self, request: int | None = None) -> list[Query]:
        """The queries of one request, or of all, in order, without those that have an error; NaN is a value."""
        where, values = ("", ()) if request is None else ("AND request = ?", (request,))
        good = f"(error IS NULL OR error IN {_ODD})"
        text = f"SELECT x, y, c, error, round, step, purpose FROM queries WHERE {good} {where} ORDER BY id"
        found = []
        for x, y, c, odd, round, step, purpose in self._read(text, values):
            constraints = None if c is None else np.frombuffer(c, "<f8")
            value = float(odd or "nan") if y is None else y
            found.append(Query(np.frombuffer(x, "<f8"), value, round, step, purpose, constraints))
        return found

    def append_row(self, table: str, row: tuple[Any, ...]) -> None:
        """Store a row of another journal of the same study and site."""
        self._append(table, [row])
        self.count += table == "queries"

    def reply(self, request: int, body: bytes | None, generator: Mapping[str, Any]) -> None:
        """Store a reply, None if the server continued without one, and the generator's state after it."""
        self._append("replies", [(request, body, json.dumps(dict(generator)))])

    @property
    def generator(self) -> dict[str, Any] | None:
        """The random generator's state after the last reply."""
        text = "SELECT generator FROM replies WHERE body IS NOT NULL ORDER BY id DESC LIMIT 1"
        rows = self._read(text)
        return json.loads(rows[0][0]) if rows else None

    def close(self) -> None:
        """Close the file and release the lock."""
        for part in ("_db", "_count_file"):
            if hasattr(self, part):
                getattr(self, part).close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _bytes_of(numbers: FloatArray) -> bytes:
    return np.ascontiguousarray(numbers, "<f8").tobytes()


def _has_been_at(db: sqlite3.Connection, mark: Mark) -> bool:
    """Whether a journal has the rows of a mark: their links are digests of all rows before them."""
    if mark.keys() != CHAINED.keys():
        return False
    try:
        return all(
            not count or db.execute(f"SELECT link FROM {table} WHERE id = ?", (count,)).fetchone() == (link,)
            for table, (count, link) in mark.items()
        )
    except (sqlite3.Error, OverflowError):
        return False


def _seal(seed: int) -> str:
    """The seed as text, with a digest that detects a flipped bit."""
    text = f"{seed:x}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def unseal(about: Mapping[str, str]) -> int | None:
    """The seed in the table `about` of a journal; None if it is missing or damaged."""
    text = about.get("seed", "")
    seed = text.partition(" ")[0]
    return int(seed, 16) if re.fullmatch("[0-9a-f]+", seed) and _seal(int(seed, 16)) == text else None


def read_about(path: str | Path) -> dict[str, str]:
    """Format, study, site and seed of a journal that is not opened."""
    with closing(open_readonly(Path(path))) as db:
        return dict(db.execute("SELECT name, value FROM about"))
