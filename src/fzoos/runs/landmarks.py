"""What stands beside the rounds of a run: its start, F there, the smallest F, and the task."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from fzoos._util.arrays import FloatArray

__all__ = ["UNKNOWN", "Landmarks", "all_landmarks", "note", "of_monitor"]


@dataclass(frozen=True)
class Landmarks:
    """Values that no round has.

    Attributes:
        x0: the start, in the user's coordinates; None where it is not known.
        start: F(x0), if there was a monitor.
        minimum: F*, the smallest value of F, if the task knows it.
        task: what was minimised, the same text for all seeds; empty where it is not known.
    """

    x0: FloatArray | None = None
    start: float | None = None
    minimum: float | None = None
    task: str = ""


UNKNOWN = Landmarks()


def note(db: sqlite3.Connection, run: int, **values: Any) -> None:
    """Note some of them, by the names of `Landmarks`; numbers that are not finite are not known.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos.runs.store import Store
        >>> with Store(Path(tempfile.mkdtemp()) / "runs.db") as store:
        ...     run = store.begin("demo", {}, np.ones(2), clients=3)
        ...     store.mark(run, start=2.0, minimum=float("nan"))
        ...     store.landmarks(run)
        Landmarks(x0=array([1., 1.]), start=2.0, minimum=None, task='')
    """
    for name, value in values.items():
        assert name in Landmarks.__dataclass_fields__
        known = not isinstance(value, float) or math.isfinite(value)
        db.execute(f"UPDATE runs SET {name} = ? WHERE id = ?", (value if known else None, run))


def all_landmarks(db: sqlite3.Connection) -> dict[int, Landmarks]:
    """Those of all runs, by id, without x0."""
    rows = db.execute("SELECT id, start, minimum, task FROM runs")
    return {row[0]: Landmarks(None, *row[1:]) for row in rows}


def of_monitor(monitor: Any) -> dict[str, Any]:
    """F* and the task, where the monitor is the `value` of one of `fzoos_experiments.tasks`, or of a task like them.

    A task is described by its `summary`; one that has none, by its name, heterogeneity, dimension and clients.

    Example:
        >>> from fzoos.runs.landmarks import of_monitor
        >>> from fzoos_experiments.tasks import Quadratic
        >>> of_monitor(Quadratic(dim=4, clients=2, seed=7).value)
        {'task': 'quadratic C=5 d=4 N=2', 'minimum': 0.0}
        >>> of_monitor(lambda x: 0.0)
        {}
    """
    task = getattr(monitor, "__self__", None)
    text, minimum = getattr(task, "summary", None), getattr(task, "minimum", None)
    if not isinstance(text, str):
        kinds = {"name": str, "heterogeneity": Real, "dim": Integral, "clients": Integral}
        if task is None or not all(isinstance(getattr(task, name, None), kind) for name, kind in kinds.items()):
            return {}
        text = f"{task.name} C={task.heterogeneity:g} d={task.dim} N={task.clients}"
        share = getattr(task, "share", None)
        text += f" noise={share:g}" if isinstance(share, Real) else ""
    return {"task": text} | ({"minimum": float(minimum)} if isinstance(minimum, Real) else {})
