"""Minima of surrogates in a box: by Newton's method, and by L-BFGS-B for the augmented Lagrangian, which has kinks.

    s = argmin g.s + 1/2 s.H s,   low <= t + s <= high

H of a Gaussian process costs little more than its gradient, so that some five evaluations find a minimum to rounding;
L-BFGS-B needs 35. Coordinates at a bound that g pushes against are fixed; of the free ones, those that a step takes out
of the box are moved to its border, and the step of the others is computed again. Where H is not positive definite, the
absolute values of its eigenvalues are used, which leads away from saddles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray

__all__ = ["Curved", "lbfgsb_point", "newton_point"]

_STEPS, _SHORTER = 60, 12  # Newton steps, and how often each of them is shortened
_GRADIENT = 1e-10  # the largest free coordinate of g at a minimum
_ARMIJO = 1e-4
_FLAT = 1e-12  # the smallest eigenvalue over the largest
_GUESSES = 20  # of which coordinates a step takes to their bounds
_ENOUGH = 1e-10  # the fraction of the parabola's decrease that is not worth another step
_TINY = 1e-300
_most = np.maximum.reduce  # np.max without its overhead


class Curved(NamedTuple):
    """A function at a point: its value, its gradient (d,) and its second derivatives (d, d)."""

    value: float
    slope: FloatArray
    bend: FloatArray


def newton_point(
    curved: Callable[[FloatArray], Curved],
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    rounding: float = 0.0,
    saddles: int = _STEPS,
) -> FloatArray:
    """Return a minimum of a function within bounds, near a start.

    Args:
        curved: returns value, gradient and second derivatives at a point of shape (d,).
        start: shape (d,), within the bounds.
        low: lower bounds, shape (d,).
        high: upper bounds, shape (d,).
        rounding: the error of the values; below it, gradients decide whether a step is good.
        saddles: the largest number of steps from points where H is not positive definite.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.trust_region.minimizers import Curved, newton_point
        >>> bowl = lambda t: Curved(float(np.sum((t - 2.0) ** 2)), 2.0 * (t - 2.0), 2.0 * np.eye(2))
        >>> newton_point(bowl, np.zeros(2), np.array([-1.0, -3.0]), np.array([1.0, 3.0]))
        array([1., 2.])
    """
    t, here = start, curved(start)
    for _ in range(_STEPS):
        free = _free(t, here.slope, low, high)
        left = _largest(here.slope, free)
        if left <= _GRADIENT:
            break
        step, convex = _step(here, free, low - t, high - t)
        saddles -= not convex
        if saddles < 0:
            break
        for _ in range(_SHORTER):
            trial = np.minimum(np.maximum(t + step, low), high)
            there, promised = curved(trial), float(here.slope @ (trial - t))
            fall = here.value - there.value
            if promised < 0.0 and fall >= -_ARMIJO * promised:
                break
            if abs(fall) <= rounding and _largest(there.slope, _free(trial, there.slope, low, high)) <= 0.5 * left:
                break
            if abs(promised) <= rounding:  # values cannot decide
                return t
            step = step * _shorter(promised, fall)
        else:
            break
        t, here = trial, there
    return t


def _free(t: FloatArray, slope: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """Return which coordinates are not pushed against their bound."""
    free: NDArray[np.bool_] = ((t > low) | (slope < 0.0)) & ((t < high) | (slope > 0.0))
    return free


def _largest(slope: FloatArray, free: NDArray[np.bool_]) -> float:
    return float(_most(np.abs(slope) * free))


def _shorter(promised: float, fall: float) -> float:
    """Return the fraction of a step at which a parabola through both ends is least, between a tenth and a half."""
    bend = -fall - promised
    return min(max(-promised / (2.0 * bend), 0.1), 0.5) if bend > 0.0 and np.isfinite(bend) else 0.1


def _step(here: Curved, free: NDArray[np.bool_], low: FloatArray, high: FloatArray) -> tuple[FloatArray, bool]:
    """Return the parabola's minimum in the box, or else a descent step; and whether H is positive definite."""
    if free.all():
        step, convex = _least_in_box(here.slope, here.bend, low, high)
    else:
        step, at = np.zeros_like(low), free.nonzero()[0]
        step[at], convex = _least_in_box(here.slope[at], here.bend[at[:, None], at], low[at], high[at])
    if here.slope @ step < 0.0:
        return step, convex
    downhill = np.where(free, -here.slope, 0.0)
    bent, size = abs(float(downhill @ here.bend @ downhill)), float(downhill @ downhill)
    return np.minimum(np.maximum(downhill * (size / bent if bent > size else 1.0), low), high), convex


