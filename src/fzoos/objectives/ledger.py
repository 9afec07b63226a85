"""Ledgers: evaluations in their order, from which a client's state can be computed again without its objective.

`MemoryLedger` holds the values of a run of `minimize`; a site of a study has its ledger on disk
(`federation/site.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.values import all_finite, is_finite

__all__ = ["Ledger", "MemoryLedger", "Purpose", "join_stored"]

Purpose = Literal["initial", "refresh", "iterate", "active", "difference", "value", "query"]
"""What a query is for: the initial design, the server's x and points around it, a local iterate, an active query, a
finite difference, F alone, or anything else."""


class Ledger(Protocol):
    """Stores evaluations, and returns those that were made before."""

    @property
    def count(self) -> int | None:
        """Evaluations in all processes, failed ones included; None: the ledger does not count them."""
        ...

    def recall(self, count: int, round: int, step: int) -> tuple[FloatArray | None, FloatArray]:
        """The next evaluations that were made before, at most `count`: points, shape (n, d), and values.

        Points are None where they are not stored. Values have shape (n,), or (n, 1 + k) where the objective has
        constraints: f, c_1, ..., c_k.
        """
        ...

    def allow(self, count: int) -> None:
        """Raise unless the objective may be evaluated at `count` more points."""
        ...

    def record(
        self, points: FloatArray, values: FloatArray, round: int, step: int, purpose: Purpose, more: bool = False
    ) -> None:
        """Store evaluations; their values are used only after this returns.

        With `more`, further points of the same query follow, and none is used before the last of them is stored.
        """
        ...

    def fail(self, points: FloatArray, error: Exception, round: int, step: int, purpose: Purpose) -> None:
        """Store that evaluating these points ended with an error."""
        ...


class MemoryLedger(Ledger):
    """The values of a client's evaluations in their order, 8 bytes each.

    Points are not stored: on the same machine the same points follow from the values.

    Args:
        stores_failures: whether NaN and infinity are values like others. Otherwise they end the run, and are evaluated
            again when it is resumed.
    """

    def __init__(self, stores_failures: bool) -> None:
        self._stores_failures = stores_failures
        self._numbers, self._width = array("d"), 1  # of all evaluations, and how many each has: f, c_1, ..., c_k
        self._used = 0  # evaluations that were recorded or recalled

    @property
    def count(self) -> None:
        return None

    @property
    def values(self) -> FloatArray:
        """Values that were recorded or recalled, shape (n,), or (n, 1 + k) with constraints: see `join_stored`."""
        return self._rows(0, self._used)

    def replay(self, values: FloatArray) -> None:
        """Recall these values first."""
        self._numbers, self._used = array("d", values.ravel()), 0
        self._width = 1 if values.ndim == 1 else values.shape[1]

    def recall(self, count: int, round: int = 0, step: int = 0) -> tuple[None, FloatArray]:
        if self._used * self._width == len(self._numbers):
            return None, np.empty(0)
        found = self._rows(self._used, self._used + count)
        self._used += len(found)
        if found.ndim == 1:
            return None, found
        raised = np.isinf(found[:, -1])
        return None, np.full(len(found), np.nan) if raised.all() else np.where(raised[:, None], np.nan, found)

    def allow(self, count: int) -> None:
        return

    def record(
        self,
        points: FloatArray,
        values: FloatArray,
        round: int = 0,
        step: int = 0,
        purpose: Purpose = "query",
        more: bool = False,
    ) -> None:
        if not self._stores_failures and not all_finite(values):
            return
        if values.ndim == 1 and self._width == 1:
            self._numbers.frombytes(values.tobytes())
            self._used += len(values)
            return
        if values.ndim == 2:
            values = np.where(is_finite(values)[:, None], values, np.nan)
        if values.ndim == 2 and self._width == 1:  # all calls before have raised
            used = self._used
            self.replay(join_stored([self.values, np.empty((0, values.shape[1]))]))
            self._used = used
        elif values.ndim == 1:
            values = join_stored([values, np.empty((0, self._width))])
        self._numbers.extend(values.ravel())
        self._used += len(values)

    def fail(self, points: FloatArray, error: Exception, round: int, step: int, purpose: Purpose) -> None:
        return

    def _rows(self, first: int, end: int) -> FloatArray:
        rows = np.array(self._numbers[first * self._width : end * self._width])
        return rows if self._width == 1 else rows.reshape(-1, self._width)


def join_stored(parts: Sequence[FloatArray]) -> FloatArray:
    """Values of several calls as they are stored: shape (n,), or (n, 1 + k) where any has constraints.

    A call that raised has no constraints. Among others its rows are NaN followed by infinity: no call returns such
    rows, because all numbers of a point that failed are stored as NaN.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.ledger import join_stored
        >>> join_stored([np.array([np.nan]), np.array([[0.5, -1.0]])])
        array([[ nan,  inf],
               [ 0.5, -1. ]])
    """
    width = max(part.shape[1] if part.ndim == 2 else 1 for part in parts)
    if width == 1:
        return np.concatenate(parts)
    return np.concatenate(
        [p if p.ndim == 2 else np.column_stack([p, np.full((len(p), width - 1), np.inf)]) for p in parts]
    )
