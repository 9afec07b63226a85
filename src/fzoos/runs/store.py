"""Runs on disk: one SQLite file with the settings, every round and the last checkpoint. Readable while a run writes.

There is one schema, whose number is the file's `user_version`. A file with another one is refused and left unchanged.

============  =======================================================================================================
table         row
============  =======================================================================================================
runs          id, name, settings (JSON), started, status, message, x (float64 bytes), queries (JSON, per client),
              bytes_up, bytes_down, seconds, extra (JSON), host and pid (of the process that writes it), rounds (how
              many are complete), x0 (float64 bytes), start, minimum, task, tags (JSON): see `Summary`; digest
rounds        run, round, queries, bytes_up, bytes_down, seconds, step, monitor, diagnostics (JSON), clients (JSON:
              queries, distances and, where there are any, failed, cut, arrivals, feasible, violation), x (float64
              bytes), digest
query_values  run, round, client, width, y (float64 bytes): the values of a client's queries in a round of `minimize`,
              from which the run can be resumed; with k constraints, width = 1 + k numbers per query, else 0
failures      run, round, client, reason, at: replies that did not come
checkpoints   run, body, digest: the server between two exchanges; only the last one is stored
============  =======================================================================================================

The digest in a row is SHA-256 over its other columns. `Store.check` compares it, so that a flipped bit is noticed; a
round whose row is missing is noticed by `runs.rounds`.
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
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.files import make_private
from fzoos._util.sqlite import UNCHANGED, link_of, open_readonly, shows_damage
from fzoos.objectives.ledger import join_stored
from fzoos.objectives.space import space_of
from fzoos.result import UNCOUNTED, Record, Result, best_of
from fzoos.runs.rows import (
    StoredRun,
    Summary,
    array_of,
    bytes_of,
    checked_name,
    checked_tags,
    client_columns,
    plain,
    record_of,
    storable_text,
)

__all__ = ["Store", "StoreError"]

_APPLICATION = 0x465A6F53  # "FZoS": tells a file of runs from the databases of other programs
_FORMAT = 1
_TABLES = """
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, settings TEXT NOT NULL, started REAL NOT NULL, status TEXT NOT NULL,
  message TEXT NOT NULL, x BLOB NOT NULL, queries TEXT NOT NULL, bytes_up INTEGER NOT NULL,
  bytes_down INTEGER NOT NULL, seconds REAL NOT NULL, extra TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
  rounds INTEGER NOT NULL, x0 BLOB NOT NULL, start REAL, minimum REAL, task TEXT NOT NULL, tags TEXT NOT NULL,
  digest BLOB) STRICT;
CREATE TABLE rounds (
  run INTEGER NOT NULL, round INTEGER NOT NULL, queries INTEGER NOT NULL, bytes_up INTEGER NOT NULL,
  bytes_down INTEGER NOT NULL, seconds REAL NOT NULL, step REAL NOT NULL, monitor REAL, diagnostics TEXT NOT NULL,
  clients TEXT NOT NULL, x BLOB NOT NULL, digest BLOB, PRIMARY KEY (run, round)) STRICT;
CREATE TABLE query_values (
  run INTEGER NOT NULL, round INTEGER NOT NULL, client INTEGER NOT NULL, width INTEGER NOT NULL, y BLOB NOT NULL,
  PRIMARY KEY (run, round, client)) STRICT, WITHOUT ROWID;
