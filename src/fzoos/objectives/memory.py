"""The values of a client's queries in their order: a run can be made again from them without asking."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.constraints import all_finite, is_finite

__all__ = ["ValueMemory", "join_answers"]


class ValueMemory:
    """Values, 8 bytes each. Points are not kept: on the same machine the same ones follow from the values.

    Args:
        keeps_failures: whether NaN and infinity are values like others; otherwise they end the run, and are asked for
            again should it go on.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.memory import ValueMemory
        >>> memory = ValueMemory(keeps_failures=False)
        >>> memory.note(np.array([0.5, 0.25]))
        >>> later = ValueMemory(keeps_failures=False)
        >>> later.remember(memory.values)
        >>> later.recall(1), later.left
        (array([0.5]), 1)
    """

    def __init__(self, keeps_failures: bool) -> None:
        self._keeps_failures = keeps_failures
        self._numbers, self._width = array("d"), 1  # of all queries, and how many each has: f, c_1, ..., c_k
        self._used = 0  # queries that were made or recalled

    @property
    def values(self) -> FloatArray:
        """Those that were made or recalled, shape (n,), or (n, 1 + k) with constraints: see `join_answers`."""
        return self._rows(0, self._used)

    @property
    def left(self) -> int:
        """How many are still to be recalled."""
        return len(self._numbers) // self._width - self._used

    def remember(self, values: FloatArray) -> None:
        """The values of the first queries."""
        self._numbers, self._used = array("d", values.ravel()), 0
        self._width = 1 if values.ndim == 1 else values.shape[1]

    def recall(self, count: int) -> FloatArray:
        """The next of them, at most so many, as the objective gave them."""
        found = self._rows(self._used, self._used + count)
        self._used += len(found)
        if found.ndim == 1:
            return found
        nothing = np.isinf(found[:, -1])
        return np.full(len(found), np.nan) if nothing.all() else np.where(nothing[:, None], np.nan, found)

    def note(self, values: FloatArray) -> None:
        """Values that were made, of one call."""
        if not self._keeps_failures and not all_finite(values):
            return
        if values.ndim == 1 and self._width == 1:
            self._numbers.frombytes(values.tobytes())
            self._used += len(values)
            return
        if values.ndim == 2:
            values = np.where(is_finite(values)[:, None], values, np.nan)
        if values.ndim == 2 and self._width == 1:  # all before have raised
            self.remember(join_answers([self.values, np.empty((0, values.shape[1]))]))
            self._used = self.left
        elif values.ndim < self._rows(0, 0).ndim:
            values = join_answers([values, np.empty((0, self._width))])
        self._numbers.extend(values.ravel())
        self._used += len(values)

    def _rows(self, first: int, end: int) -> FloatArray:
        rows = np.array(self._numbers[first * self._width : end * self._width])
        return rows if self._width == 1 else rows.reshape(-1, self._width)


def join_answers(parts: Sequence[FloatArray]) -> FloatArray:
    """Values of several calls, shape (n,), or (n, 1 + k) where any has constraints.

    A call that raised has none: beside others its rows are NaN and then infinity, which no row is that was returned, as
    of those that failed all numbers are NaN.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.memory import join_answers
        >>> join_answers([np.array([np.nan]), np.array([[0.5, -1.0]])])
        array([[ nan,  inf],
               [ 0.5, -1. ]])
    """
    width = max(part.shape[1] if part.ndim == 2 else 1 for part in parts)
    if width == 1:
        return np.concatenate(parts)
    wide = [part if part.ndim == 2 else np.full((len(part), width), np.inf) for part in parts]
    for part, made in zip(parts, wide, strict=True):
        if part.ndim == 1:
            made[:, 0] = part
    return np.concatenate(wide)
