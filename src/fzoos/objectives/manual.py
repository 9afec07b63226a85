"""Objectives evaluated by hand: points are written to a file, values are entered later, after days if need be.

A folder holds, for each site, `SITE.asked.csv` (the points to evaluate now) and `SITE.told.csv` (every value
entered so far; rows are only added). A point is identified by its id, which depends on the point alone. Where another
point was evaluated in its place, its coordinates stand behind the value. Constraints stand in one cell with the value,
after it, with spaces between them.
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
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.constraints import as_returned
from fzoos.result import NotAsked

__all__ = ["ManualObjective", "point_id"]

_POLL = 0.5  # seconds

Numbers = tuple[float, ...]
"""f, or f, c_1, ..., c_k."""


def point_id(x: FloatArray) -> str:
    """A point's id: twelve letters and digits."""
    return hashlib.sha256(np.ascontiguousarray(x, "<f8").tobytes()).hexdigest()[:12]


class ManualObjective:
    """A vectorised objective whose values are entered by hand, with constraints or without.

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

        A value with constraints is a pair:

        >>> other = ManualObjective(tempfile.mkdtemp(), "site-2")
        >>> try:
        ...     other(x)
        ... except Exception:
        ...     other.tell([(other.wanted()[0][0], (3.0, [-0.5, 0.25]))])
        1
        >>> other(x)
        (array([3.]), array([[-0.5 ,  0.25]]))
    """

    takes_coordinates = True  # of a space, too: whoever shows the points gives them their names

    def __init__(self, folder: str | Path, site: str, wait: bool = False) -> None:
        self._site, self._wait = site, wait
        self._folder = Path(folder)
        self._asked, self._answered = (self._folder / f"{site}.{what}.csv" for what in ("asked", "told"))

    def __call__(self, x: FloatArray) -> Any:
        """The values of the rows of x, shape (n, d), or of one point of shape (d,); with constraints a pair (f, c)."""
        points = np.atleast_2d(x)
        ids = [point_id(point) for point in points]
        values = self._entered()
        if not all(id in values for id in ids):
            self._ask(points, ids, values)
            if not self._wait:
                count = len({id for id in ids if id not in values})
                raise NotAsked(f"{self._site} waits for the values of {count} point{'s' if count > 1 else ''}")
            while not all(id in values for id in ids):
                time.sleep(_POLL)
                values = self._entered()
        self._asked.unlink(missing_ok=True)
        width = max(len(values[id]) for id in ids)
        table = np.array([values[id] + (math.nan,) * (width - len(values[id])) for id in ids])
        return as_returned(table if width > 1 else table[:, 0])

    def _ask(self, points: FloatArray, ids: list[str], values: Mapping[str, Numbers]) -> None:
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
        """Every value entered so far, by the point's id, without constraints."""
        return {id: numbers[0] for id, numbers in self._entered().items()}

    @property
    def constraints(self) -> int:
        """How many constraints values have; 0: none, or nothing has been entered yet."""
        return max((len(numbers) - 1 for numbers in self._entered().values()), default=0)

    def _entered(self) -> dict[str, Numbers]:
        """f, c_1, ..., c_k of every point that has them."""
        if not self._answered.exists():
            return {}
        rows = csv.reader(io.StringIO(self._answered.read_text(encoding="utf-8")))
        return {row[0]: tuple(map(float, row[1].split())) for row in rows if len(row) >= 2}

    def asked_instead(self, points: FloatArray) -> dict[int, FloatArray]:
        """Which of these rows, shape (n, d), were not evaluated themselves, and the points that were in their place."""
        if not self._answered.exists():
            return {}
        rows = csv.reader(io.StringIO(self._answered.read_text(encoding="utf-8")))
        moved = {row[0]: np.array(row[2:], dtype=np.float64) for row in rows if len(row) > 2}
        ids = [point_id(point) for point in np.atleast_2d(points)] if moved else []
        return {i: moved[id] for i, id in enumerate(ids) if id in moved}

    def tell(
        self,
        values: Iterable[tuple[str, float | tuple[float, Any]]],
        *,
        instead: Mapping[str, Sequence[float]] | None = None,
        failures: bool = False,
    ) -> int:
        """Enter values by their points' ids, all or none; return how many were new.

        Args:
            values: ids and values; a value is a number, or a pair (f, c) of a number and constraints.
            instead: points that were evaluated in the place of those asked for, by their ids.
            failures: whether NaN may be a value, or among constraints: the point could not be evaluated.

        Raises:
            ValueError: a point that is not asked for, a value that is no number, one that differs from the value
                entered before, or one with more or fewer constraints than others of the site.
        """
        known, wanted = self._entered(), {id for id, _ in self.wanted()}
        new: dict[str, Numbers] = {}
        moved = dict(instead or {})
        for id, value in values:
            numbers = _numbers(id, value)
            before = known.get(id, new.get(id))
            if before is not None and not np.array_equal(before, numbers, equal_nan=True):
                raise ValueError(f"the value of {id} was given before: {_words(before)}, not {_words(numbers)}")
            if before is None:
                if id not in wanted:
                    raise ValueError(f"{id!r} is not among the points that {self._site} is asked for")
                _check_finite(id, numbers, failures)
                new[id] = numbers
        self._check_alike({**known, **new}, new)
        if new:
            with open(self._answered, "a", encoding="utf-8") as file:
                for id, numbers in new.items():
                    cells = [id, " ".join(map(repr, numbers)), *(repr(float(v)) for v in moved.get(id, ()))]
                    file.write(",".join(cells) + "\n")
                file.flush()
                os.fsync(file.fileno())
        return len(new)

    def _check_alike(self, values: Mapping[str, Numbers], new: Mapping[str, Numbers]) -> None:
        """Raise unless all values have as many constraints; one that failed may have none."""
        counts = {
            id: len(numbers) - 1 for id, numbers in values.items() if len(numbers) > 1 or math.isfinite(numbers[0])
        }
        if len(set(counts.values())) < 2:
            return
        first = next(iter(counts.values()))
        id = next(id for id in new if counts.get(id, first) != first)
        raise ValueError(
            f"{id} has {_constraints(counts[id])}, and other points of {self._site} have {_constraints(first)}: "
            "all must have as many"
        )


def _numbers(id: str, value: float | tuple[float, Any]) -> Numbers:
    """f, or f, c_1, ..., c_k."""
    try:
        f, c = value if isinstance(value, tuple) else (value, ())
        numbers = (float(f), *(float(v) for v in np.atleast_1d(np.asarray(c, dtype=np.float64))))
    except (TypeError, ValueError):
        raise ValueError(f"the value of {id} must be a number, or a pair (f, c) of numbers, got {value!r}") from None
    if isinstance(value, tuple) and len(numbers) == 1:
        raise ValueError(f"the value of {id} is a pair (f, c) without constraints")
    return numbers


def _check_finite(id: str, numbers: Numbers, failures: bool) -> None:
    for name, value in zip(("value", *["constraint"] * (len(numbers) - 1)), numbers, strict=True):
        if not math.isfinite(value) and not (failures and math.isnan(value)):
            why = "" if failures or not math.isnan(value) else '; with on_failure = "skip" nan means failed'
            raise ValueError(f"the {name} of {id} must be a finite number, got {value}{why}")


def _words(numbers: Numbers) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def _constraints(count: int) -> str:
    return f"{count} constraint{'s'[: count > 1]}" if count else "no constraints"
