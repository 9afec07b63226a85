"""What stands beside the rounds of a run: its start, F there, the smallest F, F at the recommended x, and the task.

They are in a table of their own, which files of the last release do not have: nothing is known of those runs.
"""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from fzoos._util.arrays import FloatArray
from fzoos.runs.rows import array_of, bytes_of

__all__ = ["TABLE", "UNKNOWN", "Landmarks", "all_landmarks", "landmarks_of", "note", "of_monitor"]

TABLE = """
CREATE TABLE IF NOT EXISTS landmarks (
  run INTEGER PRIMARY KEY, x0 BLOB NOT NULL, start REAL, minimum REAL, recommended REAL, task TEXT NOT NULL) STRICT
"""


@dataclass(frozen=True)
class Landmarks:
    """Values that no round has.

    Attributes:
        x0: the start, in the user's coordinates; None where it is not known.
        start: F(x0), if there was a monitor.
        minimum: F*, the smallest value of F, if the task knows it.
        recommended: F at the recommended x, if there was a monitor and that is not the last x.
        task: what was minimised, the same text for all seeds; empty where it is not known.
    """

    x0: FloatArray | None = None
    start: float | None = None
    minimum: float | None = None
    recommended: float | None = None
    task: str = ""


UNKNOWN = Landmarks()


def note(db: sqlite3.Connection, run: int, **values: Any) -> None:
    """Note some of them, by the names of `Landmarks`; numbers that are not finite are not known.

    Example:
        >>> import sqlite3
        >>> import numpy as np
        >>> from fzoos.runs.landmarks import TABLE, landmarks_of, note
        >>> db = sqlite3.connect(":memory:")
        >>> _ = db.execute(TABLE)
        >>> note(db, 1, x0=np.ones(2))
        >>> note(db, 1, start=2.0, minimum=float("nan"))
        >>> landmarks_of(db, 1)
        Landmarks(x0=array([1., 1.]), start=2.0, minimum=None, recommended=None, task='')
    """
    db.execute("INSERT OR IGNORE INTO landmarks VALUES (?, x'', NULL, NULL, NULL, '')", (run,))
    for name, value in values.items():
        assert name in Landmarks.__dataclass_fields__
        stored = bytes_of(value) if name == "x0" else value
        if isinstance(stored, float) and not math.isfinite(stored):
            stored = None
        db.execute(f"UPDATE landmarks SET {name} = ? WHERE run = ?", (stored, run))


def landmarks_of(db: sqlite3.Connection, run: int) -> Landmarks:
    """Those of a run."""
    if not _known(db):
        return UNKNOWN
    row = db.execute("SELECT x0, start, minimum, recommended, task FROM landmarks WHERE run = ?", (run,)).fetchone()
    return UNKNOWN if row is None else Landmarks(array_of(row[0]) if row[0] else None, *row[1:])


def all_landmarks(db: sqlite3.Connection) -> dict[int, Landmarks]:
    """Those of all runs, by id, without x0."""
    if not _known(db):
        return {}
    rows = db.execute("SELECT run, start, minimum, recommended, task FROM landmarks")
    return {row[0]: Landmarks(None, *row[1:]) for row in rows}


def of_monitor(monitor: Any) -> dict[str, Any]:
    """F* and the task, where the monitor is the `value` of one of `fzoos.tasks`, or of a task like them.

    Example:
        >>> from fzoos.runs.landmarks import of_monitor
        >>> from fzoos.tasks import Quadratic
        >>> of_monitor(Quadratic(dim=4, clients=2, seed=7).value)
        {'task': 'quadratic C=5 d=4 N=2', 'minimum': 0.0}
        >>> of_monitor(lambda x: 0.0)
        {}
    """
    task = getattr(monitor, "__self__", None)
    kinds = {"name": str, "heterogeneity": Real, "dim": Integral, "clients": Integral}
    if not all(isinstance(getattr(task, name, None), kind) for name, kind in kinds.items()):
        return {}
    assert task is not None
    text = f"{task.name} C={task.heterogeneity:g} d={task.dim} N={task.clients}"
    share, minimum = getattr(task, "share", None), getattr(task, "minimum", None)
    text += f" noise={share:g}" if isinstance(share, Real) else ""
    return {"task": text} | ({"minimum": float(minimum)} if isinstance(minimum, Real) else {})


def _known(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'landmarks'").fetchone() is not None
