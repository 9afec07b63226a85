"""The values of a client's queries in their order: a run can be made again from them without asking."""

from __future__ import annotations

from array import array

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["ValueMemory"]


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
        self._values, self._used = array("d"), 0  # all of them, and how many were made or recalled

    @property
    def values(self) -> FloatArray:
        """Those that were made or recalled, shape (n,)."""
        return np.array(self._values[: self._used])

    @property
    def left(self) -> int:
        """How many are still to be recalled."""
        return len(self._values) - self._used

    def remember(self, values: FloatArray) -> None:
        """The values of the first queries."""
        self._values, self._used = array("d", values), 0

    def recall(self, count: int) -> FloatArray:
        """The next of them, at most so many."""
        found = np.array(self._values[self._used : self._used + count])
        self._used += len(found)
        return found

    def note(self, values: FloatArray) -> None:
        """Values that were made; of constraints nothing is kept: such a run is not made again."""
        values = values if values.ndim == 1 else values[:, 0]
        if self._keeps_failures or np.isfinite(values).all():
            self._values.extend(values)
            self._used += len(values)
