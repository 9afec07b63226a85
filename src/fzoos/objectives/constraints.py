"""Private inequality constraints c(x) <= 0 as part of a client's objective: an augmented Lagrangian.

========  ==========  ==================================================================================================
symbol    shape       meaning
========  ==========  ==================================================================================================
f         (n,)        values of the client's own objective
c         (n, k)      values of its constraints, which are met where c <= 0
lambda    (k,)        multipliers, not negative; each client has its own
rho       (k,)        penalties; 0: not chosen yet, and the constraint has no effect
========  ==========  ==================================================================================================

    L(x) = f(x) + sum_j psi_j(c_j(x)),   psi_j(c) = (max(0, lambda_j + rho_j c)^2 - lambda_j^2) / (2 rho_j)

f and c of every query are stored, so that past values of L are exact whatever lambda and rho have become.

    first      rho = |grad F| / (0.1 |grad c|^2):  with a penalty alone x would violate c by a tenth of the box
    each x_r   lambda <- max(0, lambda + rho c(x_r)), where c(x_r) no longer halves from round to round
               rho <- 4 rho where the violation has not halved since lambda was last updated

References:
    M. J. D. Powell, "A method for nonlinear constraints in minimization problems", 1969. R. T. Rockafellar, "The
    multiplier method of Hestenes and Powell applied to convex programming", 1973. E. G. Birgin and J. M. Martinez,
    "Practical Augmented Lagrangian Methods for Constrained Optimization", 2014.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict

__all__ = ["AugmentedLagrangian"]

_VIOLATION = 0.1  # of the first penalty alone, as a distance in the unit cube
_INSIDE = 1e-7  # how far inside a constraint is aimed, in units of its spread: values only approach zero
_GROWTH, _ENOUGH = 4.0, 0.5  # of a penalty, where a violation is still more than this share of the last one
_MOST_GROWTH = 1e6
_CONVERGED = 0.1  # of _INSIDE: within this distance a surrogate's constraint is met
_TINY = 1e-300
_ARRAYS = ("multipliers", "penalties", "_first", "_margins", "_distance")  # of the state, each of shape (k,)


class AugmentedLagrangian:
    """The augmented Lagrangian of one client, and what the client knows of its constraints at the server's x.

    Attributes:
        multipliers: lambda.
        penalties: rho.
        at_server_x: f and c at the server's x of this round, shape (1 + k,); None: not queried yet.
    """

    def __init__(self, count: int) -> None:
        self.multipliers, self.penalties = np.zeros(count), np.zeros(count)
        self.at_server_x: FloatArray | None = None
        self._first = np.zeros(count)  # the first penalties
        self._margins = np.zeros(count)
        self._points: list[FloatArray] = []  # queries before penalties are chosen, and their f and c
        self._tables: list[FloatArray] = []
        self._last: FloatArray | None = None  # c at the server's x of the last round
        self._distance = np.full(count, math.inf)  # from c to its aim, when the multipliers were last updated
        self._by_surrogates = False  # whether multipliers are updated at minima of surrogates, and not by `update`

    @property
    def count(self) -> int:
        """k, the number of constraints."""
        return len(self.multipliers)

    @property
    def has_penalties(self) -> bool:
        """Whether penalties have been chosen."""
        return bool(np.any(self.penalties))

    @property
    def violation(self) -> float | None:
        """The largest c at the server's x of this round; infinity: it failed; None: not queried yet."""
        if self.at_server_x is None:
            return None
        return float(np.max(self.at_server_x[1:])) if np.all(np.isfinite(self.at_server_x)) else math.inf

    def values(self, table: FloatArray) -> FloatArray:
        """L of each row (f, c_1, ..., c_k)."""
        total: FloatArray = table[:, 0] + self.terms(table[:, 1:]).sum(axis=1)
        return total

    def terms(self, c: FloatArray) -> FloatArray:
        """Return the terms psi_j(c_j) that the augmented Lagrangian adds to f."""
        chosen = self.penalties > 0.0
        psi = (self.slopes(c) ** 2 - self.multipliers**2) / (2.0 * np.where(chosen, self.penalties, 1.0))
        return np.where(chosen, psi, 0.0)

    def slopes(self, c: FloatArray) -> FloatArray:
        """psi_j'(c_j) = max(0, lambda_j + rho_j c_j)."""
        return np.maximum(0.0, self.multipliers + self.penalties * self.shifted(c))

    def shifted(self, c: FloatArray) -> FloatArray:
        """c plus a small margin: what is brought to zero."""
        return c + self._margins

    def observe(self, points: FloatArray, table: FloatArray) -> None:
        """Take queries and their f and c into account when penalties are chosen."""
        if not self.has_penalties:
            self._points.append(points)
            self._tables.append(table)

    def observe_server_x(self, row: FloatArray) -> bool:
        """Take f and c at the server's x, shape (1 + k,), and update the multipliers; whether L has changed."""
        self.at_server_x = row.copy()
        return bool(np.all(np.isfinite(row))) and self.update(row[1:])

    def choose_penalties(self, slope: float = 0.0) -> bool:
        """Choose penalties by the spread of all values so far; whether there were enough.

        Args:
            slope: |grad F|, where it is known; otherwise the client's own is used, or where that is zero, 1.
        """
        if self.has_penalties or not self._points:
            return False
        points, table = np.concatenate(self._points), np.concatenate(self._tables)
        step = math.sqrt(float(np.mean((points - points.mean(axis=0)) ** 2)))  # of a coordinate
        if step == 0.0:
            return False
        spread = np.std(table, axis=0)
        spreads = np.where(spread[1:] > 0.0, spread[1:], np.abs(table[-1, 1:]) + _TINY)
        slope = max(float(spread[0]) / step, slope) or 1.0
        self.penalties = self._first = slope / (_VIOLATION * (spreads / step) ** 2)
        self._margins, self._points, self._tables = _INSIDE * spreads, [], []
        return True

    def choose_penalties_for_surrogates(self, slope: float) -> None:
        """Choose penalties; from now on multipliers are updated by `update_at_minimum` alone."""
        self._by_surrogates = True
        self.choose_penalties(slope)

    def update(self, c: FloatArray) -> bool:
        """Update the multipliers after a round, given c at the server's x; whether anything has changed.

        While c approaches zero by itself, the multipliers stay: they correct what a penalty alone leaves.
        """
        last, self._last = self._last, c.copy()
        if self._by_surrogates or last is None:
            return False
        if not self.has_penalties:
            return self.choose_penalties()
        away, before = (np.maximum(self.shifted(v), -self.multipliers / self.penalties) for v in (c, last))
        waits = np.abs(away) <= _ENOUGH * np.abs(before)
        slow = ~waits & (away > _ENOUGH * self._distance)
        self.multipliers = np.where(waits, self.multipliers, self.slopes(c))
        self._distance = np.where(waits, self._distance, np.abs(away))
        self.raise_penalties(slow)
        return True

    def update_at_minimum(self, c: FloatArray) -> FloatArray:
        """lambda <- max(0, lambda + rho c), for c at a minimum of L; the distance of each c from its aim."""
        away = np.maximum(self.shifted(c), -self.multipliers / self.penalties)
        self.multipliers = self.slopes(c)
        return np.abs(away)

    def has_converged(self, distance: FloatArray) -> bool:
        """Whether c is so close to its aim that another update gains nothing."""
        return bool(np.all(distance <= _CONVERGED * self._margins))

    def raise_penalties(self, which: NDArray[np.bool_], most: float = _MOST_GROWTH) -> None:
        """Multiply these penalties by four, up to `most` times the first ones."""
        self.penalties = np.where(which, np.minimum(_GROWTH * self.penalties, most * self._first), self.penalties)

    def lower_penalties(self) -> None:
        """Divide penalties that were raised by four."""
        self.penalties = np.maximum(self._first, self.penalties / _GROWTH)

    def state(self) -> StateDict:
        """Return all of it as named arrays and numbers."""
        return {
            **{name.strip("_"): getattr(self, name) for name in _ARRAYS},
            "by_surrogates": self._by_surrogates,
            "at_server_x": self.at_server_x,
            "last": self._last,
            "points": np.concatenate(self._points) if self._points else None,
            "table": np.concatenate(self._tables) if self._tables else None,
        }

    def restore(self, state: StateDict) -> None:
        """Replace all of it by what `state` returned."""
        for name in _ARRAYS:
            setattr(self, name, np.array(state[name.strip("_")]))
        self._by_surrogates = bool(state["by_surrogates"])
        self.at_server_x, self._last = state.get("at_server_x"), state.get("last")
        points, table = state.get("points"), state.get("table")
        self._points, self._tables = [] if points is None else [points], [] if table is None else [table]
