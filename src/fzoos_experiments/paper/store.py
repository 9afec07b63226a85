"""Finished runs on disk: one JSON file each, written whole or not at all, or packed as the lines of one file."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fzoos._util.describe import describe
from fzoos_experiments.paper.run import Row, Run

__all__ = ["Store", "versions"]

_PACKAGES = ("fzoos", "numpy", "scipy", "torch", "scikit-learn")


class Store:
    """The folder in which runs are kept, by their fingerprints; many that belong together can be packed into one file.

    A file holds the run's settings beside its rows, and a digest of the data that its task was made of. It is used
    only if those are the settings asked for and, where the data are at hand, if it is their digest: results of other
    settings or data are never mixed in. Runs of the same settings on other data have files of their own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, run: Run) -> list[Row] | None:
        """The rows of a run that has been made, or None."""
        kept = next(self._kept(run), None)
        return None if kept is None else kept["rows"]

    def of_other_versions(self, runs: Iterable[Run]) -> int:
        """How many of these runs are here as another version of their algorithm made them."""
        kept = [_without_version(kept["key"]) for kept in self._all()]
        return sum(_without_version(run.key) in set(kept) for run in runs if self.load(run) is None)

    def seconds(self, runs: Iterable[Run]) -> float:
        """How long these runs took, one after another."""
        return float(sum(next(self._kept(run))["seconds"] for run in runs))

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
                if name is None:
                    continue
                if found.setdefault(name, kept["data"]) != kept["data"]:
                    raise ValueError(
                        f"{self._folder} has runs of different versions of the dataset {name}: "
                        "put the version that is wanted into $FZOOS_DATA"
                    )
        return found

    def save(
        self, run: Run, rows: list[Row], seconds: float, data: str | None = None, made: Mapping[str, str] | None = None
    ) -> None:
        """Keep a run.

        Args:
            run: the run that was made.
            rows: the run's measurements, one row per round.
            seconds: how long it took.
            data: the digest of its task's data, where it has any.
            made: what else is to be known of how it was made, beside the versions.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        made_with = versions() | dict(made or {})
        kept = {"key": run.key, "settings": describe(run), "versions": made_with, "seconds": seconds, "rows": rows}
        path = self._path(run, data)
        if data is not None:
            kept["data"] = data
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        temporary.replace(path)

    def pack(self, runs: Iterable[Run], name: str) -> None:
        """Put those of the runs that there are into one file of the folder, a line each, in place of their own files.

        Args:
            runs: which.
            name: of the file, without its suffix.
        """
        runs = list(runs)
        lines = [json.dumps(kept) + "\n" for run in runs if (kept := next(self._kept(run), None)) is not None]
        if not lines:
            return
        path = self._folder / f"{name}.jsonl.gz"
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))  # the same runs, the same bytes
        temporary.replace(path)
        for run in runs:
            for loose in self._paths(run):
                loose.unlink(missing_ok=True)
        del self._packed

    @cached_property
    def _packed(self) -> dict[str, list[dict[str, Any]]]:
        """Packed runs by their keys."""
        found: dict[str, list[dict[str, Any]]] = {}
        for path in sorted([*self._folder.glob("*.jsonl"), *self._folder.glob("*.jsonl.gz")]):
            packed = path.read_bytes()
            text = gzip.decompress(packed) if path.suffix == ".gz" else packed
            for line in text.decode().splitlines():
                kept = json.loads(line)
                found.setdefault(kept["key"], []).append(kept)
        return found

    def _path(self, run: Run, data: str | None) -> Path:
        name = run.fingerprint if data is None else f"{run.fingerprint}-{data[:16]}"
        return self._folder / f"{name}.json"

    def _paths(self, run: Run) -> list[Path]:
        """A run's own files: of the data at hand or, where they are not, of whatever data."""
        data = run.task.data
        if run.task.dataset is not None and data is None:
            return sorted(self._folder.glob(f"{run.fingerprint}-*.json"))
        return [self._path(run, data)]

    def _kept(self, run: Run) -> Iterator[dict[str, Any]]:
        """What is kept of a run, in files of its own and packed."""
        data = run.task.data
        for kept in (*self._loose(run), *self._packed.get(run.key, ())):
            if kept["key"] == run.key and (data is None or kept.get("data") == data):
                yield kept

    def _all(self) -> Iterator[dict[str, Any]]:
        for path in self._folder.glob("*.json"):
            with suppress(OSError, json.JSONDecodeError):
                yield json.loads(path.read_text(encoding="utf-8"))
        for packed in self._packed.values():
            yield from packed

    def _loose(self, run: Run) -> Iterator[dict[str, Any]]:
        for path in self._paths(run):
            try:
                yield json.loads(path.read_text(encoding="utf-8"))
            except (FileNotFoundError, json.JSONDecodeError):
                continue


def _without_version(key: str) -> str:
    return re.sub(r", version=\d+$", "", key)


def versions() -> dict[str, str]:
    """Versions of what computed a run."""
    found = {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