def _least_in_box(slope: FloatArray, bend: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, bool]:
    """Return argmin g.s + 1/2 s.|H| s and whether H is positive definite, by Newton steps of the free coordinates.

    A step is clipped at the bounds, so that many coordinates reach them at once; if that does not decrease the
    parabola, it ends at the first bound on its way, which does. Then the coordinate that gains most is freed.
    """
    found, positive = _solved(bend, -slope)
    if ((found >= low) & (found <= high)).all():
        return found, positive is bend
    step, pushes, value = np.zeros(len(low)), slope, 0.0
    held, least = np.zeros(len(low), dtype=bool), _ENOUGH * float(_most(np.abs(slope)))
    convex = positive is bend
    beginning, bend = found if convex else _free_way(positive, pushes, held), positive
    for k in range(_GUESSES + 2 * len(low)):
        way = _free_way(bend, pushes, held) if k else beginning
        if not -float(pushes.dot(way)) > _ENOUGH * abs(value):
            gains = np.where(held, np.where(step == low, -pushes, pushes), 0.0)
            most = int(np.argmax(gains))
            if not gains[most] > least:
                break
            held[most] = False
            continue
        trial = np.minimum(np.maximum(step + way, low), high)
        bent = bend @ trial
        if value - float((slope + 0.5 * bent).dot(trial)) < -0.1 * float(pushes.dot(trial - step)):
            ahead, at = np.where(way > 0.0, high, low), way.nonzero()[0]
            room = (ahead[at] - step[at]) / way[at]
            first = int(np.argmin(room))
            trial = np.minimum(np.maximum(step + min(room[first], 1.0) * way, low), high)
            if room[first] <= 1.0:
                trial[at[first]] = ahead[at[first]]
            bent = bend @ trial
        held = (trial <= low) | (trial >= high)
        step, pushes, value = trial, slope + bent, float((slope + 0.5 * bent).dot(trial))
    return step, convex


def _free_way(bend: FloatArray, pushes: FloatArray, held: NDArray[np.bool_]) -> FloatArray:
    """Return the Newton step of the free coordinates."""
    at, way = (~held).nonzero()[0], np.zeros(len(held))
    if len(at):
        way[at] = scipy.linalg.lapack.dposv(bend[at[:, None], at], -pushes[at], lower=1)[1]
    return way


def _solved(bend: FloatArray, towards: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return H^-1 v and H, or |H|^-1 v and |H| where H is not positive definite."""
    _, found, failed = scipy.linalg.lapack.dposv(bend, towards, lower=1)
    if not failed and np.isfinite(found).all():
        return found, bend
    eigenvalues, vectors = np.linalg.eigh(bend)
    sizes = np.abs(eigenvalues)
    sizes = np.maximum(sizes, _FLAT * float(sizes.max()) + _TINY)
    return vectors @ ((towards @ vectors) / sizes), (vectors * sizes) @ vectors.T


def lbfgsb_point(
    both: Callable[[FloatArray], tuple[float, FloatArray]], start: FloatArray, bounds: list[tuple[float, float]]
) -> FloatArray:
    """Return a minimum of a function within bounds, near a start.

    Args:
        both: returns value and gradient at a point of shape (d,).
        start: shape (d,).
        bounds: d pairs.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.trust_region.minimizers import lbfgsb_point
        >>> bowl = lambda t: (float(np.sum((t - 2.0) ** 2)), 2.0 * (t - 2.0))
        >>> lbfgsb_point(bowl, np.zeros(2), [(-1.0, 1.0), (-3.0, 3.0)]).round(6)
        array([1., 2.])
    """
    known: dict[bytes, tuple[float, FloatArray]] = {}  # line searches that end in rounding repeat a fifth of all points

    def evaluated(t: FloatArray) -> tuple[float, FloatArray]:
        key = t.tobytes()
        if key not in known:
            known[key] = both(t)
        return known[key]

    def value(t: FloatArray) -> float:
        return evaluated(t)[0]

    def slope(t: FloatArray) -> FloatArray:
        return evaluated(t)[1].copy()

    found = scipy.optimize.minimize(
        value,
        start,
        jac=slope,  # `jac=True` costs as much as a surrogate
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 100, "ftol": 1e-15, "gtol": 1e-10},
    )
    return np.asarray(found.x, dtype=np.float64)
