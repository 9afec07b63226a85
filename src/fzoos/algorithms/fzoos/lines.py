"""The server's part of a round with a star: the step along a line, and how wide the next star is.

    step        a parabola through the lowest t and its neighbours on each line; the lower of both wins; L = step
    measured    q = what the pair along fresh shows / what fresh predicts for it, in [0, 1]
                V = H^2 |fresh|^2 / m,  E = (1 - q) V: the variance of the star's values that is not slope
                kappa = (E_1 - E_2) / (H_1^4 - H_2^4) from two rounds,  phi <- mean(phi, 1 - kappa H^4 / E)
                sigma^2 = phi E
    next        H^2 = sqrt(2 d) sigma / lambda,   h within a factor 3 of the last and in [1e-3, 0.3]
                ridge = (1 - q) / q  H^2 / l^2
                dealt where G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1 is below (N - 1) / 4, else shared

The pair: errors of the m slopes are part of fresh, so that along fresh the true slope is q |fresh| with q = signal /
(signal + error): two queries of each client test all m directions. The radius: a slope's squared error is sigma^2 /
H^2 by noise and H^2 Var(u'Au) / 4 by curvature, with Var(u'Au) >= 2 lambda^2 / d for a random u; the sum is least at
this H. phi: noise and ripple are as large at every H, curvature that differs between directions grows as H^4.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.fzoos.control import Mode
from fzoos.algorithms.fzoos.star import LINE
from fzoos.surrogates.trend import length_scale

__all__ = ["FIRST_RADIUS", "FIRST_REACH", "Quality", "Scales", "Step", "best_step", "differences", "next_scales"]

FIRST_RADIUS = 0.1  # h: begin wide, then narrow
FIRST_REACH = 2.0  # L over the first H
_LEAST_RADIUS, _MOST_RADIUS = 1e-3, 0.3  # rounding; beyond, nearly all coordinates are clipped
_CHANGE = 3.0  # h changes by this factor a round at most: a bad measurement must not cost more
_FLOOR = 1e-8  # the least ridge
_LEAST_PHI, _LEAST_Q = 0.02, 0.05
_FORGET = 0.5  # weight of the newest measurement in phi
_TIE = 1e-9  # of two lines that are equal but for rounding the first is taken
_SAME = 0.15  # two H whose logarithms are this close say nothing of phi


class Step(NamedTuple):
    """A move: along which line (1 or 2; 0: none), and how far."""

    line: int
    length: float


def best_step(values: FloatArray, failed: FloatArray, reach: float) -> Step:
    """The line that promises the lowest value of F, and where on it.

    Args:
        values: F(x + t v) - F(x), shape (2, 5).
        failed: share of the clients that had no value there, shape (2, 5); such places are left out.
        reach: L.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.fzoos.lines import best_step
        >>> t = np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        >>> best_step(np.stack([(t - 0.6) ** 2 - 0.36, t]), np.zeros((2, 5)), 1.0)
        Step(line=1, length=0.6)
    """
    best, found = 0.0, Step(0, 0.0)
    for k, (row, missing) in enumerate(zip(values, failed, strict=True)):
        there = np.flatnonzero(missing == 0.0)
        promise, place = _lowest(np.append(0.0, reach * np.array(LINE)[there]), np.append(0.0, row[there]))
        if promise < best - _TIE * abs(best):
            best, found = promise, Step(k + 1, place)
    return found


def _lowest(places: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Value and place of the minimum of the parabola through the lowest value and its neighbours."""
    low, last = int(np.argmin(values)), len(places) - 1
    if last < 2 or low == last:
        return float(values[low]), float(places[low])
    left = max(0, min(low - 1, last - 2))
    t, f = places[left : left + 3] / places[-1], values[left : left + 3]
    first, second = (f[1] - f[0]) / (t[1] - t[0]), (f[2] - f[1]) / (t[2] - t[1])
    bend = (second - first) / (t[2] - t[0])
    if not bend > 0.0:
        return float(values[low]), float(places[low])
    vertex = 0.5 * (t[0] + t[1]) - 0.5 * first / bend
    vertex = min(max(vertex, places[max(low - 1, 0)] / places[-1]), places[low + 1] / places[-1])
    value = f[0] + first * (vertex - t[0]) + bend * (vertex - t[0]) * (vertex - t[1])
    return float(value), float(vertex * places[-1])


class Quality(NamedTuple):
    """H, mode, q and E = (1 - q) V of a round."""

    length: float
    mode: Mode
    share: float
    error: float

    @classmethod
    def of(cls, length: float, mode: Mode, share: float, slopes: float) -> Quality:
        """From V over H^2, the mean square of the star's slopes."""
        share = min(max(share, 0.0), 1.0)
        return cls(length, mode, share, (1.0 - share) * slopes * length**2)


class Scales(NamedTuple):
    """What the next star needs: h, L, the ridge, phi; H, mode and E of the last round (mode -1: none, 0: not alike)."""

    radius: float = FIRST_RADIUS
    reach: float = 0.0
    ridge: float = _FLOOR
    phi: float = 0.5
    last_length: float = 0.0
    last_mode: float = -1.0
    last_error: float = 0.0


def next_scales(scales: Scales, now: Quality, curvature: float, step: float, moved: float, dim: int) -> Scales:
    """The next round's radius, ridge and lines.

    Args:
        scales: of this round.
        now: what was measured in it.
        curvature: lambda, averaged.
        step: length of the move.
        moved: its root mean square over the coordinates, after clipping.
        dim: d, the number of variables.
    """
    phi, radius = _next_phi(scales, now), scales.radius
    wanted = moved or radius
    if curvature > 0.0:
        sigma = math.sqrt(max(phi, _LEAST_PHI) * now.error)
        wanted = math.sqrt(math.sqrt(2.0 * dim) * sigma / curvature / dim)
    wanted = min(max(wanted, radius / _CHANGE), radius * _CHANGE)
    radius = min(max(wanted, _LEAST_RADIUS), _MOST_RADIUS)
    ridge = (1.0 - now.share) / max(now.share, _LEAST_Q) * (now.length / length_scale(dim)) ** 2
    return Scales(
        radius=radius,
        reach=max(step, scales.reach * LINE[0], LINE[0] * radius * math.sqrt(dim)),  # a star says nothing of less
        ridge=max(_FLOOR, ridge),
        phi=phi,
        last_length=now.length,
        last_mode=float(now.mode),
        last_error=now.error,
    )


def _next_phi(scales: Scales, now: Quality) -> float:
    """phi: the share of E that is as large at every H."""
    if scales.last_mode != now.mode or now.error <= 0.0:
        return scales.phi
    if abs(math.log(now.length / scales.last_length)) <= _SAME:
        return scales.phi
    fourth = now.length**4
    kappa = (scales.last_error - now.error) / (scales.last_length**4 - fourth)
    kappa = min(max(kappa, 0.0), now.error / fourth)
    return (1.0 - _FORGET) * scales.phi + _FORGET * (1.0 - kappa * fourth / now.error)


def differences(common: float, mean: float) -> float:
    """G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1: how much the clients differ; inf where `common` is left out."""
    return max(common - mean, 0.0) / mean if mean > 0.0 and common > 0.0 else math.inf
