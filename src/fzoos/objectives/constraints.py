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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray

__all__ = ["Merit", "is_finite", "join_values", "read_values"]

_REACH = 0.1  # violation of the first penalty alone, as a distance in the unit cube
_INSIDE = 1e-7  # how far inside a constraint is aimed, in units of its spread: values only approach zero
_GROWTH, _ENOUGH = 4.0, 0.5  # of a penalty, where a violation is still more than this share of the last one
_MOST_GROWTH = 1e6
_TINY = 1e-300


class Merit:
    """The augmented Lagrangian of one client.

    Args:
        count: k, the number of constraints.
    """

    def __init__(self, count: int) -> None:
        self.multipliers, self.penalties, self._margins = np.zeros(count), np.zeros(count), np.zeros(count)
        self._first = np.zeros(count)
        self._seen: list[tuple[FloatArray, FloatArray]] = []
        self._last: FloatArray | None = None  # c at the x of the last round
        self._violations = np.full(count, math.inf)  # when the multipliers were last renewed
        self._here = np.zeros(count)
        self.boost = np.ones(count)
        self.by_gradients = False  # whether `estimate` chooses the multipliers, in place of `renew`

    @property
    def count(self) -> int:
        return len(self.multipliers)

    @property
    def begun(self) -> bool:
        return bool(np.any(self.penalties))

    def see(self, points: FloatArray, table: FloatArray) -> None:
        if not self.begun:
            self._seen.append((points, table))

    def begin(self, slope: float | None = None) -> bool:
        """Choose penalties from all values so far; slope: |grad F| where it is known."""
        if self.begun or not self._seen:
            return False
        points, table = (np.concatenate(parts) for parts in zip(*self._seen, strict=True))
        step = math.sqrt(float(np.mean((points - points.mean(axis=0)) ** 2)))
        spread = np.std(table, axis=0)
        if step == 0.0:
            return False
        own = spread[0] / step
        slope = max(own, slope or 0.0) or 1.0
        spreads = np.where(spread[1:] > 0.0, spread[1:], np.abs(table[-1, 1:]) + _TINY)
        steep = spreads / step
        self.penalties = slope / (_REACH * steep**2)
        self._first = self.penalties.copy()
        self._margins = _INSIDE * spreads
        self._spreads = spreads
        self._seen = []
        return True

    def values(self, table: FloatArray) -> FloatArray:
        """L of each row (f, c_1, ..., c_k)."""
        return table[:, 0] + self.terms(table[:, 1:]).sum(axis=1)

    def terms(self, c: FloatArray) -> FloatArray:
        """psi_j(c_j)."""
        rho = np.where(self.penalties > 0.0, self.penalties, 1.0)
        psi = (self.slopes(c) ** 2 - self.multipliers**2) / (2.0 * rho)
        return np.where(self.penalties > 0.0, psi, 0.0)

    def slopes(self, c: FloatArray) -> FloatArray:
        """psi_j'(c_j) = max(0, lambda_j + rho_j c_j)."""
        return np.maximum(0.0, self.multipliers + self.penalties * (c + self._margins))

    def renew(self, c: FloatArray) -> bool:
        """After a round, given c at its x."""
        changed = not self.by_gradients and self._last is not None and self.begin()
        last, self._last = self._last, c.copy()
        if self.by_gradients:
            return False
        if not self.begun or last is None or changed:
            return changed
        c = c + self._margins
        active = np.maximum(c, -self.multipliers / self.penalties)  # what the multiplier will change by, over rho
        before = np.maximum(last + self._margins, -self.multipliers / self.penalties)
        still = np.abs(active) > 0.5 * np.abs(before)
        violation = np.abs(active)
        grow = still & (c > 0) & (violation > _ENOUGH * self._violations)
        self.multipliers = np.where(still, np.maximum(0.0, self.multipliers + self.penalties * c), self.multipliers)
        self._violations = np.where(still, violation, self._violations)
        self.penalties = np.where(
            grow, np.minimum(_GROWTH * self.penalties, _MOST_GROWTH * self._first), self.penalties
        )
        return True

    def relax(self) -> None:
        self._away = np.full(self.count, math.inf)
        self.penalties = np.maximum(self._first, self.penalties / _GROWTH)

    def meet(self, c: FloatArray, grow: bool) -> bool:
        """Raise or lower the multipliers for c at a minimum of L; the largest violation, where the next is smaller."""
        c = c + self._margins
        away = np.abs(np.maximum(c, -self.multipliers / self.penalties))
        slow = (away > 0.25 * self._away) & (away > 0.1 * self._margins)
        self._away = away
        self.multipliers = np.maximum(0.0, self.multipliers + self.penalties * c)
        if grow:
            self.penalties = np.where(
                slow, np.minimum(_GROWTH * self.penalties, _MOST_GROWTH * self._first), self.penalties
            )
        return bool(np.all(away <= 0.1 * self._margins))

    def stiffen(self, c: FloatArray, rests: bool, clients: int) -> None:
        c = c + self._margins
        last, self._here = self._here, c
        active = self.multipliers > 0.0
        ratio = np.where(active & (last != 0.0), c / np.where(last == 0.0, 1.0, last), 0.0)
        small = np.abs(c) < 1e-3 * self._spreads
        self.boost = np.where(ratio > 0.3, np.minimum(1.5 * self.boost, clients), self.boost)
        self.boost = np.where(ratio < -0.3, np.maximum(self.boost / 2, 1.0), self.boost)


def is_finite(values: FloatArray) -> NDArray[np.bool_]:
    """Which points have a value: finite, and so are all of their constraints."""
    return np.isfinite(values) if values.ndim == 1 else np.all(np.isfinite(values), axis=1)


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
