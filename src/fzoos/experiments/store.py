"""Finished runs on disk: one JSON file each, written whole or not at all."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fzoos._util.describe import describe
from fzoos.experiments.run import Row, Run

__all__ = ["Store", "versions"]

_PACKAGES = ("fzoos", "numpy", "scipy", "torch", "scikit-learn")


class Store:
    """The folder in which runs are kept, by their fingerprints.

    A file holds the run's settings beside its rows, and a digest of the data that its task was made of. It is used
    only if those are the settings asked for and, where the data are at hand, if it is their digest: results of other
    settings or data are never mixed in. Runs of the same settings on other data have files of their own. A file
    without a digest is from before there were any, and is taken for one of the data at hand.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, run: Run) -> list[Row] | None:
        """The rows of a run that has been made, or None."""
        kept = next(self._kept(run), None)
        return None if kept is None else kept["rows"]

    def made_with(self, runs: Iterable[Run]) -> list[dict[str, str]]:
        """The versions and machines that made these runs, each once: those of the runs, not of who looks at them."""
        found = [next(self._kept(run))["versions"] for run in runs]
        return [versions for k, versions in enumerate(found) if versions not in found[:k]]

    def data(self, runs: Iterable[Run]) -> dict[str, str]:
        """The digests of the data that made these runs, by dataset.

        Raises:
            ValueError: there are several of one dataset. That can only be where the data are not at hand, as runs of
                other data are not looked at otherwise.
        """
        found: dict[str, str] = {}
        for run in runs:
            name = run.task.dataset
            for kept in self._kept(run):
                if name is None or "data" not in kept:
                    continue
                if found.setdefault(name, kept["data"]) != kept["data"]:
                    raise ValueError(
                        f"{self._folder} has runs of different versions of the dataset {name}: "
                        "put the version that is wanted into $FZOOS_DATA"
                    )
        return found

    def save(self, run: Run, rows: list[Row], seconds: float, data: str | None = None) -> None:
        """Keep a run.

        Args:
            run: the run that was made.
            rows: the run's measurements, one row per round.
            seconds: how long it took.
            data: the digest of its task's data, where it has any.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = {"key": repr(run), "settings": describe(run), "versions": versions(), "seconds": seconds, "rows": rows}
        path = self._path(run, data)
        if data is not None:
            kept["data"] = data
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        temporary.replace(path)

    def _path(self, run: Run, data: str | None) -> Path:
        name = run.fingerprint if data is None else f"{run.fingerprint}-{data[:16]}"
        return self._folder / f"{name}.json"

    def _kept(self, run: Run) -> Iterator[dict[str, Any]]:
        """The files of a run: of the data at hand or, where they are not, of whatever data."""
        data, plain = run.task.data, self._path(run, None)
        if run.task.dataset is None:
            paths = [plain]
        elif data is None:
            paths = [*sorted(self._folder.glob(f"{run.fingerprint}-*.json")), plain]
        else:
            paths = [self._path(run, data), plain]
        for path in paths:
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
            except (FileNotFoundError, json.JSONDecodeError):
                continue
            if kept["key"] == repr(run) and (data is None or kept.get("data", data) == data):
                yield kept


def versions() -> dict[str, str]:
    """Versions of what computed a run."""
    found = {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