CREATE TABLE failures (
  run INTEGER NOT NULL, round INTEGER NOT NULL, client INTEGER NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE TABLE checkpoints (run INTEGER PRIMARY KEY, body BLOB NOT NULL, digest BLOB NOT NULL) STRICT;
"""
_LAST_ROUND = "FROM rounds WHERE run = runs.id ORDER BY round DESC LIMIT 1"
_SUMMARIES = f"""
SELECT id, name, started, status, host, pid, rounds, queries, bytes_up + bytes_down, seconds, (SELECT monitor
{_LAST_ROUND}), (SELECT clients {_LAST_ROUND}), tags, start, minimum, task FROM runs WHERE ? IS NULL OR id = ?
ORDER BY id"""


class StoreError(RuntimeError):
    """A file of runs cannot be used; the message says why."""


class Store:
    """A file of runs that can be written.

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
            begun = self.path.exists() and self._check_format()
            if not begun and not create:
                raise StoreError(f"there is no run at {self.path}")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not begun:
                make_private(self.path)  # SQLite gives the files beside it the same permissions
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10.0)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not begun:
                self._create_tables()
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) or not shows_damage(error):
                raise StoreError(f"{self.path} cannot be written: {error}. {UNCHANGED}") from None
            raise StoreError(f"{self.path} cannot be read as a file of runs: {error}") from None

    def _check_format(self) -> bool:
        """Raise unless it is an intact file of runs, without changing it; return whether there is anything in it."""
        with closing(open_readonly(self.path)) as db:
            damaged = db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if damaged != "ok":
                raise StoreError(f"{self.path} is damaged: {damaged.splitlines()[-1]}")
            tables = _tables(db)
            if not tables:
                return False
            if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
                raise StoreError(f"{self.path} is not a file of runs: it has the tables {', '.join(tables)}")
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found != _FORMAT:
                raise StoreError(
                    f"{self.path} has format {found}; this version of fzoos reads format {_FORMAT}: read it with the "
                    "version that wrote it"
                )
        return True

    def _create_tables(self) -> None:
        with self._transaction():
            if not _tables(self._db):  # another process may have created them in the meantime
                for table in _TABLES.split(";\n"):
                    self._db.execute(table)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {_FORMAT}")

    def close(self) -> None:
        """Close the file of runs."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # What is written while a run is running

    def begin(
        self,
        name: str,
        settings: Mapping[str, Any],
        x0: FloatArray,
        clients: int,
        start: float | None = None,
        minimum: float | None = None,
        task: str = "",
    ) -> int:
        """Store a new run and return its id.

        Args:
            name: its name.
            settings: what it was started with, as JSON has it.
            x0: the start, in the user's coordinates.
            clients: N, the number of clients.
            start: F(x0), if it is known.
            minimum: F*, if it is known.
            task: what is minimised, the same text for all seeds.
        """
        if not name.isprintable():
            raise ValueError(f"name must have printable characters only, got {name!r}")
        words = (name, json.dumps(settings), time.time(), "running", "", bytes_of(x0))
        counts = (json.dumps([0] * clients), 0, 0, 0.0, "{}", platform.node(), os.getpid(), 0)
        values = (*words, *counts, bytes_of(x0), plain(start), plain(minimum), task, "[]", None)
        with self._transaction():
            run = self._execute(f"INSERT INTO runs VALUES (NULL, {', '.join('?' * len(values))})", values).lastrowid
            assert run is not None
            self._seal(run)
        return run

    def resume(self, run: int, settings: Mapping[str, Any] | None = None) -> None:
        """Make this process the run's writer, with these settings if they have changed."""
        known = json.dumps(self.settings(run) if settings is None else settings)
        with self._transaction():
            self._update(run, status="running", message="", host=platform.node(), pid=os.getpid(), settings=known)

    def checkpoint(self, run: int, body: bytes, queries: list[int], record: Record | None, x: FloatArray) -> None:
        """Store the server's state and, at the end of a round, its record: both or neither."""
        with self._transaction():
            digest = hashlib.sha256(body).digest()
            self._execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)", (run, body, digest))
            self._update(run, queries=json.dumps(queries), **self._insert(run, record, x))

    def record(self, run: int, record: Record, x: FloatArray) -> None:
        """Store a round of a run that has no checkpoints."""
        with self._transaction():
            self._update(run, queries=json.dumps(record.queries_per_client), **self._insert(run, record, x))

    def _insert(self, run: int, record: Record | None, x: FloatArray) -> dict[str, Any]:
        """Store a round, if there is one; return what it changes in the run's row."""
        if record is None:
            return {}
        totals = {"bytes_up": record.bytes_up, "bytes_down": record.bytes_down, "seconds": record.seconds}
        words = (json.dumps(plain(record.diagnostics)), client_columns(record), bytes_of(x), None)
        values = (run, record.round, record.queries, *totals.values(), record.step, record.monitor, *words)
        self._execute(f"INSERT OR REPLACE INTO rounds VALUES ({', '.join('?' * len(values))})", values)
        self._seal(run, record.round)
        return totals | {"x": bytes_of(x), "rounds": record.round}

    def store_values(self, run: int, round: int, values: Sequence[FloatArray]) -> None:
        """Store the values of each client's queries in a round, in place of those of this round and later ones."""
        with self._transaction():
            self._execute("DELETE FROM query_values WHERE run = ? AND round >= ?", (run, round))
            for client, y in enumerate(values):
                if len(y):
                    row = (run, round, client, y.shape[1] if y.ndim == 2 else 0, bytes_of(y))
                    self._execute("INSERT INTO query_values VALUES (?, ?, ?, ?, ?)", row)

    def fail(self, run: int, round: int, client: int, reason: str) -> None:
        """Store that a client did not reply, and why."""
        values = (run, round, client, storable_text(reason), time.time())
        self._execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?)", values)

    def finish(
        self, run: int, status: str, message: str, extra: Mapping[str, Any], queries: Sequence[int] | None = None
    ) -> None:
        """Store how the run ended; it can be resumed nevertheless.

        Args:
            run: its id.
            status: as in `Result`.
            message: the status in words.
            extra: further values.
            queries: per client, if there are more than the last complete round says.
        """
        more = {} if queries is None else {"queries": json.dumps(list(queries))}
        with self._transaction():
            self._update(run, status=status, message=storable_text(message), extra=json.dumps(dict(extra)), **more)

    # What users change later. They name a run by its id and its start: an id may be given again after a deletion. A run
    # that is damaged is not changed, because the change would make its digest fit again.

    def rename(self, run: int, started: float, name: str) -> None:
        """Give a run another name.

        Raises:
            ValueError: the name is empty or too long.
            StoreError: there is no such run, or it is damaged.
        """
        self._edit(run, started, name=checked_name(name))

    def tag(self, run: int, started: float, tags: Sequence[str]) -> None:
        """Give a run these tags, in place of those it has.

        Raises:
            ValueError: they are not strings, too many or too long.
            StoreError: there is no such run, or it is damaged.
        """
        self._edit(run, started, tags=json.dumps(checked_tags(tags)))

    def delete(self, run: int, started: float) -> None:
        """Delete a run with all its rounds. It cannot be restored.

        Raises:
            StoreError: there is no such run, it is running, or a study can be resumed from it.
        """
        with self._transaction():
            status, host, pid = self._started_at(run, started)
            if status == "running" and not _is_gone(host, pid):
                raise StoreError(f"run {run} of {self.path} is running: end it first")
            if self._db.execute("SELECT 1 FROM checkpoints WHERE run = ?", (run,)).fetchone() is not None:
                raise StoreError(f"run {run} of {self.path} is a study's, which can be resumed: remove its folder")
            self._execute("DELETE FROM runs WHERE id = ?", (run,))
            for table in ("rounds", "query_values", "failures"):
                self._execute(f"DELETE FROM {table} WHERE run = ?", (run,))

    def _edit(self, run: int, started: float, **columns: Any) -> None:
        with self._transaction():
            self._started_at(run, started)
            damaged = self._damaged(run)
            if damaged:
                raise StoreError(f"{self.path} is damaged: {damaged} is not what was written")
            self._update(run, **columns)

    def _started_at(self, run: int, started: float) -> tuple[Any, ...]:
        row = self._db.execute("SELECT started, status, host, pid FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None or row[0] != started:
            raise StoreError(f"{self.path} has no such run {run} any more")
        return tuple(row[1:])

    # What is read

    @property
    def runs(self) -> list[Summary]:
        """All runs, the oldest first; one whose process is gone is not running."""
        return list(self._summaries(None))

    @property
    def last(self) -> int | None:
        """The id of the last run; None if there is none."""
        found: int | None = self._db.execute("SELECT max(id) FROM runs").fetchone()[0]
        return found

    def summary(self, run: int) -> Summary:
        """What a list of runs says of a run."""
        for found in self._summaries(run):
            return found
        raise StoreError(f"{self.path} has no run {run}")

    def _summaries(self, run: int | None) -> Iterator[Summary]:
        for row in self._db.execute(_SUMMARIES, (run, run)):
            id, name, started, status, host, pid, rounds, queries, total, seconds, monitor, clients, tags, *task = row
            status = "interrupted" if status == "running" and _is_gone(host, pid) else status
            known = status, rounds, sum(json.loads(queries)), total, seconds, monitor, _feasible(clients)
            yield Summary(id, name, started, *known, tuple(json.loads(tags)), *task)

    def run(self, run: int, after: int = 0) -> StoredRun:
        """Everything about a run, with its rounds later than `after`."""
        known = self.settings(run), self.result(run, after), self.failures(run), self.extra(run)
        return StoredRun(self.path, self.summary(run), *known)

    def settings(self, run: int) -> dict[str, Any]:
        """The settings of a run."""
        found: dict[str, Any] = json.loads(self._one("SELECT settings FROM runs WHERE id = ?", run)[0])
        return found

    def extra(self, run: int) -> dict[str, Any]:
        """Further values of a run: epsilon and delta, if it was private."""
        found: dict[str, Any] = json.loads(self._one("SELECT extra FROM runs WHERE id = ?", run)[0])
        return found

    def failures(self, run: int) -> list[tuple[int, int, str]]:
        """Round, client and reason of each reply that did not come."""
        return self._db.execute("SELECT round, client, reason FROM failures WHERE run = ?", (run,)).fetchall()

    def result(self, run: int, after: int = 0) -> Result:
        """The result of a run so far.

        Args:
            run: its id.
            after: the history has the rounds later than this one; of the others only x is read.
        """
        columns = "x, queries, bytes_up, bytes_down, seconds, status, message, host, pid, settings, extra"
        text = (
            "SELECT round, queries, bytes_up, bytes_down, seconds, step, monitor, diagnostics, clients FROM rounds "
            "WHERE run = ? AND round > ? ORDER BY round"
        )
        with self._snapshot():
            row = self._one(f"SELECT {columns} FROM runs WHERE id = ?", run)
            path = self._db.execute("SELECT round, x FROM rounds WHERE run = ? ORDER BY round", (run,)).fetchall()
            known = min(after, path[-1][0] - 1) if path else 0  # the last one is read in any case
            rounds = self._db.execute(text, (run, known)).fetchall()
        x, queries, bytes_up, bytes_down, seconds, status, message, host, pid, settings, more = row
        if status == "running" and _is_gone(host, pid):
            status, message = "interrupted", f"its process is gone; {UNCOUNTED}"
        per_client = tuple(json.loads(queries))
        history = tuple(record_of(row) for row in rounds)
        points = array_of(b"".join(body for _, body in path) or x).reshape(max(len(path), 1), -1)
        extra, space = json.loads(more), space_of(json.loads(settings).get("bounds"))
        return Result(
            x=array_of(x),
            rounds=len(path),
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

    def x_after_rounds(self, run: int, every: int = 1) -> dict[int, FloatArray]:
        """x by round: x0 (round 0), x after each `every`-th round, and x after the last one."""
        found = {0: array_of(self._one("SELECT x0 FROM runs WHERE id = ?", run)[0])}
        where = "run = :run AND (round % :every = 0 OR round = (SELECT max(round) FROM rounds WHERE run = :run))"
        rows = self._db.execute(
            f"SELECT round, x FROM rounds WHERE {where} ORDER BY round", {"run": run, "every": every}
        )
        return found | {round: array_of(x) for round, x in rows}

    def values(self, run: int) -> tuple[FloatArray, ...]:
        """The values of each client's queries in a run of `minimize`, in their order."""
        clients = len(json.loads(self._one("SELECT queries FROM runs WHERE id = ?", run)[0]))
        found: list[list[FloatArray]] = [[np.empty(0)] for _ in range(clients)]
        text = "SELECT client, width, y FROM query_values WHERE run = ? ORDER BY round, client"
        for client, width, y in self._db.execute(text, (run,)):
            found[client].append(array_of(y).reshape(-1, width) if width else array_of(y))
        return tuple(join_stored(parts) for parts in found)

    def last_checkpoint(self, run: int) -> bytes | None:
        """The server's last state; None before the first exchange."""
        found = self._db.execute("SELECT body, digest FROM checkpoints WHERE run = ?", (run,)).fetchone()
        if found is None:
            return None
        body, digest = found
        if hashlib.sha256(body).digest() != digest:
            raise StoreError(f"the checkpoint in {self.path} is damaged; restore the file from a backup")
        return bytes(body)

    def check(self, run: int) -> None:
        """Raise a StoreError if a row of the run is not what was written."""
        with self._snapshot():
            damaged = self._damaged(run)
        if damaged:
            raise StoreError(f"{self.path} is damaged: {damaged} is not what was written; restore it from a backup")

    def _damaged(self, run: int) -> str | None:
        """The first row of a run that is missing or does not fit its digest."""
        cursor = self._db.execute("SELECT * FROM runs WHERE id = ?", (run,))
        row = cursor.fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no run {run}")
        if row[-1] != _digest(row):
            return f"run {run}"
        count = row[[name for name, *_ in cursor.description].index("rounds")]
        found = {row[1]: row for row in self._db.execute("SELECT * FROM rounds WHERE run = ?", (run,))}
        for round in sorted({*found, *range(1, count + 1)}):
            if round not in found or round > count or found[round][-1] != _digest(found[round]):
                return f"round {round} of run {run}"
        return None

    # How rows are written and read

    def _update(self, run: int, **columns: Any) -> None:
        """Change a run's row and its digest."""
        changes = ", ".join(f"{name} = ?" for name in columns)
        self._execute(f"UPDATE runs SET {changes} WHERE id = ?", (*columns.values(), run))
        self._seal(run)

    def _seal(self, run: int, round: int | None = None) -> None:
        """Store the digest of a run's row, or of one of its rounds, as it is now."""
        table, where, key = "runs", "id = ?", tuple[int, ...]((run,))
        if round is not None:
            table, where, key = "rounds", "run = ? AND round = ?", (run, round)
        row = self._execute(f"SELECT * FROM {table} WHERE {where}", key).fetchone()
        if row is not None:
            self._execute(f"UPDATE {table} SET digest = ? WHERE {where}", (_digest(row), *key))

    def _one(self, text: str, run: int) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._db.execute(text, (run,)).fetchone()
        if row is None:
            raise StoreError(f"{self.path} has no run {run}")
        return row

    def _execute(self, text: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._db.execute(text, values)
        except sqlite3.Error as error:
            hint = "" if shows_damage(error) else f". {UNCHANGED}"
            raise StoreError(f"{self.path} cannot be written: {error}{hint}") from None

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

    @contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Everything read in it is of one moment: a run may be writing."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")


def _digest(row: Sequence[Any]) -> bytes:
    """Of a row whose last column is the digest."""
    return link_of(b"", row[:-1])


def _is_gone(host: str, pid: int) -> bool:
    """Whether a process of this machine has ended; of other machines this is unknown."""
    if host != platform.node():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it is there, and another user's
        return False
    return False


def _feasible(clients: str | None) -> bool | None:
    """As the last round says; a list of runs is shown even where that cannot be read."""
    try:
        found = json.loads(clients or "{}").get("feasible")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, bool) else None


def _tables(db: sqlite3.Connection) -> list[str]:
    return sorted(row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
