"""What the page shows of runs, as the lists, numbers and text that JSON has."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.space import box_of, space_of
from fzoos.result import Record
from fzoos.runs.rows import StoredRun, Summary, plain
from fzoos.runs.store import Store

__all__ = ["columns", "details", "dumps", "path_of_x", "row"]

_COORDINATES = 20  # of x, drawn at most
_ROUNDS = 400  # of the path of x, drawn at most


def row(path: Path, run: Summary, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run in the list.

    Runs of the same "problem" minimise the same task or, if it is not known, have the same box and the same sites; runs
    of the same "group" differ in their seeds only.
    """
    algorithm, seed = settings.get("algorithm"), settings.get("seed")
    problem = run.task or _digest([settings.get(part) for part in ("bounds", "scale", "sites")])
    same = _digest({part: value for part, value in settings.items() if part != "seed"})
    known = {
        "key": f"{path.name}:{run.id}",
        "file": path.name,
        "algorithm": algorithm.get("type") or algorithm.get("name") if isinstance(algorithm, dict) else algorithm,
        "total": settings.get("rounds"),
        "seed": seed if isinstance(seed, int) else None,
        "problem": problem,
        "group": _digest([problem, same, run.name]),
    }
    return plain(asdict(run) | known)  # type: ignore[no-any-return]


def details(run: StoredRun) -> dict[str, Any]:
    """All that is shown of a run, but for the path of x."""
    result, settings = run.result, run.settings
    space, variables = space_of(settings.get("bounds")), result.variables
    known = {
        "message": result.message,
        "settings": settings,
        "extra": run.extra,
        "clients": run.clients,
        "client_queries": result.queries_per_client,
        "failed": result.failed,
        "first_failure": result.first_failure,
        "feasibility": result.feasibility,
        "bytes_up": result.bytes_up,
        "bytes_down": result.bytes_down,
        "x": result.x,
        "coordinates": list(space.coordinates) if space is not None and space.dim == len(result.x) else None,
        "variables": None if variables is None else {name: str(value) for name, value in variables.items()},
        "failures": run.failures,
        "history": columns(result.history),
    }
    return row(run.path, run.summary, settings) | plain(known)  # type: ignore[no-any-return]


def columns(history: Sequence[Record]) -> dict[str, Any]:
    """Records as columns: less to send, and what a plot needs."""
    names = sorted({name for record in history for name in record.measured})
    same = ("round", "queries", "seconds", "step", "monitor", "failed", "feasible")
    return {name: [getattr(record, name) for record in history] for name in same} | {
        "bytes": [record.bytes_up + record.bytes_down for record in history],
        "diagnostics": {name: [record.measured.get(name) for record in history] for name in names},
        # Six digits are enough for a plot, and a third of the size.
        "distances": [[None if d is None else float(f"{d:.6g}") for d in record.distances] for record in history],
    }


def path_of_x(store: Store, run: int) -> dict[str, Any]:
    """The coordinates of x over the rounds, x0 first: those that moved most, in their order.

    Distances count as shares of the width of the box, if it has one. Rounds are left out where a plot could not show
    all of them.
    """
    settings, last = store.settings(run), store.summary(run).rounds
    found = store.x_after_rounds(run, every=max(1, math.ceil(last / _ROUNDS)))
    x = np.array(list(found.values()))
    dim = x.shape[1]
    moved = np.ptp(x, axis=0) / _widths(settings, dim)
    chosen = np.sort(np.argsort(-np.nan_to_num(moved), kind="stable")[:_COORDINATES])
    space = space_of(settings.get("bounds"))
    named = space is not None and len(space.coordinates) == dim
    names = space.coordinates if space is not None and named else [f"x{i + 1}" for i in range(dim)]
    return {
        "names": [names[i] for i in chosen],
        "dim": dim,
        "round": list(found),
        "x": [[float(f"{value:.8g}") for value in x[:, i]] for i in chosen],
    }


def dumps(value: Any) -> str:
    """Return the value as JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _digest(value: Any) -> str:
    """A short text that differs where the value does."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _widths(settings: Mapping[str, Any], dim: int) -> FloatArray | float:
    try:
        widths = np.asarray(box_of(settings["bounds"], dim, settings.get("scale")).widths, dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        return 1.0
    return np.where(widths > 0.0, widths, 1.0) if widths.shape == (dim,) else 1.0
