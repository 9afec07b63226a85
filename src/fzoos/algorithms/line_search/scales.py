"""The radius of the next design, its number of directions, and the step size of its lines.

    points      at the distances H sqrt(2/3) and H sqrt(3/2) in turn, H = h sqrt(d): narrow and wide
    measured    q of both kinds: the difference of a pair of values along their part of fresh over its prediction, in
                [0, 1]; (1 - q) / q = A / t^2 + B t^2 at the distance t H: the relative squared errors of a slope by
                noise and by curvature; two equations for A and B
    radius      H^4 <- H^4 A / B, where the sum is least, damped by the uncertainty of A and B; a factor 3 at most
    size        m = 2 sqrt(c d / r),  r = (kappa / lambda - 1) d / m,  c the queries of a round beside the design
    ridge       (1 - q) / q  H^2 / l^2

The pair: errors of the m slopes are part of fresh, so that along fresh the true slope is q |fresh| with q = signal /
(signal + error): two queries per client test all directions of a kind. B: a slope's squared error by curvature is
H^2 Var(u'Au) / 4. Var(u'Au) = 2 s^2 / d for a random u, s the standard deviation of A's eigenvalues; B is taken to be
at least that of s = lambda, their mean: if they differ less, a design may be narrower than necessary.

The size: m random directions capture m/d of |g|^2. Along the captured part, F bends by kappa = lambda (1 + r m/d): by
the mean curvature lambda for few directions, by that along the gradient itself for all. So the gain per query is

    (m/d) / ((1 + r m/d) (m + c)),      largest at m = sqrt(c d / r)

If F bends alike in all directions, r is 0, and more directions are better; if the gradient lies in steep directions,
few directions per round gain more. Twice as many cost at most 1/9 more queries and half the rounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.line_search.client import LINE
from fzoos.algorithms.line_search.control import Mode
from fzoos.algorithms.line_search.design import SPREAD
from fzoos.algorithms.line_search.directions import COMMON, block
from fzoos.surrogates.trend import length_scale

__all__ = [
    "FIRST_RADIUS",
    "FIRST_STEP_SIZE",
    "QUERIES",
    "Quality",
    "Scales",
    "first_size",
    "is_converged",
    "next_scales",
    "next_size",
]

FIRST_RADIUS = 0.1  # h
FIRST_STEP_SIZE = 2.0  # L over the first H
_LEAST_RADIUS, _MOST_RADIUS = 1e-3, 0.3 / math.sqrt(SPREAD)  # rounding; beyond, nearly all coordinates are clipped
_CHANGE = 3.0  # the largest factor of h per round: a bad measurement must not cost more
_LEAST_RIDGE = 1e-8
_LEAST_Q, _MOST_Q = 0.05, 1.0 - 1e-9
_FORGET = 0.8  # decay of the best q per round
_SMOOTH = 0.5  # weight of the newest measurement in log r
_LEAST_RATIO, _MOST_RATIO = 1e-3, 1e3
_FEW = 5  # the least number of a client's own directions in a split design
_ROUNDING = 1e-9
_TINY = 1e-300
QUERIES = 5 + 2 * len(LINE)  # c: x, two pairs and two lines


class Quality(NamedTuple):
    """The quality of a design: H, its number of directions, q and mean squared slope of wide and narrow points."""

    length: float
    directions: int
    wide: float
    narrow: float
    wide_square: float
    narrow_square: float

    @property
    def signal(self) -> float:
        """The mean square of the true part of a slope."""
        return 0.5 * (self.wide * self.wide_square + self.narrow * self.narrow_square)

    @property
    def overall(self) -> float:
        """The quality q of all points."""
        return self.signal / max(0.5 * (self.wide_square + self.narrow_square), _TINY)


class Scales(NamedTuple):
    """The scales of the next design: h, L, the ridge, m (0: as many as possible), log r; the best q, and its h."""

    radius: float = FIRST_RADIUS
    step_size: float = 0.0
    ridge: float = _LEAST_RIDGE
    size: float = 0.0
    ratio: float = 0.0
    best: float = 0.0
    best_radius: float = FIRST_RADIUS
    first: float = 1.0  # 1 before the first design


def next_scales(scales: Scales, now: Quality | None, curvature: float, step: float, moved: float, dim: int) -> Scales:
    """Return the next round's radius, ridge and step size.

    Args:
        scales: of this round.
        now: what was measured in it; None under differential privacy: the radius follows the moves.
        curvature: lambda, averaged.
        step: the length of the move.
        moved: its root mean square over the coordinates, after clipping.
        dim: d, the number of variables.
    """
    if now is None:
        return _with_radius(scales, moved or scales.radius, step, dim)._replace(first=0.0)
    best, best_radius = scales.best * _FORGET, scales.best_radius
    if now.overall > best:
        best, best_radius = now.overall, scales.radius
    wanted = _wanted(scales.radius, best_radius if best > 0.0 else scales.radius, now, curvature, dim)
    ridge = (1.0 - now.overall) / max(now.overall, _LEAST_Q) * (now.length / length_scale(dim)) ** 2
    found = _with_radius(scales, wanted, step, dim)
    return found._replace(ridge=max(_LEAST_RIDGE, ridge), best=best, best_radius=best_radius, first=0.0)


def _with_radius(scales: Scales, wanted: float, step: float, dim: int) -> Scales:
    """Set the radius, as far as it may change, and the step size, to the last step."""
    wanted = min(max(wanted, scales.radius / _CHANGE), scales.radius * _CHANGE)
    radius = min(max(wanted, _LEAST_RADIUS), _MOST_RADIUS)
    step_size = max(step, scales.step_size * LINE[0], LINE[0] * radius * math.sqrt(dim))  # shorter ones are unknown
    return scales._replace(radius=radius, step_size=step_size)


def _wanted(radius: float, best_radius: float, now: Quality, curvature: float, dim: int) -> float:
    """Return the radius at which slopes have the least error."""
    half = 0.5 * now.directions
    visible = min(0.5, 1.0 / math.sqrt(half))  # about q of pure errors
    if max(now.wide, now.narrow) < visible:  # no slope is visible: return to the best radius, or else widen
        return best_radius if best_radius != radius else _CHANGE * radius
    q = np.clip([now.wide, now.narrow], 0.5 * visible, _MOST_Q)
    errors = (1.0 - q) / q
    noise, bend = _noise_and_bend(errors)
    doubts = np.sqrt((1.0 - q) * (q + 0.5) / half) / q**2  # standard errors
    unsure = SPREAD * float(np.hypot(*doubts)) / (SPREAD**2 - SPREAD**-2) / max(noise + bend, _TINY)
    bend = max(bend, (curvature * now.length) ** 2 / (2.0 * dim * max(now.signal, _TINY)), 1e-9 * noise, _TINY)
    return float(radius * (max(noise, 1e-9 * bend) / bend) ** (0.25 / (1.0 + unsure**2)))


def _noise_and_bend(errors: FloatArray) -> tuple[float, float]:
    """Return A and B of A / t^2 + B t^2, given its values at t^2 = SPREAD and 1 / SPREAD."""
    over = SPREAD**2 - SPREAD**-2
    wide, narrow = errors
    return max((SPREAD * narrow - wide / SPREAD) / over, 0.0), max((SPREAD * wide - narrow / SPREAD) / over, 0.0)


def first_size(scales: Scales, mode: Mode, participants: int, dim: int) -> Scales:
    """Return the scales with m, before r is measured."""
    return scales._replace(size=_size(scales.ratio, mode, participants, dim))


def next_size(
    scales: Scales, now: Quality, slope: float, place: float, curvature: float, mode: Mode, participants: int, dim: int
) -> Scales:
    """Return the scales with m of the next design.

    Args:
        scales: of the next round, without m.
        now: what was measured in this round.
        slope: of F along fresh, q |fresh|.
        place: where F is lowest along fresh, so that kappa = slope / place.
        curvature: lambda, averaged.
        mode: of the next design.
        participants: the number of clients among which directions are split.
        dim: d, the number of variables.
    """
    steeper = slope / (place * curvature) - 1.0 if place > 0.0 and curvature > 0.0 else math.inf
    ratio = min(max(steeper * dim / now.directions, _LEAST_RATIO), _MOST_RATIO)
    ratio = (1.0 - _SMOOTH) * scales.ratio + _SMOOTH * math.log(ratio)
    return scales._replace(ratio=ratio, size=_size(ratio, mode, participants, dim))


def _size(ratio: float, mode: Mode, participants: int, dim: int) -> float:
    """Return m; if directions are split, 16 are queried by all clients, and the others by one client each."""
    if mode is Mode.SHARED:
        wanted = 2.0 * math.sqrt(QUERIES * dim / math.exp(ratio))
        return float(math.ceil(min(max(wanted, QUERIES), block(dim))))
    cost = participants * (QUERIES + COMMON * (1.0 - 1.0 / participants))
    wanted = 2.0 * math.sqrt(cost * dim / math.exp(ratio))
    return float(math.ceil(min(max(wanted, COMMON + _FEW * participants), dim)))


def is_converged(scales: Scales, dim: int) -> bool:
    """Return whether a round without a better point shows that x is a minimum.

    It does if design and lines are as small as possible, or if no design of any radius has shown a slope.
    """
    shortest = LINE[0] * scales.radius * math.sqrt(dim) * (1.0 + _ROUNDING)
    smallest = scales.radius <= _LEAST_RADIUS * (1.0 + _ROUNDING)
    flat = scales.best == 0.0 and scales.radius >= _MOST_RADIUS * (1.0 - _ROUNDING)
    return scales.step_size <= shortest and (smallest or flat)
