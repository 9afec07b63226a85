"""Gradients of all clients at the centres of past rounds, and what they are where a client has not answered.

    g_i(x) ~ g_i(x_a) + mean over the others of g_j(x) - g_j(x_a),      x_a: where client i was asked last

A client that is late is taken to bend like the others: what it said last is moved along with their gradients. The
others' mean is over those that are known at both centres. How far this holds is measured: when a client is in time
again, at x, its prediction was wrong by

    e = omega_i |g_i(x) - predicted| / max(|G(x_a)|, |G(x_a) - G(x)|),      G: the averaged gradient, as predicted

(a client also knows more than before, which is no fault of the distance: it counts if it outweighs G), and the
distance to which x may go from where the client was asked last becomes

    R = |x - x_a| 2^p,   p = 1 - e / 0.3 in [-1, 1]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Arrays

__all__ = ["MEMORY", "LateGradients"]

MEMORY = 15  # rounds, as many as clients keep
_TAU = 0.3  # the error at which R stays
_TINY = 1e-300


@dataclass
class LateGradients:
    """Part of a server's state.

    Args:
        rows: gradients by round and client, as they came.
        sent: the averaged gradient of each round, as it was last sent.
        radii: R of each client, once it was measured.
        valued: the last round of each client in which it had a value at x.
        quiet: clients that were late, and are next asked for a gradient without queries.
        absent: clients whose last request failed: they are left out.
        partial: rounds in which somebody's gradient was missing when the average was sent.
        together: from now on every exchange waits for all.
        back: the round to whose centre x goes after the one that has begun; 0: none.

    Example:
        >>> import numpy as np
        >>> from fzoos.federation.late_gradients import LateGradients
        >>> late = LateGradients({1: {0: np.array([1.0]), 1: np.array([5.0])}, 2: {0: np.array([1.5])}})
        >>> {i: float(g[0]) for i, g in late.filled(2, np.array([0.5, 0.5])).items()}       # + 0.5, as client 0
        {0: 1.5, 1: 5.5}
    """

    rows: dict[int, dict[int, FloatArray]] = field(default_factory=dict)
    sent: dict[int, FloatArray] = field(default_factory=dict)
    radii: dict[int, float] = field(default_factory=dict)
    valued: dict[int, int] = field(default_factory=dict)
    quiet: set[int] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    partial: set[int] = field(default_factory=set)
    together: bool = False
    back: int = 0

    def add(self, round: int, client: int, gradient: FloatArray) -> None:
        """What a client has answered to a request of this round."""
        self.rows.setdefault(round, {})[client] = gradient
        self.absent.discard(client)

    def last(self, client: int, before: float = math.inf) -> int | None:
        """The last round, before a certain one, of which a client's gradient is known."""
        return max((s for s, row in self.rows.items() if s < before and client in row), default=None)

    def filled(self, round: int, weights: FloatArray) -> dict[int, FloatArray]:
        """Gradients of a round, known or predicted, of all clients that ever answered and are still there."""
        found = dict(self.rows[round])
        for i in range(len(weights)):
            known = None if i in found or i in self.absent else self.last(i)
            if known is not None:
                found[i] = self._predicted(i, round, known, weights)
        return {i: found[i] for i in sorted(found)}

    def _predicted(self, client: int, round: int, known: int, weights: FloatArray) -> FloatArray:
        now, then = self.rows[round], self.rows[known]
        others = [j for j in sorted(now) if j in then and j != client]
        if not others:
            return then[client]
        moved: FloatArray = np.average([now[j] - then[j] for j in others], axis=0, weights=weights[others])
        return then[client] + moved

    def judge(self, now: int, centres: Mapping[int, FloatArray], weights: FloatArray) -> None:
        """Of clients that are in time now, and were not before: compare what came with what is predicted for it."""
        for i in sorted(self.rows[now]):
            known = self.last(i, before=now)
            if known is not None and known < now - 1:
                self._compare(i, now, known, float(np.max(np.abs(centres[now] - centres[known]))), weights)

    def _compare(self, client: int, round: int, known: int, far: float, weights: FloatArray) -> None:
        if far == 0.0:
            return
        predicted = self._predicted(client, round, known, weights)
        error = weights[client] * (self.rows[round][client] - predicted) / weights.sum()
        expected = _mean(self.filled(round, weights) | {client: predicted}, weights)
        before = _mean(self.filled(known, weights), weights)
        size = max(float(np.linalg.norm(before)), float(np.linalg.norm(before - expected)))
        power = min(max(1.0 - float(np.linalg.norm(error)) / (_TAU * size + _TINY), -1.0), 1.0)
        self.radii[client] = far * 2.0**power

    def within_reach(
        self, there: FloatArray, x: FloatArray, fresh: list[int], centres: Mapping[int, FloatArray]
    ) -> FloatArray:
        """The next x, no further from where a late client is known than R, or than x is already."""
        for i, radius in sorted(self.radii.items()):
            known = None if i in fresh or i in self.absent else self.last(i)
            if known is not None:
                centre = centres[known]
                reach = max(radius, float(np.max(np.abs(x - centre))))
                there = np.clip(there, centre - reach, centre + reach)
        return there

    @property
    def needed(self) -> set[int]:
        """Rounds that are still of use: the last ones, and the last of each client."""
        clients = {i for row in self.rows.values() for i in row}
        kept = {s for i in clients if (s := self.last(i)) is not None} | set(self.valued.values())
        return kept | set(sorted(self.rows)[-MEMORY:])

    def forget(self, under_way: set[int]) -> None:
        """Leave what is of use; rounds under way are."""
        kept = self.needed | under_way
        self.rows = {s: row for s, row in self.rows.items() if s in kept}
        recent = sorted(self.rows)[-MEMORY:]
        self.sent = {s: g for s, g in self.sent.items() if s in recent}
        self.partial &= set(recent)

    def save(self) -> tuple[dict[str, Any], list[Arrays]]:
        """JSON values, and two tables of arrays."""
        if not self.rows:
            return {}, []
        values = {
            "radii": list(self.radii.items()),
            "valued": list(self.valued.items()),
            **{name: sorted(getattr(self, name)) for name in ("quiet", "absent", "partial")},
            "together": self.together,
            "back": self.back,
        }
        rows = {f"{s} {i}": g for s, row in self.rows.items() for i, g in row.items()}
        return values, [rows, {str(s): g for s, g in self.sent.items()}]

    @classmethod
    def load(cls, values: Mapping[str, Any], rows: Arrays, sent: Arrays) -> Self:
        """From what `save` gave."""
        found: dict[int, dict[int, FloatArray]] = {}
        for name, gradient in rows.items():
            s, i = map(int, name.split())
            found.setdefault(s, {})[i] = gradient
        return cls(
            found,
            {int(s): g for s, g in sent.items()},
            radii=dict(values["radii"]),
            valued=dict(values["valued"]),
            quiet=set(values["quiet"]),
            absent=set(values["absent"]),
            partial=set(values["partial"]),
            together=values["together"],
            back=values["back"],
        )


def _mean(gradients: Mapping[int, FloatArray], weights: FloatArray) -> FloatArray:
    mean: FloatArray = np.average(list(gradients.values()), axis=0, weights=weights[list(gradients)])
    return mean
