"""The runs that the page shows: files of runs, watched and read, and never written to."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from fzoos.runs.dashboard.view import details, dumps, path_of_x, row
from fzoos.runs.plots import COLOURS
from fzoos.runs.reader import Reader, one_line_errors
from fzoos.runs.rows import Summary
from fzoos.runs.store import StoreError

__all__ = ["SUFFIXES", "RunIndex"]

SUFFIXES = (".db", ".result")  # of the files in a folder that are taken for files of runs

_FRESH = 0.25  # seconds for which the state of the files is cached
_AGAIN = 2.0  # seconds after which a file that could not be read is tried again

T = TypeVar("T")


class RunIndex:
    """The runs at a path: those of one file, or of all files of runs in a folder. Safe to use from several threads.

    Args:
        path: a file of runs, or a folder; files in it that are not files of runs are listed and not touched.

    Raises:
        StoreError: there is nothing, or the file cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise StoreError(f"there is no file of runs and no folder at {self.path}")
        self._lock = Lock()
        self._files: dict[Path, _IndexedFile] = {}
        self._looked = -math.inf
        self._found: dict[str, Any] = {}
        self._text = ""
        if not self.path.is_dir():
            self._files[self.path] = _IndexedFile(self.path)
            if self._files[self.path].problem:
                raise StoreError(self._files[self.path].problem)

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
        """The list of runs as JSON, made once for all viewers."""
        self.refresh()
        return self._text

    def _refresh(self) -> dict[str, Any]:
        paths = _files_in(self.path) if self.path.is_dir() else [self.path]
        for gone in self._files.keys() - set(paths):
            self._files.pop(gone).close()
        for path in paths:
            if path in self._files:
                self._files[path].refresh()
            else:
                self._files[path] = _IndexedFile(path)
        files = [self._files[path] for path in paths]
        runs = sorted((run for file in files for run in file.runs), key=lambda run: (-run["started"], -run["id"]))
        return {
            "path": str(self.path),
            "colours": list(COLOURS),
            "runs": runs,
            "problems": [file.problem for file in files if file.problem],
        }

    def details(self, key: str, after: int = 0) -> dict[str, Any]:
        """All that is shown of a run, with its rounds later than `after`.

        Raises:
            StoreError: there is no such run, or its file cannot be read any more.
        """
        return self._read(key, lambda reader, run: details(reader.run(run, after)))

    def path_of_x(self, key: str) -> dict[str, Any]:
        """The coordinates of a run's x over its rounds.

        Raises:
            StoreError: there is no such run, or its file cannot be read any more.
        """
        return self._read(key, path_of_x)

    def _read(self, key: str, function: Callable[[Reader, int], T]) -> T:
        self.refresh()
        with self._lock:
            file, run = self._find(key)
            assert file.reader is not None
            with one_line_errors(file.path):
                return function(file.reader, run)

    def file_of(self, key: str) -> tuple[Path, int]:
        """The file of a run, and its id there.

        Raises:
            StoreError: there is no such run.
        """
        self.refresh()
        with self._lock:
            file, run = self._find(key)
            return file.path, run

    def changed(self) -> None:
        """Read the files again at the next request: something was written."""
        with self._lock:
            self._looked = -math.inf

    def _find(self, key: str) -> tuple[_IndexedFile, int]:
        name, _, number = key.rpartition(":")
        file = next((file for path, file in self._files.items() if path.name == name), None)
        well_formed = number.isascii() and number.isdecimal() and len(number) < 19  # as SQLite can store it
        if file is None or file.reader is None or not well_formed:
            raise StoreError(f"there is no run {key!r}")
        return file, int(number)

    def close(self) -> None:
        """Close all files of runs that are open."""
        with self._lock:
            for file in self._files.values():
                file.close()

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
        self._rows: dict[int, tuple[Summary, dict[str, Any]]] = {}  # of each run: what its row was made from, and it
        self.problem = ""
        self._open()

    def _open(self) -> None:
        self.close()
        try:
            self._identity, self._rows = self._identify(), {}
            self.reader = Reader(self.path)
            self._read()
        except (StoreError, OSError) as error:
            self._fail(error)

    def _read(self) -> None:
        assert self.reader is not None
        with one_line_errors(self.path):
            self._version = self.reader.version
            self.runs, self.problem = [self._row(run) for run in self.reader.runs], ""

    def _row(self, run: Summary) -> dict[str, Any]:
        """The row of a run in the list, read again only if the run has changed."""
        assert self.reader is not None
        if run.id not in self._rows or self._rows[run.id][0] != run:
            self._rows[run.id] = run, row(self.path, run, self.reader.settings(run.id))
        return self._rows[run.id][1]

    def refresh(self) -> None:
        """Read again what may have changed; that a process has died leaves no trace in the file."""
        try:
            if self.reader is None:
                if time.monotonic() - self._failed > _AGAIN:
                    self._open()
            elif self._identify() != self._identity:
                self._open()
            elif self._has_changed(self.reader) or any(run["status"] == "running" for run in self.runs):
                self._read()
        except (StoreError, OSError) as error:
            self._fail(error)

    def _has_changed(self, reader: Reader) -> bool:
        with one_line_errors(self.path):
            return reader.version != self._version

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


def _files_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
