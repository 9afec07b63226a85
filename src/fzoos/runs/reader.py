"""Runs that are read: files that are never written to, and runs found by the names that commands and users give."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fzoos._util.sqlite import open_readonly, shows_damage
from fzoos.result import Result
from fzoos.runs.rows import StoredRun, Summary
from fzoos.runs.store import Store, StoreError

__all__ = ["DEFAULT", "Reader", "check_run_file", "load", "one_line_errors", "read", "reading", "runs_at"]

DEFAULT = "runs.db"  # in the current folder, if a command is given no file

_TIMEOUT = 1.0  # seconds to wait for a locked file


class Reader(Store):
    """A file of runs that is only read, while a run writes it or long after.

    Raises:
        StoreError: there is none, or it is not a file of runs, of another format, locked or damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise StoreError(f"there is no file of runs at {self.path}")
        if not self.path.stat().st_size:
            raise StoreError(f"{self.path} is empty: no run has begun in it")
        with one_line_errors(self.path):
            with closing(open_readonly(self.path, _TIMEOUT)) as db:
                db.execute("SELECT name FROM sqlite_master").fetchone()  # finds out quickly whether it is locked
            if not self._check_format():
                raise StoreError(f"{self.path} is empty: no run has begun in it")
            if not os.access(self.path.parent, os.W_OK):
                self._db = open_readonly(self.path, _TIMEOUT)
                return
            # It is a file of runs. Only a connection that may write removes the files that SQLite puts beside it.
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=_TIMEOUT)
            self._db.execute("PRAGMA trusted_schema = OFF")
            self._db.execute("PRAGMA query_only = ON")

    @property
    def version(self) -> int:
        """A number that changes whenever another process has written to the file."""
        found: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return found


@contextmanager
def one_line_errors(path: Path) -> Iterator[None]:
    """Report any problem with a file of runs as a StoreError of one line."""
    try:
        yield
    except sqlite3.Error as error:
        kind = " as a file of runs" if shows_damage(error) else ""
        raise StoreError(f"{path} cannot be read{kind}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}") from None


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """Open a file of runs to read it, and report any problem with it as a StoreError of one line."""
    with one_line_errors(path), Reader(path) as reader:
        yield reader


def load(path: str | Path, run: int | None = None) -> Result:
    """Load the result of a run from a file of runs.

    Args:
        path: the file, or the folder of a study, which has a `result.db`.
        run: the id of the run; None: the last one.

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
    path = Path(path)
    with reading(path / "result.db" if path.is_dir() else path) as reader:
        found = reader.last if run is None else run
        if found is None:
            raise StoreError(f"{path} has no run yet")
        reader.check(found)
        return reader.result(found)


def runs_at(path: str | Path | None = None) -> list[Summary]:
    """List the runs of a file, the oldest first.

    Args:
        path: the file, or a folder with a `result.db` or a `runs.db` in it; None: `runs.db` in the current folder.

    Raises:
        StoreError: there is none, or the file cannot be used.
    """
    with reading(_file(path)) as reader:
        return reader.runs


def read(name: str | None = None) -> StoredRun:
    """Read a run.

    Args:
        name: FILE:ID, or FILE (its last run), or ID (in `runs.db`); None: the last run of `runs.db`. A folder with a
            file of runs stands for the file.

    Raises:
        StoreError: there is none, or the file cannot be used.
    """
    place, run = _split(name)
    path = _file(place)
    with reading(path) as reader:
        ids = [summary.id for summary in reader.runs]
        if not ids:
            raise StoreError(f"{path} has no run yet")
        run = max(ids) if run is None else run
        if run not in ids:
            there = ", ".join(map(str, ids)) if len(ids) < 10 else f"{ids[0]} to {ids[-1]}"
            raise StoreError(f"{path} has no run {run}; it has {there}")
        return reader.run(run)


def check_run_file(path: Path) -> None:
    """Raise a StoreError if a run cannot be added to the file, without changing it; the file may be missing."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a file of runs was expected")
    if path.exists() and path.stat().st_size:
        with reading(path):
            pass


def _split(name: str | None) -> tuple[str | None, int | None]:
    if name is None or Path(name).exists():
        return name, None
    path, colon, run = name.rpartition(":")
    if not (run.isascii() and run.isdecimal()):
        return name, None
    return (path or None, int(run)) if colon else (None, int(run))


def _file(path: str | Path | None) -> Path:
    if path is None and not Path(DEFAULT).exists():
        raise StoreError(f"there is no {DEFAULT} in this folder; create one with fzoos run TASK --store {DEFAULT}")
    found = Path(DEFAULT if path is None else path)
    if not found.is_dir():
        return found
    files = [found / name for name in ("result.db", DEFAULT) if (found / name).is_file()]
    if not files:
        raise StoreError(f"there is neither a result.db nor a {DEFAULT} in {found}")
    return files[0]
