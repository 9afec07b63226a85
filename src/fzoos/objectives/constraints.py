"""Private inequality constraints c(x) <= 0 as part of what a client minimises: an augmented Lagrangian.

========  ==========  ==================================================================================================
symbol    shape       meaning
========  ==========  ==================================================================================================
f         (n,)        values of the client's own objective
c         (n, k)      values of its constraints, which are met where c <= 0
lambda    (k,)        multipliers, not negative; those of the client alone
rho       (k,)        penalties; 0: not chosen yet, and the constraint is not heard
========  ==========  ==================================================================================================

    L(x) = f(x) + sum_j psi_j(c_j(x)),   psi_j(c) = (max(0, lambda_j + rho_j c)^2 - lambda_j^2) / (2 rho_j)

f and c of every query are kept, so that past values of L are exact whatever lambda and rho have become.

    first      rho = |grad F| / (0.1 |grad c|^2):  a penalty alone would be violated by a tenth of the box
    each x_r   lambda <- max(0, lambda + rho c(x_r)), where c(x_r) is no longer on its way to zero
               rho <- 4 rho where the violation has not halved since the last time

References:
    M. J. D. Powell, "A method for nonlinear constraints in minimization problems", 1969. R. T. Rockafellar, "The
    multiplier method of Hestenes and Powell applied to convex programming", 1973. E. G. Birgin and J. M. Martinez,
    "Practical Augmented Lagrangian Methods for Constrained Optimization", 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fzoos._util.arrays import FloatArray

__all__ = ["Merit", "all_finite", "as_returned", "is_finite", "join_values", "read_values"]

_REACH = 0.1  # violation of the first penalty alone, as a distance in the unit cube
_INSIDE = 1e-7  # how far inside a constraint is aimed, in units of its spread: values only approach zero
_GROWTH, _ENOUGH = 4.0, 0.5  # of a penalty, where a violation is still more than this share of the last one
_MOST_GROWTH = 1e6
_MET = 0.1  # a surrogate's constraint is met within this share of how far inside is aimed
_TINY = 1e-300


class Merit:
    """The augmented Lagrangian of one client.

    Args:
        count: k, the number of constraints.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.constraints import Merit
        >>> merit = Merit(1)
        >>> merit.multipliers, merit.penalties = np.array([2.0]), np.array([10.0])
        >>> merit.values(np.array([[1.0, 0.1], [1.0, -5.0]]))      # 1 + ((2 + 1)^2 - 2^2) / 20, 1 - 2^2 / 20
        array([1.25, 0.8 ])
    """

    def __init__(self, count: int) -> None:
        self.multipliers, self.penalties = np.zeros(count), np.zeros(count)
        self._first = np.zeros(count)  # the first penalties
        self._margins = np.zeros(count)
        self._seen: list[tuple[FloatArray, FloatArray]] = []
        self._last: FloatArray | None = None  # c at the x of the last round
        self._away = np.full(count, math.inf)  # when the multipliers were last renewed
        self._by_surrogates = False  # whether others choose the multipliers, and `renew` does not

    @property
    def count(self) -> int:
        """k, the number of constraints."""
        return len(self.multipliers)

    @property
    def begun(self) -> bool:
        """Whether penalties have been chosen."""
        return bool(np.any(self.penalties))

    def values(self, table: FloatArray) -> FloatArray:
        """L of each row (f, c_1, ..., c_k)."""
        total: FloatArray = table[:, 0] + self.terms(table[:, 1:]).sum(axis=1)
        return total

    def terms(self, c: FloatArray) -> FloatArray:
        """psi_j(c_j)."""
        heard = self.penalties > 0.0
        psi = (self.slopes(c) ** 2 - self.multipliers**2) / (2.0 * np.where(heard, self.penalties, 1.0))
        return np.where(heard, psi, 0.0)

    def slopes(self, c: FloatArray) -> FloatArray:
        """psi_j'(c_j) = max(0, lambda_j + rho_j c_j)."""
        return np.maximum(0.0, self.multipliers + self.penalties * self.shifted(c))

    def shifted(self, c: FloatArray) -> FloatArray:
        """c as it is to be brought to zero: a little more than it is."""
        return c + self._margins

    def see(self, points: FloatArray, table: FloatArray) -> None:
        """Take note of points and their f and c, until penalties have been chosen by them."""
        if not self.begun:
            self._seen.append((points, table))

    def begin(self, slope: float = 0.0) -> bool:
        """Choose penalties by the spread of all values so far; whether there were enough.

        Args:
            slope: |grad F|, where it is known; otherwise the client's own is taken, or where that is zero, 1.
        """
        if self.begun or not self._seen:
            return False
        points, table = (np.concatenate(parts) for parts in zip(*self._seen, strict=True))
        step = math.sqrt(float(np.mean((points - points.mean(axis=0)) ** 2)))  # of a coordinate
        if step == 0.0:
            return False
        spread = np.std(table, axis=0)
        spreads = np.where(spread[1:] > 0.0, spread[1:], np.abs(table[-1, 1:]) + _TINY)
        slope = max(float(spread[0]) / step, slope) or 1.0
        self.penalties = self._first = slope / (_REACH * (spreads / step) ** 2)
        self._margins, self._seen = _INSIDE * spreads, []
        return True

    def begin_along(self, slope: float) -> None:
        """The same, and from now on multipliers are chosen by surrogates."""
        self._by_surrogates = True
        self.begin(slope)

    def renew(self, c: FloatArray) -> bool:
        """Multipliers after a round, given c at its x; whether anything has changed.

        While c is on its way to zero, multipliers wait: they are for what a penalty alone leaves.
        """
        last, self._last = self._last, c.copy()
        if self._by_surrogates or last is None:
            return False
        if not self.begun:
            return self.begin()
        away, before = (np.maximum(self.shifted(v), -self.multipliers / self.penalties) for v in (c, last))
        waits = np.abs(away) <= _ENOUGH * np.abs(before)
        slow = ~waits & (away > _ENOUGH * self._away)
        self.multipliers = np.where(waits, self.multipliers, self._raised(c))
        self._away = np.where(waits, self._away, np.abs(away))
        self.stiffen(slow)
        return True

    def meet(self, c: FloatArray) -> FloatArray:
        """lambda <- max(0, lambda + rho c), for c at a minimum of L; how far each c was from where it is to be."""
        away = np.maximum(self.shifted(c), -self.multipliers / self.penalties)
        self.multipliers = self._raised(c)
        return np.abs(away)

    def _raised(self, c: FloatArray) -> FloatArray:
        return np.maximum(0.0, self.multipliers + self.penalties * self.shifted(c))

    def is_met(self, away: FloatArray) -> bool:
        """Whether nothing is gained by meeting them again."""
        return bool(np.all(away <= _MET * self._margins))

    def stiffen(self, which: NDArray[np.bool_], most: float = _MOST_GROWTH) -> None:
        """Raise these penalties, to so many times the first at most."""
        self.penalties = np.where(which, np.minimum(_GROWTH * self.penalties, most * self._first), self.penalties)

    def relax(self) -> None:
        """Lower penalties that were raised."""
        self.penalties = np.maximum(self._first, self.penalties / _GROWTH)


