"""Finished runs of figures in a folder."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fzoos._util.describe import describe
from fzoos_experiments.paper.run import Row, Run
from fzoos_experiments.runs import Records

__all__ = ["Store"]

_PACKAGES = ("fzoos", "numpy", "scipy", "torch", "scikit-learn")


class Store(Records):
    """The runs of a folder, by their settings.

    A record contains the settings of the run, its rows, and a digest of the data of its task. It is used only if the
    settings are the same and, where the data are available, if the digest is the same. So results of other settings or
    other data are never mixed in.
    """

    def load(self, run: Run) -> list[Row] | None:
        """The rows of a finished run, or None."""
        records = self._records(run)
        return records[0]["rows"] if records else None

    def seconds(self, runs: Iterable[Run]) -> float:
        """The total duration of finished runs."""
        return float(sum(self._records(run)[0]["seconds"] for run in runs))

    def made_with(self, runs: Iterable[Run]) -> list[dict[str, str]]:
        """The versions and machines that made finished runs, each once."""
        found = [self._records(run)[0]["versions"] for run in runs]
        return [versions for k, versions in enumerate(found) if versions not in found[:k]]

    def data(self, runs: Iterable[Run]) -> dict[str, str]:
        """The digests of the data of finished runs, by dataset.

        Raises:
            ValueError: runs were made with different versions of one dataset, and the data are not available to choose.
        """
        found: dict[str, str] = {}
        for run in runs:
            name = run.task.dataset
            for record in self._records(run) if name is not None else ():
                if found.setdefault(str(name), record["data"]) != record["data"]:
                    raise ValueError(
                        f"{self.folder} has runs of different versions of the dataset {name}: "
                        "put the version that is wanted into $FZOOS_DATA"
                    )
        return found

    def save(self, run: Run, rows: list[Row], seconds: float, data: str | None = None) -> None:
        """Store a finished run.

        Args:
            run: the run.
            rows: its measurements, one row per round.
            seconds: its duration.
            data: the digest of the data of its task, if it has any.
        """
        record = {"key": run.key, "settings": describe(run), "versions": _versions(), "seconds": seconds, "rows": rows}
        self.add(record if data is None else record | {"data": data})

    def _records(self, run: Run) -> list[dict[str, Any]]:
        data = run.task.data
        return [record for record in self.find(run.key) if data is None or record.get("data") == data]


def _versions() -> dict[str, str]:
    """The versions of what computes a run."""
    found = {"python": platform.python_version(), "machine": f"{platform.machine()}, {os.cpu_count()} cores"}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
