"""A run as a row of the list, and all that is shown of it: texts, numbers and lists that JSON has."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fzoos.objectives.space import space_of
from fzoos.result import Record, Result
from fzoos.runs.landmarks import UNKNOWN, Landmarks
from fzoos.runs.store import Summary

__all__ = ["columns", "details", "facts", "plain", "row"]


def facts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a list says of a run's settings: they never change.

    "place" is the same for runs in the same box and with the same sites, "same" for those of the same settings but for
    the seed.

    Example:
        >>> from fzoos.runs.dashboard.rows import facts
        >>> first, second = ({"seed": seed, "rounds": 9, "bounds": [[0, 1]]} for seed in (1, 2))
        >>> facts(first)["same"] == facts(second)["same"], facts(first)["seed"], facts(first)["total"]
        (True, 1, 9)
    """
    algorithm = settings.get("algorithm")
    name = algorithm.get("type") or algorithm.get("name") if isinstance(algorithm, dict) else algorithm
    seed = settings.get("seed")
    return {
        "algorithm": name,
        "total": settings.get("rounds"),
        "seed": seed if isinstance(seed, int) else None,
        "place": _digest([settings.get(part) for part in ("bounds", "scale", "sites")]),
        "same": _digest({part: value for part, value in settings.items() if part != "seed"}),
    }


def row(
    path: Path, run: Summary, known: Mapping[str, Any], landmarks: Landmarks = UNKNOWN, tags: Sequence[str] = ()
) -> dict[str, Any]:
    """A run in the list.

    Args:
        path: its file.
        run: as the file lists it.
        known: what `facts` says of its settings.
        landmarks: what stands beside its rounds.
        tags: the words that somebody gave it.
    """
    problem = landmarks.task or known["place"]
    more = {name: known[name] for name in ("algorithm", "total", "seed")}
    more |= {"key": f"{path.name}:{run.id}", "file": path.name, "tags": list(tags), "task": landmarks.task}
    more |= {"minimum": landmarks.minimum, "problem": problem, "group": _digest([problem, known["same"], run.name])}
    return plain(asdict(run) | more)  # type: ignore[no-any-return]


def details(
    path: Path,
    run: Summary,
    settings: Mapping[str, Any],
    result: Result,
    failures: Sequence[tuple[int, int, str]],
    extra: Mapping[str, Any],
    landmarks: Landmarks = UNKNOWN,
    tags: Sequence[str] = (),
    after: int = 0,
) -> dict[str, Any]:
    """All that is shown of a run, with its rounds later than `after`; of values that JSON has."""
    space = space_of(settings.get("bounds"))
    more = {
        "message": result.message,
        "settings": dict(settings),
        "extra": dict(extra),
        "clients": _names(settings, result),
        "client_queries": list(result.queries_per_client),
        "failed": result.failed,
        "first_failure": result.first_failure,
        "feasibility": result.feasibility,
        "bytes_up": result.bytes_up,
        "bytes_down": result.bytes_down,
        "x": result.x.tolist(),
        "coordinates": list(space.coordinates) if space is not None and space.dim == len(result.x) else None,
        "variables": _texts(result.variables),
        "start": landmarks.start,
        "failures": [list(failure) for failure in failures],
        "history": columns([record for record in result.history if record.round > after]),
    }
    return row(path, run, facts(settings), landmarks, tags) | plain(more)  # type: ignore[no-any-return]


def columns(history: Sequence[Record]) -> dict[str, Any]:
    """Records as columns: less to send, and what a plot needs.

    Example:
        >>> from fzoos.runs.dashboard.rows import columns
        >>> from fzoos.result import Record
        >>> table = columns([Record(1, 40, 96, 64, 0.5, 0.1, 2.0, {"correction_length": 0.3}, (20, 20), (0.1, None))])
        >>> table["bytes"], table["monitor"], table["diagnostics"], table["distances"]
        ([160], [2.0], {'correction_length': [0.3]}, [[0.1, None]])
    """
    names = sorted({name for record in history for name in record.measured})
    return {
        "round": [record.round for record in history],
        "queries": [record.queries for record in history],
        "bytes": [record.bytes_up + record.bytes_down for record in history],
        "seconds": [record.seconds for record in history],
        "step": [record.step for record in history],
        "monitor": [record.monitor for record in history],
        "failed": [record.failed for record in history],
        "feasible": [record.feasible for record in history],
        "diagnostics": {name: [record.measured.get(name) for record in history] for name in names},
        "distances": [[_short(value) for value in record.distances] for record in history],
    }


def plain(value: Any) -> Any:
    """The same without NaN and infinity, which JSON does not have: they become None.

    Example:
        >>> from fzoos.runs.dashboard.rows import plain
        >>> plain({"step": [0.5, float("nan")]})
        {'step': [0.5, None]}
    """
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _digest(value: Any) -> str:
    """Another text for another value; a short one, because a list has many."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _texts(variables: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if variables is None else {name: str(value) for name, value in variables.items()}


def _names(settings: Mapping[str, Any], result: Result) -> list[str]:
    sites = settings.get("sites")
    count = len(result.queries_per_client)
    return list(map(str, sites)) if sites and len(sites) == count else [f"client {i}" for i in range(count)]


def _short(value: float | None) -> float | None:
    """Six digits are enough for a plot, and a third of the size."""
    return value if value is None else float(f"{value:.6g}")
