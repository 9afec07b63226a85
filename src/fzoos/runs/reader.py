"""Runs by name: how a command finds the run that it was given, and everything that is stored of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fzoos.result import Result
from fzoos.runs.dashboard.data import Reader
from fzoos.runs.landmarks import UNKNOWN, Landmarks
from fzoos.runs.store import StoreError, Summary

__all__ = ["DEFAULT", "StoredRun", "check_run_file", "read", "runs_at"]

DEFAULT = "runs.db"  # in the current folder, where a command is given no file


@dataclass(frozen=True)
class StoredRun:
    """A run, with everything that its file has of it.

    Attributes:
        name: FILE:ID.
        summary: the run's row in a list of runs.
        settings: the settings that it was started with.
        result: the run's result so far.
        failures: round, client and reason of each answer that did not come.
        extra: epsilon and delta, if it was private.
        landmarks: its start, F there, and the smallest F.
        tags: the words that somebody gave it.
    """

    name: str
    summary: Summary
    settings: dict[str, Any]
    result: Result
    failures: list[tuple[int, int, str]]
    extra: dict[str, Any]
    landmarks: Landmarks = UNKNOWN
    tags: tuple[str, ...] = ()

    def walk(self) -> dict[str, Any]:
        """The coordinates of x over the rounds, those that moved most: read now, since few want them.

        Raises:
            StoreError: the file cannot be read any more.
        """
        with _reading(Path(self.name.rpartition(":")[0])) as reader:
            return reader.walk(self.summary.id)

    def client(self, index: int) -> str:
        """A client's name: its site's, in a study."""
        sites = self.settings.get("sites")
        return str(sites[index]) if isinstance(sites, list) and 0 <= index < len(sites) else f"client {index}"


def runs_at(path: str | Path | None = None) -> list[Summary]:
    """The runs of a file, the oldest first.

    Args:
        path: the file, or a folder with a `result.db` or a `runs.db` in it; None: `runs.db` in this folder.

    Raises:
        StoreError: there is none, or the file cannot be used.
    """
    with _reading(_file(path)) as reader:
        return reader.runs


def read(name: str | None = None) -> StoredRun:
    """A run.

    Args:
        name: FILE:ID, or FILE (its last run), or ID (in `runs.db`); None: the last run of `runs.db`. In place of a
            file, the folder it is in.

    Raises:
        StoreError: there is none, or the file cannot be used.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> from fzoos.runs.reader import read
        >>> path = Path(tempfile.mkdtemp()) / "runs.db"
        >>> for seed in (1, 2):
        ...     result = minimize([lambda x: float(x @ x)], np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=1,
        ...                       rng=seed, store=path)
        >>> read(f"{path}:1").settings["seed"], read(f"{path}").settings["seed"]
        (1, 2)
    """
    place, run = _split(name)
    path = _file(place)
    with _reading(path) as reader:
        summaries = {summary.id: summary for summary in reader.runs}
        if not summaries:
            raise StoreError(f"{path} has no run yet")
        id = max(summaries) if run is None else run
        if id not in summaries:
            raise StoreError(f"{path} has no run {id}; it has {_ids(list(summaries))}")
        known = reader.study(id), reader.result(id), reader.failures(id), reader.extra(id)
        return StoredRun(f"{path}:{id}", summaries[id], *known, reader.landmarks(id), reader.tags(id))


def check_run_file(path: Path) -> None:
    """Raise a StoreError if a run could not be added to the file; it is not touched. There may be none yet."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a file of runs was expected")
    if path.exists() and path.stat().st_size:
        with _reading(path):
            pass


@contextmanager
def _reading(path: Path) -> Iterator[Reader]:
    """Report any problem with the file as one line."""
    try:
        with Reader(path) as reader:
            yield reader
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read as a file of runs: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} is damaged: {type(error).__name__}: {error}") from None


def _split(name: str | None) -> tuple[str | None, int | None]:
    if name is None or Path(name).exists():
        return name, None
    path, colon, run = name.rpartition(":")
    if not (run.isascii() and run.isdecimal()):
        return name, None
    return (path or None, int(run)) if colon else (None, int(run))


def _file(path: str | Path | None) -> Path:
    if path is None and not Path(DEFAULT).exists():
        raise StoreError(f"there is no {DEFAULT} in this folder; make one with fzoos run TASK --store {DEFAULT}")
    found = Path(DEFAULT if path is None else path)
    if not found.is_dir():
        return found
    files = [found / name for name in ("result.db", DEFAULT) if (found / name).is_file()]
    if not files:
        raise StoreError(f"there is neither a result.db nor a {DEFAULT} in {found}")
    return files[0]


def _ids(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) if len(ids) < 10 else f"{ids[0]} to {ids[-1]}"
