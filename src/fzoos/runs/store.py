"""Runs on disk: one SQLite file with the settings, every round and the last checkpoint. Readable while a run writes.

There is one schema. A file of another format is refused and left as it is.

===========  ========================================================================================================
table        row
===========  ========================================================================================================
about        name, value: format
runs         id, name, study (settings, JSON), started, status, message, x (float64 bytes), queries (JSON, per client),
             bytes_up, bytes_down, seconds, extra (JSON), host and pid (of the process that writes it); x0 (float64
             bytes), start, minimum, task: see `landmarks`; tags (JSON): words that somebody gave it
rounds       run, round, queries, bytes_up, bytes_down, seconds, step, monitor, diagnostics (JSON), clients (JSON:
             queries, distances and, where there are any, failed, cut, arrivals, feasible, violation), x (float64 bytes)
answers      run, round, client, width, y (float64 bytes): the values of a client's queries in a round of `minimize`,
             from which the run can be resumed; with k constraints, width = 1 + k numbers per query, else 0
failures     run, round, client, reason, at: answers that did not come
checkpoints  run, body, digest: the server between two exchanges; only the last one is stored
digests      run, round, digest: of the run's row (round -1) and of its rounds; compared by `check`
===========  ========================================================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fzoos._util.arrays import FloatArray
from fzoos._util.processes import is_gone
from fzoos._util.sqlite import SqliteFile, open_readonly
from fzoos.objectives.space import space_of
from fzoos.result import Record, Result, best_of
from fzoos.runs import digests, landmarks
from fzoos.runs.landmarks import Landmarks
from fzoos.runs.rows import array_of, bytes_of, finite, record_of, storable_text
from fzoos.runs.summaries import Summary, summaries_of

__all__ = ["Store", "StoreError", "Summary", "load"]

_FORMAT = "3"
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, study TEXT NOT NULL, started REAL NOT NULL, status TEXT NOT NULL,
  message TEXT NOT NULL, x BLOB NOT NULL, queries TEXT NOT NULL, bytes_up INTEGER NOT NULL,
  bytes_down INTEGER NOT NULL, seconds REAL NOT NULL, extra TEXT NOT NULL, host TEXT NOT NULL,
  pid INTEGER NOT NULL, x0 BLOB NOT NULL, start REAL, minimum REAL, task TEXT NOT NULL,
  tags TEXT NOT NULL) STRICT;
CREATE TABLE rounds (
  run INTEGER NOT NULL, round INTEGER NOT NULL, queries INTEGER NOT NULL, bytes_up INTEGER NOT NULL,
  bytes_down INTEGER NOT NULL, seconds REAL NOT NULL, step REAL NOT NULL, monitor REAL, diagnostics TEXT NOT NULL,
  clients TEXT NOT NULL, x BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE answers (
  run INTEGER NOT NULL, round INTEGER NOT NULL, client INTEGER NOT NULL, width INTEGER NOT NULL, y BLOB NOT NULL,
  PRIMARY KEY (run, round, client)) STRICT, WITHOUT ROWID;
CREATE TABLE failures (
  run INTEGER NOT NULL, round INTEGER NOT NULL, client INTEGER NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE TABLE checkpoints (run INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL) STRICT;
CREATE TABLE digests (
  run INTEGER NOT NULL, round INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT;
"""


class StoreError(RuntimeError):
    """A file of runs cannot be used; the message says why."""


