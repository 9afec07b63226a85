"""Objectives evaluated by hand: points are requested, and their values are entered later, after days if need be.

All sites of a folder share one SQLite file, `values.db`:

=========  =============================================================================================================
table      row
=========  =============================================================================================================
requested  site, id, x: a point to evaluate now (float64 bytes)
entered    site, id, value: f, c_1, ..., c_k (float64 bytes); constraints: k, or NULL where a point failed and k is not
           known; evaluated: the point that was evaluated in place of the requested one, or NULL
=========  =============================================================================================================

An id depends on the point alone. Values are entered in one transaction: all of them or none, on a full disk as well. Of
two processes that enter values at the same time one waits. Only the file's owner can read it (0600).
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.files import make_private
from fzoos.objectives.values import as_returned
from fzoos.result import ValuePending

__all__ = ["Entry", "ManualObjective", "ValueTable", "point_id"]

_POLL = 0.5  # seconds
_TIMEOUT = 30.0  # seconds that another process may have the file
_VERSION = 1
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS requested (site TEXT, id TEXT, x BLOB NOT NULL, UNIQUE (site, id)) STRICT;
CREATE TABLE IF NOT EXISTS entered (
  site TEXT, id TEXT, value BLOB NOT NULL, constraints INTEGER, evaluated BLOB, PRIMARY KEY (site, id)) STRICT;
PRAGMA user_version = {_VERSION};
COMMIT;
"""


class Entry(NamedTuple):
    """The value of a requested point: a number, or a pair (f, c), and the point evaluated in its place, if another."""

    id: str
    value: float | tuple[float, Any]
    evaluated: Sequence[float] | None = None


