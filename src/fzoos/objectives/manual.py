"""Objectives evaluated by hand: points are written to a file, values are entered later, after days if need be.

A folder holds, for each site, `SITE.asked.csv` (the points to evaluate now) and `SITE.told.csv` (every value
entered so far; rows are only added). A point is identified by its id, which depends on the point alone. Where another
point was evaluated in its place, its coordinates stand behind the value.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.renamed import old_name
from fzoos.result import NotAsked

__all__ = ["ManualObjective", "point_id"]

_POLL = 0.5  # seconds


def point_id(x: FloatArray) -> str:
    """A point's id: twelve letters and digits."""
    return hashlib.sha256(np.ascontiguousarray(x, "<f8").tobytes()).hexdigest()[:12]


class ManualObjective:
    """A vectorised objective whose values are entered by hand.

    Args:
        folder: the folder of the two files.
        site: name of the site.
        wait: whether a call waits until the values are entered; otherwise it raises `NotAsked`, and the study stops
            there until it is resumed.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from fzoos.objectives.manual import ManualObjective
        >>> site = ManualObjective(tempfile.mkdtemp(), "site-1")
        >>> x = np.array([[0.5, 0.25]])
        >>> try:
        ...     site(x)
        ... except Exception as error:
        ...     print(error)
        site-1 waits for the values of 1 point
        >>> site.tell([(site.wanted()[0][0], 3.0)])
        1
        >>> site(x)
        array([3.])
    """

    takes_coordinates = True  # of a space, too: whoever shows the points gives them their names

    def __init__(self, folder: str | Path, site: str, wait: bool = False) -> None:
        self._site, self._wait = site, wait
        self._folder = Path(folder)
        self._asked, self._answered = (self._folder / f"{site}.{what}.csv" for what in ("asked", "told"))

    def __call__(self, x: FloatArray) -> FloatArray:
        """The values of the rows of x, shape (n, d), or of one point of shape (d,)."""
        points = np.atleast_2d(x)
        ids = [point_id(point) for point in points]
        values = self.values()
        if not all(id in values for id in ids):
            self._ask(points, ids, values)
            if not self._wait:
                count = len({id for id in ids if id not in values})
                raise NotAsked(f"{self._site} waits for the values of {count} point{'s' if count > 1 else ''}")
            while not all(id in values for id in ids):
                time.sleep(_POLL)
                values = self.values()
        self._asked.unlink(missing_ok=True)
        return np.array([values[id] for id in ids])

    def _ask(self, points: FloatArray, ids: list[str], values: dict[str, float]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *(f"x{j + 1}" for j in range(points.shape[1]))])
        for id, point in dict(zip(ids, points, strict=True)).items():
            if id not in values:
                writer.writerow([id, *(repr(float(v)) for v in point)])
        temporary = self._asked.with_suffix(".tmp")
        temporary.write_text(text.getvalue(), encoding="utf-8")
        temporary.replace(self._asked)

    def wanted(self) -> list[tuple[str, list[float]]]:
        """The points to evaluate now, each with its id, without those whose values have been entered since."""
        if not self._asked.exists():
            return []
        values = self.values()
        rows = list(csv.reader(io.StringIO(self._asked.read_text(encoding="utf-8"))))[1:]
        return [(id, [float(v) for v in x]) for id, *x in rows if id not in values]

    def values(self) -> dict[str, float]:
        """Every value entered so far, by the point's id."""
        if not self._answered.exists():
            return {}
        rows = csv.reader(io.StringIO(self._answered.read_text(encoding="utf-8")))
        return {row[0]: float(row[1]) for row in rows if len(row) >= 2}

    def asked_instead(self, points: FloatArray) -> dict[int, FloatArray]:
        """Which of these rows, shape (n, d), were not evaluated themselves, and the points that were in their place."""
        if not self._answered.exists():
            return {}
        rows = csv.reader(io.StringIO(self._answered.read_text(encoding="utf-8")))
        moved = {row[0]: np.array(row[2:], dtype=np.float64) for row in rows if len(row) > 2}
        ids = [point_id(point) for point in np.atleast_2d(points)] if moved else []
        return {i: moved[id] for i, id in enumerate(ids) if id in moved}

    def told(self) -> dict[str, float]:
        """`values`, by its name of the last release."""
        old_name("ManualObjective.told()", "ManualObjective.values()")
        return self.values()

    def tell(
        self,
        values: Iterable[tuple[str, float]],
        *,
        instead: Mapping[str, Sequence[float]] | None = None,
        failures: bool = False,
    ) -> int:
        """Enter values by their points' ids, all or none; return how many were new.

        Args:
            values: ids and values.
            instead: points that were evaluated in the place of those asked for, by their ids.
            failures: whether NaN may be a value: the point could not be evaluated.

        Raises:
            ValueError: a point that is not asked for, a value that is no number, or one that differs from the value
                entered before.
        """
        known, wanted = self.values(), {id for id, _ in self.wanted()}
        new: dict[str, float] = {}
        moved = dict(instead or {})
        for id, value in values:
            before = known.get(id, new.get(id))
            if before is not None and before != value and not (math.isnan(before) and math.isnan(value)):
                raise ValueError(f"the value of {id} was given before: {before:g}, not {value:g}")
            if before is None:
                if id not in wanted:
                    raise ValueError(f"{id!r} is not among the points that {self._site} is asked for")
                if not math.isfinite(value) and not (failures and math.isnan(value)):
                    why = "" if failures or not math.isnan(value) else '; with on_failure = "skip" nan means failed'
                    raise ValueError(f"the value of {id} must be a finite number, got {value}{why}")
                new[id] = value
        if new:
            with open(self._answered, "a", encoding="utf-8") as file:
                for id, value in new.items():
                    file.write(",".join([id, repr(value), *(repr(float(v)) for v in moved.get(id, ()))]) + "\n")
                file.flush()
                os.fsync(file.fileno())
        return len(new)
