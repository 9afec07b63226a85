"""Runs in files that other programs read: CSV, JSON, Parquet."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fzoos.runs.rows import StoredRun, plain

__all__ = ["SUFFIXES", "export", "iso_time", "run_as_dict", "to_json"]


def export(run: StoredRun, path: str | Path) -> None:
    """Write a run to a file, whole or not at all.

    Args:
        run: the stored run.
        path: the file; its suffix gives the format. `.csv` and `.parquet` have one row per round and the columns
            of `Record.row`; `.json` has everything that is known of the run.

    Raises:
        ValueError: the suffix is none of these.
        ImportError: the file is a .parquet file, and pandas or pyarrow is not installed.
        OSError: the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"the file must be a {', '.join(SUFFIXES)} file, got {path}")
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"the run cannot be written to {path}: no such directory, or a directory itself")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        SUFFIXES[path.suffix](run, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def run_as_dict(run: StoredRun) -> dict[str, Any]:
    """Everything that is known of a run, as lists, numbers and text that JSON has."""
    summary = run.summary
    known = {"id": summary.id, "name": summary.name, "started": iso_time(summary.started), "task": summary.task}
    known |= {"start": summary.start, "minimum": summary.minimum, "tags": summary.tags, "settings": run.settings}
    failures = [{"round": r, "client": c, "reason": reason} for r, c, reason in run.failures]
    return plain(known | asdict(run.result) | {"failures": failures, "extra": run.extra})  # type: ignore[no-any-return]


def iso_time(seconds: float) -> str:
    """A point in time as ISO 8601 text."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def to_json(value: Any) -> str:
    """A value as the text of a JSON file."""
    return json.dumps(plain(value), indent=2, allow_nan=False) + "\n"


def _csv(run: StoredRun, path: Path) -> None:
    table = run.result.columns
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([list(table), *zip(*table.values(), strict=True)])


def _json(run: StoredRun, path: Path) -> None:
    path.write_text(to_json(run_as_dict(run)), encoding="utf-8")


def _parquet(run: StoredRun, path: Path) -> None:
    try:
        import pyarrow  # noqa: F401

        table = run.result.to_pandas()
    except ImportError:
        raise ImportError("a .parquet file needs pandas and pyarrow: pip install 'fzoos[parquet]'") from None
    table.to_parquet(path, engine="pyarrow", index=False)


SUFFIXES: dict[str, Callable[[StoredRun, Path], None]] = {".csv": _csv, ".json": _json, ".parquet": _parquet}