class ValueTable:
    """The requested points and entered values of a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "values.db"

    @contextmanager
    def _transaction(self, kind: str = "DEFERRED") -> Iterator[sqlite3.Connection]:
        """A transaction: an exception undoes its changes."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            make_private(self.path)
            with closing(sqlite3.connect(self.path, timeout=_TIMEOUT, isolation_level=None)) as db:
                version = db.execute("PRAGMA user_version").fetchone()[0]
                if not version:
                    db.executescript(_TABLES)
                elif version != _VERSION:
                    raise ValueError(f"{self.path} was written by another version of the program")
                db.execute(f"BEGIN {kind}")
                yield db
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            raise OSError(f"{self.path} cannot be used, and nothing was changed: {error}") from None

    def request(self, site: str, points: Mapping[str, FloatArray]) -> None:
        """Request the values of these points, by id, in place of those that the site requested before."""
        with self._transaction("IMMEDIATE") as db:
            db.execute("DELETE FROM requested WHERE site = ?", (site,))
            rows = [(site, id, _to_bytes(point)) for id, point in points.items()]
            db.executemany("INSERT INTO requested VALUES (?, ?, ?)", rows)

    def requested(self, site: str) -> list[tuple[str, list[float]]]:
        """Id and coordinates of every requested point that has no value yet."""
        text = (
            "SELECT id, x FROM requested LEFT JOIN entered USING (site, id) WHERE site = ? AND value IS NULL "
            "ORDER BY requested.rowid"
        )
        with self._transaction() as db:
            return [(id, list(_numbers_in(x))) for id, x in db.execute(text, (site,))]

    def find(self, site: str, ids: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """f, c_1, ..., c_k of those of these points that have a value."""
        with self._transaction() as db:
            return {id: row[0] for id in ids if (row := _entered(db, site, id)) is not None}

    def evaluated(self, site: str, ids: Sequence[str]) -> dict[int, FloatArray]:
        """The points that were evaluated in place of some of these, by their positions."""
        with self._transaction() as db:
            rows = enumerate(_entered(db, site, id) for id in ids)
            return {i: np.array(row[1]) for i, row in rows if row is not None and row[1] is not None}

    def values(self, site: str) -> dict[str, float]:
        """Every value of a site, by the point's id, without constraints."""
        with self._transaction() as db:
            rows = db.execute("SELECT id, value FROM entered WHERE site = ? ORDER BY rowid", (site,))
            return {id: _numbers_in(value)[0] for id, value in rows}

    def constraints(self, site: str) -> int:
        """How many constraints a site's values have; 0: none, or no value has been entered yet."""
        with self._transaction() as db:
            return _constraint_count(db, site) or 0

    def enter(self, entries: Mapping[str, Iterable[Entry]], *, failures: bool = False) -> int:
        """Enter values, by site: all of them or none.

        Args:
            entries: the values of each site.
            failures: whether NaN may be a value, or among constraints: the point could not be evaluated.

        Returns:
            How many were new: a value may be entered again.

        Raises:
            ValueError: a point was not requested, a value is not a number, differs from the one entered before, or has
                more or fewer constraints than others of the site.
            OSError: the file cannot be written, or another process has it.
        """
        with self._transaction("IMMEDIATE") as db:
            return sum(_enter(db, site, entry, failures) for site, found in entries.items() for entry in found)


def _enter(db: sqlite3.Connection, site: str, entry: Entry, failures: bool) -> bool:
    """Enter one value; whether it is new."""
    id, numbers = entry.id, _numbers_of(entry)
    before = _entered(db, site, id)
    if before is not None:
        if not np.array_equal(before[0], numbers, equal_nan=True):
            raise ValueError(f"the value of {id} was entered before: {_words(before[0])}, not {_words(numbers)}")
        return False
    if db.execute("SELECT 1 FROM requested WHERE site = ? AND id = ?", (site, id)).fetchone() is None:
        raise ValueError(f"{id!r} is not among the points requested from {site}")
    _check_finite(id, numbers, failures)
    count = len(numbers) - 1 if len(numbers) > 1 or math.isfinite(numbers[0]) else None
    others = _constraint_count(db, site)
    if None not in (count, others) and count != others:
        raise ValueError(
            f"{id} has {_constraints(count)}, and other points of {site} have {_constraints(others)}: "
            "all must have as many"
        )
    evaluated = None if entry.evaluated is None else _to_bytes(np.array(entry.evaluated, dtype=np.float64))
    row = (site, id, _to_bytes(np.array(numbers)), count, evaluated)
    db.execute("INSERT INTO entered VALUES (?, ?, ?, ?, ?)", row)
    return True


def _entered(db: sqlite3.Connection, site: str, id: str) -> tuple[tuple[float, ...], tuple[float, ...] | None] | None:
    """f, c_1, ..., c_k of a point, and the point that was evaluated in its place, if it was another."""
    row = db.execute("SELECT value, evaluated FROM entered WHERE site = ? AND id = ?", (site, id)).fetchone()
    return None if row is None else (_numbers_in(row[0]), None if row[1] is None else _numbers_in(row[1]))


def _constraint_count(db: sqlite3.Connection, site: str) -> int | None:
    text = "SELECT constraints FROM entered WHERE site = ? AND constraints IS NOT NULL LIMIT 1"
    row = db.execute(text, (site,)).fetchone()
    return None if row is None else int(row[0])


def _to_bytes(numbers: FloatArray) -> bytes:
    return np.ascontiguousarray(numbers, "<f8").tobytes()


def _numbers_in(data: bytes) -> tuple[float, ...]:
    return tuple(np.frombuffer(data, "<f8").tolist())


def point_id(x: FloatArray) -> str:
    """A point's id: twelve letters and digits."""
    return hashlib.sha256(_to_bytes(x)).hexdigest()[:12]


class ManualObjective:
    """A vectorised objective whose values are entered by hand, with constraints or without.

    Args:
        folder: the folder of the points and values; sites may share one.
        site: name of the site.
        wait: whether a call waits until the values are entered; otherwise it raises `ValuePending`, and the study stops
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
        >>> site.tell([(site.requested()[0][0], 3.0)])
        1
        >>> site(x)
        array([3.])

        A value with constraints is a pair:

        >>> other = ManualObjective(tempfile.mkdtemp(), "site-2")
        >>> try:
        ...     other(x)
        ... except Exception:
        ...     other.tell([(other.requested()[0][0], (3.0, [-0.5, 0.25]))])
        1
        >>> other(x)
        (array([3.]), array([[-0.5 ,  0.25]]))
    """

    takes_coordinates = True  # of a space, too: whoever shows the points gives them their names

    def __init__(self, folder: str | Path, site: str, wait: bool = False) -> None:
        self._table, self._site, self._wait = ValueTable(folder), site, wait

    def __call__(self, x: FloatArray) -> Any:
        """The values of the rows of x, shape (n, d), or of one point of shape (d,); with constraints a pair (f, c)."""
        points = {point_id(point): point for point in np.atleast_2d(x)}
        found = self._table.find(self._site, points)
        missing = {id: point for id, point in points.items() if id not in found}
        if missing or self.requested():
            self._table.request(self._site, missing)
        if missing and not self._wait:
            raise ValuePending(f"{self._site} waits for the values of {len(missing)} point{'s'[: len(missing) > 1]}")
        while len(found) < len(points):
            time.sleep(_POLL)
            found = self._table.find(self._site, points)
        width = max(map(len, found.values()))
        rows = (found[point_id(point)] for point in np.atleast_2d(x))
        table = np.array([row + (math.nan,) * (width - len(row)) for row in rows])
        return as_returned(table if width > 1 else table[:, 0])

    def requested(self) -> list[tuple[str, list[float]]]:
        """The points to evaluate now, each with its id, without those whose values have been entered since."""
        return self._table.requested(self._site)

    def values(self) -> dict[str, float]:
        """Every value entered so far, by the point's id, without constraints."""
        return self._table.values(self._site)

    @property
    def constraints(self) -> int:
        """How many constraints values have; 0: none, or nothing has been entered yet."""
        return self._table.constraints(self._site)

    def evaluated_instead(self, points: FloatArray) -> dict[int, FloatArray]:
        """Which of these rows, shape (n, d), were not evaluated themselves, and the points that were in their place."""
        return self._table.evaluated(self._site, [point_id(point) for point in np.atleast_2d(points)])

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
            instead: points that were evaluated in the place of those requested, by their ids.
            failures: whether NaN may be a value, or among constraints: the point could not be evaluated.

        Raises:
            ValueError, OSError: as `ValueTable.enter`.
        """
        entries = [Entry(id, value, (instead or {}).get(id)) for id, value in values]
        return self._table.enter({self._site: entries}, failures=failures)


def _numbers_of(entry: Entry) -> tuple[float, ...]:
    """f, or f, c_1, ..., c_k."""
    id, value = entry.id, entry.value
    try:
        f, c = value if isinstance(value, tuple) else (value, ())
        numbers = (float(f), *(float(v) for v in np.atleast_1d(np.asarray(c, dtype=np.float64))))
    except (TypeError, ValueError):
        raise ValueError(f"the value of {id} must be a number, or a pair (f, c) of numbers, got {value!r}") from None
    if isinstance(value, tuple) and len(numbers) == 1:
        raise ValueError(f"the value of {id} is a pair (f, c) without constraints")
    return numbers


def _check_finite(id: str, numbers: tuple[float, ...], failures: bool) -> None:
    for name, value in zip(("value", *["constraint"] * (len(numbers) - 1)), numbers, strict=True):
        if not math.isfinite(value) and not (failures and math.isnan(value)):
            why = "" if failures or not math.isnan(value) else '; with on_failure = "skip" nan means failed'
            raise ValueError(f"the {name} of {id} must be a finite number, got {value}{why}")


def _words(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def _constraints(count: int | None) -> str:
    return f"{count} constraint{'s'[: (count or 0) > 1]}" if count else "no constraints"
