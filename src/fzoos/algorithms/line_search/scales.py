"""How wide the next star is, how many directions it has, and how far its lines reach.

    arms        H sqrt(2/3) and H sqrt(3/2) long by turns, H = h sqrt(d): narrow and wide ones
    measured    q of both kinds: what a pair of queries along their part of fresh shows / what it predicts, in [0, 1]
                (1 - q) / q = A / t^2 + B t^2 at arms of length t H: what noise and what curvature add to a slope,
                over what is true of it; two equations for A and B
    radius      H^4 <- H^4 A / B, where the sum is least; the less the more sure A and B are; a factor 3 at most
    size        m = 2 sqrt(c d / r),  r = (kappa / lambda - 1) d / m,  c the queries of a round beside the star
    ridge       (1 - q) / q  H^2 / l^2

The pair: errors of the m slopes are part of fresh, so that along fresh the true slope is q |fresh| with q = signal /
(signal + error): two queries of each client test all directions of a kind. B: a slope's squared error by curvature is
H^2 Var(u'Au) / 4. Var(u'Au) = 2 s^2 / d for a random u, s the standard deviation of A's eigenvalues; B is taken to be
at least that of s = lambda, their mean: where they differ less, a star may be narrower than it need be.

The size: m random directions show m/d of |g|^2. Along what they show, F bends by kappa = lambda (1 + r m/d): by the
mean curvature lambda for few directions, by that along the gradient itself for all. So a query gains

    (m/d) / ((1 + r m/d) (m + c)),      most at m = sqrt(c d / r)

Where F bends alike in all directions r is 0, and the more directions the better; where the gradient lies in steep ones
a few directions a round go further. Twice as many cost at most 1/9 more queries and half the rounds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.line_search.client import LINE
from fzoos.algorithms.line_search.control import Mode
from fzoos.algorithms.line_search.directions import COMMON, block
from fzoos.algorithms.line_search.star_points import SPREAD
from fzoos.surrogates.trend import length_scale

__all__ = [
    "FIRST_RADIUS",
    "FIRST_REACH",
    "QUERIES",
    "Quality",
    "Scales",
    "first_size",
    "next_scales",
    "next_size",
    "resting",
]

FIRST_RADIUS = 0.1  # h
FIRST_REACH = 2.0  # L over the first H
_LEAST_RADIUS, _MOST_RADIUS = 1e-3, 0.3 / math.sqrt(SPREAD)  # rounding; beyond, nearly all coordinates are clipped
_CHANGE = 3.0  # h changes by this factor a round at most: a bad measurement must not cost more
_FLOOR = 1e-8  # the least ridge
_LEAST_Q, _MOST_Q = 0.05, 1.0 - 1e-9
_FORGET = 0.8  # the best q of earlier rounds counts less in every round
_SMOOTH = 0.5  # weight of the newest measurement in log r
_LEAST_RATIO, _MOST_RATIO = 1e-3, 1e3
_FEW = 5  # own directions of a client in a star whose directions are dealt, at least
_ROUNDING = 1e-9
_TINY = 1e-300
QUERIES = 5 + 2 * len(LINE)  # c: x, two pairs and two lines


class Quality(NamedTuple):
    """What a star was worth: H, the number of its directions, and q and mean squared slope of wide and narrow arms."""

    length: float
    directions: int
    wide: float
    narrow: float
    wide_square: float
    narrow_square: float

    @property
    def signal(self) -> float:
        """The mean square of what is true of a slope."""
        return 0.5 * (self.wide * self.wide_square + self.narrow * self.narrow_square)

    @property
    def share(self) -> float:
        """q of all arms."""
        return self.signal / max(0.5 * (self.wide_square + self.narrow_square), _TINY)


class Scales(NamedTuple):
    """What the next star needs: h, L, the ridge, m (0: all there may be), log r; the best q, and h there."""

    radius: float = FIRST_RADIUS
    reach: float = 0.0
    ridge: float = _FLOOR
    size: float = 0.0
    ratio: float = 0.0
    best: float = 0.0
    best_radius: float = FIRST_RADIUS
    first: float = 1.0  # whether there was no star yet


def next_scales(scales: Scales, now: Quality | None, curvature: float, step: float, moved: float, dim: int) -> Scales:
    """The next round's radius, ridge and lines.

    Args:
        scales: of this round.
        now: what was measured in it; None: under differential privacy nothing was, and the radius follows the moves.
        curvature: lambda, averaged.
        step: length of the move.
        moved: its root mean square over the coordinates, after clipping.
        dim: d, the number of variables.
    """
    if now is None:
        return _reaching(scales, moved or scales.radius, step, dim)._replace(first=0.0)
    best, best_radius = scales.best * _FORGET, scales.best_radius
    if now.share > best:
        best, best_radius = now.share, scales.radius
    wanted = _wanted(scales.radius, best_radius if best > 0.0 else scales.radius, now, curvature, dim)
    ridge = (1.0 - now.share) / max(now.share, _LEAST_Q) * (now.length / length_scale(dim)) ** 2
    found = _reaching(scales, wanted, step, dim)
    return found._replace(ridge=max(_FLOOR, ridge), best=best, best_radius=best_radius, first=0.0)


def _reaching(scales: Scales, wanted: float, step: float, dim: int) -> Scales:
    """With this radius, as far as it may change, and lines that are as long as the last step."""
    wanted = min(max(wanted, scales.radius / _CHANGE), scales.radius * _CHANGE)
    radius = min(max(wanted, _LEAST_RADIUS), _MOST_RADIUS)
    reach = max(step, scales.reach * LINE[0], LINE[0] * radius * math.sqrt(dim))  # a star says nothing of less
    return scales._replace(radius=radius, reach=reach)


def _wanted(radius: float, best_radius: float, now: Quality, curvature: float, dim: int) -> float:
    """The radius at which slopes have the least error."""
    half = 0.5 * now.directions
    visible = min(0.5, 1.0 / math.sqrt(half))  # q of nothing but errors is about as large
    if max(now.wide, now.narrow) < visible:  # nothing is seen: back to where there was something, otherwise wider
        return best_radius if best_radius != radius else _CHANGE * radius
    q = np.clip([now.wide, now.narrow], 0.5 * visible, _MOST_Q)
    errors = (1.0 - q) / q
    noise, bend = _noise_and_bend(errors)
    doubts = np.sqrt((1.0 - q) * (q + 0.5) / half) / q**2  # standard errors
    unsure = SPREAD * float(np.hypot(*doubts)) / (SPREAD**2 - SPREAD**-2) / max(noise + bend, _TINY)
    bend = max(bend, (curvature * now.length) ** 2 / (2.0 * dim * max(now.signal, _TINY)), 1e-9 * noise, _TINY)
    return float(radius * (max(noise, 1e-9 * bend) / bend) ** (0.25 / (1.0 + unsure**2)))


def _noise_and_bend(errors: FloatArray) -> tuple[float, float]:
    """A and B of A / t^2 + B t^2, from its values at t^2 = SPREAD and 1 / SPREAD."""
    over = SPREAD**2 - SPREAD**-2
    wide, narrow = errors
    return max((SPREAD * narrow - wide / SPREAD) / over, 0.0), max((SPREAD * wide - narrow / SPREAD) / over, 0.0)


def first_size(scales: Scales, mode: Mode, participants: int, dim: int) -> Scales:
    """m before anything is known of r."""
    return scales._replace(size=_size(scales.ratio, mode, participants, dim))


def next_size(
    scales: Scales, now: Quality, slope: float, place: float, curvature: float, mode: Mode, participants: int, dim: int
) -> Scales:
    """m of the next star.

    Args:
        scales: of the next round, but for m.
        now: what was measured in this one.
        slope: q |fresh|, that of F along fresh.
        place: how far along it F is lowest, so that kappa = slope / place.
        curvature: lambda, averaged.
        mode: of the next star.
        participants: how many share its directions where they are dealt.
        dim: d, the number of variables.
    """
    steeper = slope / (place * curvature) - 1.0 if place > 0.0 and curvature > 0.0 else math.inf
    ratio = min(max(steeper * dim / now.directions, _LEAST_RATIO), _MOST_RATIO)
    ratio = (1.0 - _SMOOTH) * scales.ratio + _SMOOTH * math.log(ratio)
    return scales._replace(ratio=ratio, size=_size(ratio, mode, participants, dim))


def _size(ratio: float, mode: Mode, participants: int, dim: int) -> float:
    """Where directions are dealt, 16 are asked by all, and the others by one of the participants each."""
    if mode is Mode.SHARED:
        wanted = 2.0 * math.sqrt(QUERIES * dim / math.exp(ratio))
        return float(math.ceil(min(max(wanted, QUERIES), block(dim))))
    cost = participants * (QUERIES + COMMON * (1.0 - 1.0 / participants))
    wanted = 2.0 * math.sqrt(cost * dim / math.exp(ratio))
    return float(math.ceil(min(max(wanted, COMMON + _FEW * participants), dim)))


def resting(scales: Scales, dim: int) -> bool:
    """Whether a round in which no place was better says that x is a minimum.

    It does where star and lines were as small as they become, and where no star of any size has shown any slope.
    """
    shortest = LINE[0] * scales.radius * math.sqrt(dim) * (1.0 + _ROUNDING)
    smallest = scales.radius <= _LEAST_RADIUS * (1.0 + _ROUNDING)
    flat = scales.best == 0.0 and scales.radius >= _MOST_RADIUS * (1.0 - _ROUNDING)
    return scales.reach <= shortest and (smallest or flat)
