"""Finished runs on disk: one JSON file each, written whole or not at all."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fzoos.experiments.run import Row, Run

__all__ = ["Store", "describe", "versions"]

_PACKAGES = ("fzoos", "numpy", "scipy", "torch", "scikit-learn")


class Store:
    """The folder in which runs are kept, by their fingerprints.

    A file holds the run's settings beside its rows. It is used only if those are the settings asked for, so that
    results of other settings are never mixed in.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, run: Run) -> Path:
        return self._folder / f"{run.fingerprint}.json"

    def load(self, run: Run) -> list[Row] | None:
        """The rows of a run that has been made, or None."""
        try:
            kept = json.loads(self._path(run).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        rows: list[Row] = kept["rows"]
        return rows if kept["key"] == repr(run) else None

    def made_with(self, runs: Iterable[Run]) -> list[dict[str, str]]:
        """The versions and machines that made these runs, each once: those of the runs, not of who looks at them."""
        found = [json.loads(self._path(run).read_text(encoding="utf-8"))["versions"] for run in runs]
        return [versions for k, versions in enumerate(found) if versions not in found[:k]]

    def save(self, run: Run, rows: list[Row], seconds: float) -> None:
        """Keep a run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = {"key": repr(run), "settings": describe(run), "versions": versions(), "seconds": seconds, "rows": rows}
        path = self._path(run)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        temporary.replace(path)


def describe(value: Any) -> Any:
    """Settings as plain JSON: a dataclass becomes its name and fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: describe(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (list, tuple)):
        return [describe(entry) for entry in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def versions() -> dict[str, str]:
    """Versions of what computed a run."""
    found = {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
