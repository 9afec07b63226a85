"""Gradients of late clients in asynchronous rounds: predicted from those of the others, and trusted within a radius.

    g_i(x) ~ g_i(x_a) + mean over the others of g_j(x) - g_j(x_a),      x_a: where client i was queried last        (1)

A late client is assumed to have the curvature of the others: its last gradient is moved along with theirs. The mean is
over the clients whose gradients are known at both centres. How far this holds is measured: when a client is in time
again, at x, its prediction was wrong by

    e = omega_i |g_i(x) - predicted| / max(|G(x_a)|, |G(x_a) - G(x)|),      G: the averaged gradient, as predicted  (2)

(a client also knows more than before, which is no fault of the distance: it counts if it outweighs G), and the
distance to which x may go from where the client was queried last becomes

    R = |x - x_a| 2^p,   p = 1 - e / 0.3 in [-1, 1]                                                                 (3)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Round, State

__all__ = ["MEMORY", "LateGradients"]

MEMORY = 15  # rounds, as many as clients store
_TAU = 0.3  # the error at which R stays
_PROGRESS = 0.3  # x waits for a client when a round moves it by less than this fraction of its distance to the client
_TINY = 1e-300
_PREFIX = "late_"


@dataclass
class LateGradients:
    """The part of the server's state that asynchronous rounds add: arrays over R rounds, n clients and d coordinates.

    Args:
        weights: omega, shape (n,); not part of the state.
        rounds: the numbers of the rounds, shape (R,).
        centres: x in these rounds, shape (R, d).
        gradients: the clients' gradients there, shape (R, n, d); NaN: not known.
        sent: their average as it was last sent, shape (R, d); NaN: none was.
        partial: 1 where it was sent before all gradients were known, shape (R,).
        radii: R of each client; NaN: not measured yet.
        valued: the last round of each client in which it had a value at x; 0: none.
        quiet: 1 for clients that were late, and next receive a request for a gradient without queries.
        absent: 1 for clients whose last request failed: they are left out.
        pending: the round of a client's request that has no reply yet; 0: none.
        flags: whether every exchange waits for all; the round to whose centre x returns after this one, or 0.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.trust_region.late_gradients import LateGradients
        >>> late = LateGradients.of({}, np.array([0.5, 0.5]), dim=1)
        >>> one, two = late.row(1), late.row(2)
        >>> late.gradients[one], late.gradients[two, 0] = [[1.0], [5.0]], 1.5
        >>> late.filled(two)[1]                                               # 5 + 0.5, like client 0
        array([5.5])
    """

    weights: FloatArray
    rounds: FloatArray
    centres: FloatArray
    gradients: FloatArray
    sent: FloatArray
    partial: FloatArray
    radii: FloatArray
    valued: FloatArray
    quiet: FloatArray
    absent: FloatArray
    pending: FloatArray
    flags: FloatArray

    @classmethod
    def of(cls, state: State, weights: FloatArray, dim: int) -> Self:
        """Read a copy from the server's state; without entries there, from nothing."""
        n = len(weights)
        empty = {"centres": (0, dim), "sent": (0, dim), "gradients": (0, n, dim), "rounds": 0, "partial": 0, "flags": 2}
        arrays = {f.name: np.zeros(empty.get(f.name, n)) for f in fields(cls)[1:]} | {"radii": np.full(n, np.nan)}
        found = {name: np.array(state.get(_PREFIX + name, array)) for name, array in arrays.items()}
        return cls(weights, **found)

    def entries(self) -> State:
        """Return the entries of the server's state."""
        return {_PREFIX + f.name: getattr(self, f.name) for f in fields(self)[1:]}

    def row(self, round: int) -> int:
        """Return the row of a round, which is added if it is missing."""
        found = np.flatnonzero(self.rounds == round)
        if len(found):
            return int(found[0])
        for name, value in {
            "rounds": round,
            "centres": np.nan,
            "gradients": np.nan,
            "sent": np.nan,
            "partial": 0,
        }.items():
            array: FloatArray = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.full((1, *array.shape[1:]), value, dtype=float)]))
        return len(self.rounds) - 1

    @property
    def _known(self) -> NDArray[np.bool_]:
        """Whether each gradient is known, shape (R, n)."""
        return ~np.isnan(self.gradients[:, :, 0])

    def last(self, client: int, before: float = np.inf) -> int | None:
        """Return the row of the latest round, before a certain one, in which a client's gradient is known."""
        rows = np.flatnonzero(self._known[:, client] & (self.rounds < before))
        return int(rows[np.argmax(self.rounds[rows])]) if len(rows) else None

    def filled(self, row: int) -> dict[int, FloatArray]:
        """Return the gradients of a round, known or predicted, of all clients that ever replied and are not absent."""
        found = {}
        for i, known in enumerate(self._known[row]):
            if known:
                found[i] = self.gradients[row, i]
            elif not self.absent[i] and (last := self.last(i)) is not None:
                found[i] = self._predicted(i, row, last)
        return found

    def _predicted(self, client: int, row: int, last: int) -> FloatArray:
        """Return the gradient of one client that Eq. (1) predicts."""
        both = self._known[row] & self._known[last]
        both[client] = False
        then: FloatArray = self.gradients[last, client]
        if not both.any():
            return then
        moved = [
            now - before for now, before in zip(self.gradients[row, both], self.gradients[last, both], strict=True)
        ]
        predicted: FloatArray = then + np.average(moved, axis=0, weights=self.weights[both])
        return predicted

    def average(self, row: int, round: Round) -> FloatArray:
        """Return the averaged gradient of a round, with predictions for those that are not known."""
        assert round.aggregate is not None
        filled = self.filled(row)
        return round.aggregate([{"gradient": g} for g in filled.values()], self.weights[list(filled)])["gradient"]

    def history(self, round: Round) -> dict[str, FloatArray]:
        """Return the averaged gradients of the rounds before this one if late replies have changed any of them."""
        rows = np.flatnonzero(self.partial)
        now = {int(k): self.average(int(k), round) for k in rows}
        if all(np.array_equal(gradient, self.sent[k]) for k, gradient in now.items()):
            return {}
        for k, gradient in now.items():
            self.sent[k] = gradient
        sent = ~np.isnan(self.sent[:, 0])
        first = int(np.min(self.rounds[sent]))
        found = np.zeros((round.number - first, self.sent.shape[1]))  # 0: no update was sent
        found[self.rounds[sent].astype(int) - first] = self.sent[sent]
        return {"history": found}

    def measure_radii(self, row: int) -> None:
        """Compare the gradients of clients that are in time now, and were not before, with what is predicted."""
        now = self.rounds[row]
        for i in np.flatnonzero(self._known[row]):
            last = self.last(int(i), before=now)
            if last is not None and self.rounds[last] < now - 1:
                self._measure_radius(int(i), row, last)

    def _measure_radius(self, client: int, row: int, last: int) -> None:
        """Eq. (2) and (3)."""
        distance = float(np.max(np.abs(self.centres[row] - self.centres[last])))
        if distance == 0.0:
            return
        predicted = self._predicted(client, row, last)
        error = self.weights[client] * (self.gradients[row, client] - predicted) / self.weights.sum()
        expected, before = self._mean(self.filled(row) | {client: predicted}), self._mean(self.filled(last))
        size = max(float(np.linalg.norm(before)), float(np.linalg.norm(before - expected)))
        power = min(max(1.0 - float(np.linalg.norm(error)) / (_TAU * size + _TINY), -1.0), 1.0)
        self.radii[client] = distance * 2.0**power

    def _mean(self, gradients: dict[int, FloatArray]) -> FloatArray:
        positions = sorted(gradients)
        mean: FloatArray = np.average([gradients[i] for i in positions], axis=0, weights=self.weights[positions])
        return mean

    def within_radii(self, there: FloatArray, x: FloatArray, row: int) -> FloatArray:
        """Return the next x, no further from where a late client is known than R, or than x is already."""
        for i in np.flatnonzero(~np.isnan(self.radii) & ~self._known[row] & (self.absent == 0)):
            last = self.last(int(i))
            if last is not None:
                centre = self.centres[last]
                radius = max(float(self.radii[i]), float(np.max(np.abs(x - centre))))
                there = np.clip(there, centre - radius, centre + radius)
        return there

    def centres_of_all(self) -> list[FloatArray] | None:
        """Return where each client that is not absent was queried last; None: one has never replied."""
        rows = [self.last(int(i)) for i in np.flatnonzero(self.absent == 0)]
        return None if None in rows else [self.centres[k] for k in rows if k is not None]

    def settled(self, x: FloatArray, pending: Iterable[int], round: int) -> bool:
        """Return whether x has nearly stopped moving, compared to its distance from where busy clients were queried."""
        if round not in self.rounds:
            return False
        far = max(float(np.max(np.abs(x - self.centres[self.row(r)]))) for r in pending)
        return float(np.max(np.abs(x - self.centres[self.row(round)]))) <= _PROGRESS * far

    def forget(self) -> None:
        """Remove the rounds that are of no more use."""
        recent = np.isin(self.rounds, np.sort(self.rounds)[-MEMORY:])
        self.sent[~recent], self.partial[~recent] = np.nan, 0.0
        retained = recent | np.isin(self.rounds, [*self.valued, *self.pending])
        retained[[k for i in range(len(self.weights)) if (k := self.last(i)) is not None]] = True
        for name in ("rounds", "centres", "gradients", "sent", "partial"):
            setattr(self, name, getattr(self, name)[retained])