def is_finite(values: FloatArray) -> NDArray[np.bool_]:
    """Which points have a value: finite, and so are all of their constraints."""
    return np.isfinite(values) if values.ndim == 1 else np.all(np.isfinite(values), axis=1)


def all_finite(values: FloatArray) -> bool:
    """Whether all points have a value."""
    if values.size == 1:
        return math.isfinite(values.item())
    return bool(np.logical_and.reduce(np.isfinite(values), axis=None))


def join_values(parts: Sequence[FloatArray]) -> FloatArray:
    """Values of several batches, of which some may have failed before it was known that there are constraints."""
    widths = {part.shape[1] for part in parts if part.ndim == 2}
    if not widths:
        return np.concatenate(parts)
    if len(widths) > 1 or any(part.ndim == 1 and np.any(np.isfinite(part)) for part in parts):
        raise ValueError("an objective must return as many constraints at every point")
    width = widths.pop()
    wide = [part if part.ndim == 2 else np.full((len(part), width), np.nan) for part in parts]
    return np.concatenate(wide)


def read_values(value: Any, shape: tuple[int, ...], vectorized: bool, who: str) -> FloatArray:
    """What an objective returned: f of shape (n,), or, if it is a pair (f, c), f and c of shape (n, 1 + k).

    Args:
        value: what it returned.
        shape: of the points, (n, d).
        vectorized: whether they were asked as a batch; otherwise n is 1.
        who: what an error calls the objective.

    Example:
        >>> from fzoos.objectives.constraints import read_values
        >>> read_values((2.5, [0.0, -1.0]), (1, 3), False, "objective")
        array([[ 2.5,  0. , -1. ]])
    """
    if not isinstance(value, tuple) or len(value) != 2 or (vectorized and shape[0] == 2 and np.ndim(value[0]) == 0):
        return _numbers(value, shape, vectorized, who)
    f = _numbers(value[0], shape, vectorized, who)
    c = _array(value[1], who)
    c = c.reshape(len(f), -1) if not vectorized or c.ndim == 1 else c
    if c.ndim != 2 or len(c) != len(f) or not c.shape[1]:
        wanted = f"of shape ({shape[0]}, k) for x of shape {shape}" if vectorized else "one or more numbers"
        raise ValueError(f"the {who} must return constraints {wanted}, got shape {np.shape(value[1])}")
    return np.column_stack([f, c])


def as_returned(values: FloatArray, single: bool = False) -> Any:
    """What an objective returns that has these values: the way back from `read_values`.

    Args:
        values: f of shape (n,), or f and c of shape (n, 1 + k).
        single: whether one point was asked, and not a batch.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.constraints import as_returned
        >>> as_returned(np.array([[2.5, 0.0, -1.0]]), single=True)
        (2.5, array([ 0., -1.]))
    """
    if values.ndim == 1:
        return float(values[0]) if single else values
    f, c = values[:, 0], values[:, 1:]
    return (float(f[0]), c[0]) if single else (f, c)


def _numbers(value: Any, shape: tuple[int, ...], vectorized: bool, who: str) -> FloatArray:
    y = _array(value, who)
    if vectorized and y.shape != shape[:1]:
        raise ValueError(
            f"the vectorized {who} must return shape ({shape[0]},) for x of shape {shape}, got shape {y.shape}"
        )
    if not vectorized and y.size != 1:
        raise ValueError(
            f"the {who} must return one number for x of shape {shape[1:]}, got shape {y.shape}; is it vectorized?"
        )
    return y.reshape(-1)


def _array(value: Any, who: str) -> FloatArray:
    try:
        if value is None:
            raise TypeError
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"the {who} must return numbers, got {value!r}") from None
