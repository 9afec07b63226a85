"""What the page shows, read from files of runs; none of them is ever written to."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from fzoos.runs.dashboard.rows import columns, details, facts, plain, row
from fzoos.runs.dashboard.walk import ROUNDS, walk
from fzoos.runs.landmarks import UNKNOWN, Landmarks, all_landmarks
from fzoos.runs.plots import COLOURS
from fzoos.runs.rows import array_of
from fzoos.runs.store import Store, StoreError, Summary

__all__ = ["SUFFIXES", "Reader", "RunIndex", "columns", "details", "dumps", "plain", "row"]

SUFFIXES = (".db", ".result")  # of the files in a folder that are taken for files of runs

_TIMEOUT = 1.0  # seconds to wait for a locked file
_FRESH = 0.25  # seconds for which the state of the files is cached
_AGAIN = 2.0  # seconds after which a file that could not be read is tried again


class Reader(Store):
    """A file of runs that is only read, while a run writes it or long after.

    Args:
        path: the file.

    Raises:
        StoreError: there is none, or it is not a file of runs, of another format, locked or damaged.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from fzoos.runs.dashboard.data import Reader
        >>> from fzoos.runs.store import Store
        >>> path = Path(tempfile.mkdtemp()) / "runs.db"
        >>> with Store(path) as store:
        ...     run = store.begin("demo", {"rounds": 3}, np.zeros(2), clients=3)
        >>> with Reader(path) as reader:
        ...     [run.name for run in reader.runs]
        ['demo']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._rows: dict[int, tuple[Any, dict[str, Any]]] = {}  # of each run that was listed, and what it was made of
        if not self.path.is_file():
            raise StoreError(f"there is no file of runs at {self.path}")
        if not self.path.stat().st_size:
            raise StoreError(f"{self.path} is empty: no run has begun in it")
        with self._one_line():
            try:
                self._connect("mode=ro").close()  # finds out quickly whether it is locked, and changes nothing
                if not self._check():
                    raise StoreError(f"{self.path} is empty: no run has begun in it")
            except sqlite3.OperationalError as error:
                known = "readonly" in str(error) or "unable to open" in str(error)
                if not known or os.access(self.path.parent, os.W_OK):  # there a process may just be making it
                    raise
                self._db = self._connect("mode=ro&immutable=1")  # SQLite cannot put files of its own into the folder
                return
            # It is a file of runs. Only a connection that may write removes the files that SQLite puts beside it.
            self._db = self._connect("mode=rw")
            self._db.execute("PRAGMA query_only = ON")

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?{mode}"
        db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_TIMEOUT)
        try:
            db.execute("SELECT name FROM sqlite_master").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        """SQLite's errors as a `StoreError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} cannot be read as a file of runs: {error}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{self.path} is damaged: {type(error).__name__}: {error}") from None

    @property
    def version(self) -> int:
        """Another number whenever another process has written to the file."""
        with self._one_line():
            found: int = self._db.execute("PRAGMA data_version").fetchone()[0]
            return found

    def summaries(self) -> list[dict[str, Any]]:
        """One row of the list for each run, the oldest first."""
        with self._one_line():
            landmarks = all_landmarks(self._db)
            return [self._summary(run, landmarks.get(run.id, UNKNOWN)) for run in self.runs]

    def details(self, run: int, after: int = 0) -> dict[str, Any]:
        """All that is shown of a run, with its rounds later than `after`."""
        with self._one_line():
            result, settings = self.result(run, after), self.study(run)
            known = (self.failures(run), self.extra(run), self.landmarks(run), self.tags(run))
            return details(self.path, self.summary(run), settings, result, *known, after)

    def walk(self, run: int) -> dict[str, Any]:
        """The coordinates of x over the rounds, the start first, as `walk` chooses them."""
        with self._one_line():
            last = self._one("SELECT max(round) FROM rounds WHERE run = ?", run)[0] or 0
            each = max(1, math.ceil(last / ROUNDS))
            rows = self._db.execute(
                "SELECT round, x FROM rounds WHERE run = ? AND (round % ? = 0 OR round = ?) ORDER BY round",
                (run, each, last),
            ).fetchall()
            x0 = self.landmarks(run).x0
            points = [] if x0 is None else [(0, x0)]
            points += [(round, array_of(x)) for round, x in rows]
            return walk(self.study(run), [round for round, _ in points], [x for _, x in points])

    def _summary(self, run: Summary, landmarks: Landmarks) -> dict[str, Any]:
        shown = run, landmarks
        if run.id not in self._rows or self._rows[run.id][0] != shown:
            self._rows[run.id] = shown, row(self.path, run, facts(self.study(run.id)), landmarks, run.tags)
        return self._rows[run.id][1]


class RunIndex:
    """The runs at a path: those of one file, or of all files of runs in a folder. Safe to use from several threads.

    Args:
        path: a file of runs, or a folder; files in it that are not files of runs are listed and not touched.

    Raises:
        StoreError: there is nothing, or the file cannot be used.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> from fzoos.runs.dashboard.data import RunIndex
        >>> folder = Path(tempfile.mkdtemp())
        >>> with RunIndex(folder) as index:
        ...     before = index.refresh()["runs"]
        ...     result = minimize([lambda x: float(x @ x)], np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=2,
        ...                       rng=0, store=folder / "runs.db")
        ...     time.sleep(0.3)
        ...     before, [run["key"] for run in index.refresh()["runs"]]
        ([], ['runs.db:1'])
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise StoreError(f"there is no file of runs and no folder at {self.path}")
        self._lock = Lock()
        self._books: dict[Path, _IndexedFile] = {}
        self._looked = -math.inf
        self._found: dict[str, Any] = {}
        self._text = ""
        if not self.path.is_dir():
            self._books[self.path] = _IndexedFile(self.path)
            if self._books[self.path].problem:
                raise StoreError(self._books[self.path].problem)

    def refresh(self) -> dict[str, Any]:
        """The list of runs, the newest first, and what could not be read."""
        with self._lock:
            if time.monotonic() - self._looked > _FRESH:
                found = self._refresh()
                if found != self._found:
                    self._found, self._text = found, dumps(found)
                self._looked = time.monotonic()
            return self._found

    def listing(self) -> str:
        """The same as JSON: made once for all who look."""
        self.refresh()
        return self._text

    def _refresh(self) -> dict[str, Any]:
        files = set(_files(self.path)) if self.path.is_dir() else {self.path}
        for gone in self._books.keys() - files:
            self._books.pop(gone).close()
        for file in sorted(files):
            if file in self._books:
                self._books[file].refresh()
            else:
                self._books[file] = _IndexedFile(file)
        books = [self._books[file] for file in sorted(files)]
        runs = sorted((run for book in books for run in book.runs), key=lambda run: (-run["started"], -run["id"]))
        return {
            "path": str(self.path),
            "colours": list(COLOURS),
            "runs": runs,
            "problems": [book.problem for book in books if book.problem],
        }

    def details(self, key: str, after: int = 0) -> dict[str, Any]:
        """All that is shown of a run, with its rounds later than `after`.

        Raises:
            StoreError: there is no such run, or its file cannot be read any more.
        """
        self.refresh()
        with self._lock:
            book, run = self._find(key)
            assert book.reader is not None
            return book.reader.details(run, after)

    def walk(self, key: str) -> dict[str, Any]:
        """The coordinates of a run's x over its rounds.

        Raises:
            StoreError: there is no such run, or its file cannot be read any more.
        """
        self.refresh()
        with self._lock:
            book, run = self._find(key)
            assert book.reader is not None
            return book.reader.walk(run)

    def file_of(self, key: str) -> tuple[Path, int]:
        """The file of a run, and its id there.

        Raises:
            StoreError: there is no such run.
        """
        self.refresh()
        with self._lock:
            book, run = self._find(key)
            return book.path, run

    def changed(self) -> None:
        """Something was written: what is asked for next is read anew."""
        with self._lock:
            self._looked = -math.inf

    def _find(self, key: str) -> tuple[_IndexedFile, int]:
        name, _, number = key.rpartition(":")
        book = next((book for file, book in self._books.items() if file.name == name), None)
        if book is None or book.reader is None or not (number.isascii() and number.isdecimal()):
            raise StoreError(f"there is no run {key!r}")
        return book, int(number)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for book in self._books.values():
                book.close()

    def __enter__(self) -> RunIndex:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _IndexedFile:
    """A file on the index: its runs as they were when it last changed, or why it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader: Reader | None = None
        self.runs: list[dict[str, Any]] = []
        self.problem = ""
        self._open()

    def _open(self) -> None:
        self.close()
        try:
            self._identity = self._identify()
            self.reader = Reader(self.path)
            self._read()
        except (StoreError, OSError) as error:
            self._fail(error)

    def _read(self) -> None:
        assert self.reader is not None
        self._version = self.reader.version
        self.runs, self.problem = self.reader.summaries(), ""

    def refresh(self) -> None:
        """Read again what may have changed; that a process has died leaves no trace in the file."""
        try:
            if self.reader is None:
                if time.monotonic() - self._failed > _AGAIN:
                    self._open()
            elif self._identify() != self._identity:
                self._open()
            elif self.reader.version != self._version or any(run["status"] == "running" for run in self.runs):
                self._read()
        except (StoreError, OSError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.close()
        self.runs, self.problem = [], " ".join(str(error).split())
        self._failed = time.monotonic()

    def _identify(self) -> tuple[int, int]:
        """Another value when another file has taken the path."""
        status = self.path.stat()
        return status.st_dev, status.st_ino

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


def dumps(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