class Store(SqliteFile):
    """A file of runs.

    Args:
        path: the file; created if it is missing and `create` is set.
        create: whether it may be created.

    Raises:
        StoreError: it is not a file of runs, of another format, locked or damaged.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos.runs.store import Store
        >>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
        ...     run = store.begin("demo", {"rounds": 3}, np.zeros(2), clients=3)
        ...     store.result(run).status
        'running'
    """

    def __init__(self, path: str | Path, create: bool = True) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise StoreError(f"{path} is a folder; a file of runs was expected")
        try:
            begun = self.path.exists() and self._check()
            if not begun and not create:
                raise StoreError(f"there is no run at {self.path}")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10.0)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not begun:
                self._make()
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise StoreError(f"{self.path} cannot be read as a file of runs: {error}") from None

    def _check(self) -> bool:
        """Raise unless it is an intact file of runs, without changing it; return whether there is anything in it."""
        with closing(open_readonly(self.path)) as db:
            damaged = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damaged != "ok":
                raise StoreError(f"{self.path} is damaged: {damaged.splitlines()[-1]}")
            tables = _tables(db)
            if not tables:
                return False
            if not {"about", "runs", "rounds"} <= tables:
                raise StoreError(f"{self.path} is not a file of runs: it has the tables {', '.join(sorted(tables))}")
            found = db.execute("SELECT value FROM about WHERE name = 'format'").fetchone()
            if found is None or found[0] != _FORMAT:
                which = "no format" if found is None else f"format {found[0]}"
                raise StoreError(
                    f"{self.path} has {which}; this program reads format {_FORMAT} only: another version wrote it"
                )
        return True

    def _make(self) -> None:
        with self._transaction():
            if not _tables(self._db):  # another process may have created it in the meantime
                for table in _TABLES.split(";\n"):
                    self._db.execute(table)
                self._db.execute("INSERT INTO about VALUES ('format', ?)", (_FORMAT,))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction: everything written in it is stored, or nothing."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def begin(self, name: str, study: Mapping[str, Any], x: FloatArray, clients: int) -> int:
        """A new run; its id."""
        words = (name, json.dumps(study), time.time(), "running", "")
        counts = (json.dumps([0] * clients), 0, 0, 0.0, "{}")
        known = (bytes_of(x), None, None, "", "[]")  # landmarks and tags
        values = (*words, bytes_of(x), *counts, platform.node(), os.getpid(), *known)
        with self._transaction():
            cursor = self._execute(f"INSERT INTO runs VALUES (NULL, {', '.join('?' * len(values))})", values)
            assert cursor.lastrowid is not None
            digests.note(self._db, cursor.lastrowid)
        return cursor.lastrowid

    def mark(self, run: int, **values: Any) -> None:
        """Store landmarks of a run, by the names of `Landmarks`."""
        with self._transaction():
            landmarks.note(self._db, run, **values)
            digests.note(self._db, run)

    def landmarks(self, run: int) -> Landmarks:
        """What is known of a run beside its rounds."""
        x0, *known = self._one("SELECT x0, start, minimum, task FROM runs WHERE id = ?", run)
        return Landmarks(array_of(x0), *known)

    def tags(self, run: int) -> tuple[str, ...]:
        """The words that somebody gave a run."""
        return tuple(json.loads(self._one("SELECT tags FROM runs WHERE id = ?", run)[0]))

    def take(self, run: int, study: Mapping[str, Any] | None = None) -> None:
        """Make this process the run's writer, with these settings if it has others now."""
        settings = json.dumps(self.study(run) if study is None else study)
        values = ("running", "", platform.node(), os.getpid(), settings, run)
        self._update("UPDATE runs SET status = ?, message = ?, host = ?, pid = ?, study = ? WHERE id = ?", values)

    @property
    def runs(self) -> list[Summary]:
        """All of them, the oldest first; one whose process is gone is not running."""
        return summaries_of(self._db)

    def summary(self, run: int) -> Summary:
        """One of them."""
        for found in summaries_of(self._db, run):
            return found
        raise StoreError(f"{self.path} has no run {run}")

    @property
    def last(self) -> int | None:
        """The id of the last run."""
        found: int | None = self._db.execute("SELECT max(id) FROM runs").fetchone()[0]
        return found

    def study(self, run: int) -> dict[str, Any]:
        """The settings of a run."""
        found: dict[str, Any] = json.loads(self._one("SELECT study FROM runs WHERE id = ?", run)[0])
        return found

    def checkpoint(self, run: int, body: bytes, queries: list[int], record: Record | None, x: FloatArray) -> None:
        """Store the server's state and, at the end of a round, its record: both or neither."""
        with self._transaction():
            digest = hashlib.sha256(body).digest()
            self._execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", (run, body, digest))
            self._execute("UPDATE runs SET queries = ? WHERE id = ?", (json.dumps(queries), run))
            if record is not None:
                self._insert(run, record, x)
            digests.note(self._db, run)

    def record(self, run: int, record: Record, x: FloatArray) -> None:
        """Store a round of a run that has no checkpoints."""
        with self._transaction():
            self._insert(run, record, x)
            self._execute("UPDATE runs SET queries = ? WHERE id = ?", (json.dumps(record.queries_per_client), run))
            digests.note(self._db, run)

    def _insert(self, run: int, record: Record, x: FloatArray) -> None:
        diagnostics = json.dumps({name: finite(value) for name, value in record.diagnostics.items()})
        each: dict[str, Any] = {"queries": record.queries_per_client, "distances": record.distances}
        each |= {name: value for name in ("failed", "cut", "arrivals") if (value := getattr(record, name))}
        known = {
            "feasible": record.feasible,
            "violation": None if record.violation is None else finite(record.violation),
        }
        clients = json.dumps(each | {name: value for name, value in known.items() if value is not None})
        counts = (record.round, record.queries, record.bytes_up, record.bytes_down, record.seconds, record.step)
        values = (run, *counts, record.monitor, diagnostics, clients, bytes_of(x))
        self._execute(f"INSERT OR REPLACE INTO rounds VALUES ({', '.join('?' * len(values))})", values)
        digests.note(self._db, run, record.round)
        totals = (bytes_of(x), record.bytes_up, record.bytes_down, record.seconds, run)
        self._execute("UPDATE runs SET x = ?, bytes_up = ?, bytes_down = ?, seconds = ? WHERE id = ?", totals)

    def last_checkpoint(self, run: int) -> bytes | None:
        """The server's last state; None before the first exchange."""
        found = self._db.execute("SELECT body, digest FROM checkpoints WHERE run = ?", (run,)).fetchone()
        if found is None:
            return None
        body, digest = found
        if hashlib.sha256(body).digest() != digest:
            raise StoreError(f"the checkpoint in {self.path} is damaged; put a copy from a backup in its place")
        return bytes(body)

    def fail(self, run: int, round: int, client: int, reason: str) -> None:
        """Store that a client did not answer, and why."""
        values = (run, round, client, storable_text(reason), time.time())
        self._execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?)", values)

    def failures(self, run: int) -> list[tuple[int, int, str]]:
        """Round, client and reason of each."""
        return self._db.execute("SELECT round, client, reason FROM failures WHERE run = ?", (run,)).fetchall()

    def finish(
        self, run: int, status: str, message: str, extra: Mapping[str, Any], queries: Sequence[int] | None = None
    ) -> None:
        """Store how the run ended; it can be resumed nevertheless.

        Args:
            run: its id.
            status: as in `Result`.
            message: the status in words.
            extra: further values.
            queries: of each client, where more were made than the last complete round says.
        """
        values = (status, storable_text(message), json.dumps(dict(extra)), run)
        with self._transaction():
            self._execute("UPDATE runs SET status = ?, message = ?, extra = ? WHERE id = ?", values)
            if queries is not None:
                self._execute("UPDATE runs SET queries = ? WHERE id = ?", (json.dumps(list(queries)), run))
            digests.note(self._db, run)

    def result(self, run: int, after: int = 0) -> Result:
        """The result of a run so far.

        Args:
            run: its id.
            after: of rounds up to this one only x is read, for somebody who has them; the history has the later ones.
        """
        columns = "x, queries, bytes_up, bytes_down, seconds, status, message, host, pid, study, extra"
        text = (
            "SELECT round, queries, bytes_up, bytes_down, seconds, step, monitor, diagnostics, clients FROM rounds "
            "WHERE run = ? AND round > ? ORDER BY round"
        )
        self._db.execute("BEGIN")  # both at one moment: a run may be writing
        try:
            row = self._one(f"SELECT {columns} FROM runs WHERE id = ?", run)
            walk = self._db.execute("SELECT round, x FROM rounds WHERE run = ? ORDER BY round", (run,)).fetchall()
            known = min(after, walk[-1][0] - 1) if walk else 0  # the last one is read in any case
            rounds = self._db.execute(text, (run, known)).fetchall()
        finally:
            self._db.execute("ROLLBACK")
        x, queries, bytes_up, bytes_down, seconds, status, message, host, pid, study, more = row
        if status == "running" and is_gone(host, pid):
            status, message = "interrupted", "its process is gone"
        per_client = tuple(json.loads(queries))
        history = tuple(record_of(row) for row in rounds)
        points = array_of(b"".join(body for _, body in walk) or x).reshape(max(len(walk), 1), -1)
        extra, space = json.loads(more), space_of(json.loads(study).get("bounds"))
        return Result(
            x=array_of(x),
            rounds=len(walk),
            queries=sum(per_client),
            queries_per_client=per_client,
            bytes_up=bytes_up,
            bytes_down=bytes_down,
            seconds=seconds,
            status=status,
            message=message,
            history=tuple(record for record in history if record.round > after),
            failed=extra.get("failed", history[-1].failed if history else 0),
            first_failure=extra.get("first_failure", ""),
            feasible=history[-1].feasible if history else None,
            violation=extra.get("violation"),
            variables=None if space is None else space.variables(array_of(x)),
            best_x=best_of(history, points[len(points) - len(history) :]),
        )

    def extra(self, run: int) -> dict[str, Any]:
        """Further values of a run: epsilon, if it was private."""
        found: dict[str, Any] = json.loads(self._one("SELECT extra FROM runs WHERE id = ?", run)[0])
        return found

    def check(self, run: int) -> None:
        """Raise a StoreError where a row of the run is not what was written."""
        self._db.execute("BEGIN")  # all of it at one moment: a run may be writing
        try:
            damaged = digests.damaged_rows(self._db, run)
        finally:
            self._db.execute("ROLLBACK")
        if damaged:
            raise StoreError(f"{self.path} is damaged: {damaged[0]} is not what was written; take a backup's copy")

    def _update(self, text: str, values: tuple[Any, ...]) -> None:
        """Change a run's row, whose id is the last of the values."""
        with self._transaction():
            self._execute(text, values)
            digests.note(self._db, values[-1])

    def _one(self, text: str, run: int) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._db.execute(text, (run,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no run {run}")
        return row

    def _execute(self, text: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(text, values)
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be written: {error}") from None


def _tables(db: sqlite3.Connection) -> set[str]:
    return {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def load(path: str | Path, run: int | None = None) -> Result:
    """A run from a file of runs.

    Args:
        path: the file, or a study's folder with a `result.db` in it.
        run: the run's id; None: the last one.

    Raises:
        StoreError: there is none, or the file cannot be used.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import fzoos
        >>> from fzoos.engines import LocalStudy
        >>> from fzoos.federation import Study
        >>> study = Study("demo", x0=0.5, dim=2, bounds=(0, 1), sites=("a",), rounds=2, algorithm={"name": "fedzo"})
        >>> folder = Path(tempfile.mkdtemp())
        >>> result = LocalStudy(study, folder, [lambda x: float(x @ x)]).run()
        >>> bool((fzoos.load(folder).x == result.x).all())
        True
    """
    from fzoos.runs.dashboard.data import Reader  # a Store that is only read: here, since it is made of the one above

    path = Path(path)
    with Reader(path / "result.db" if path.is_dir() else path) as store:
        found = store.last if run is None else run
        if found is None:
            raise StoreError(f"{path} has no run yet")
        try:
            store.check(found)
            return store.result(found)
        except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}") from None
