"""A client's part of a round with a star: fewer points than dimensions.

exchange 1   ask x and x +- H u_j, H = h sqrt(d), one side each, signs alternate
             fresh_i = grad mu(x) by this star alone,  memory_i = grad mu(x) by the nearest 2 d of all own points
             in more than 1024 dimensions, U the star's directions, lambda_i the curvature it shows:
             fresh_i = sum of grad mu(x) by at most 512 arms each,
             memory_i = fresh_i + (1 - U'U) (memory_i' + lambda_i (x - x'))
             dealt: ask x +- H fresh_i / |fresh_i|; then a direction that only this client asked counts 1 / omega_i
exchange 2   two lines, -fresh and -memory as averaged, projected at the box: ask x + t v at five t of each
             not dealt: ask x +- H fresh / |fresh|
             sent are the differences to f_i(x) alone
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import LARGEST, ClientContext
from fzoos.algorithms.fzoos.control import Control, Mode
from fzoos.algorithms.fzoos.directions import Directions, star_directions
from fzoos.algorithms.fzoos.memory import Memory
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays
from fzoos.surrogates.trend import Slope, fit_slope, without_outliers

__all__ = ["HIGH", "LINE", "LOW", "PRIVATE", "StarClient", "StarNumbers", "inward", "looks_back"]

LINE = (0.25, 0.5, 1.0, 2.0, 4.0)  # where a line is asked, in units of L
_POINTS = 2  # nearest points of the surrogate with memory, over d
_TOGETHER = 512  # arms that one surrogate takes at most: it costs their square times d
_FLOOR = 1e-8  # the ridge of a star's own surrogate


def looks_back(dim: int) -> bool:
    """Whether there is a surrogate of old points: where its cost, which grows as d^3, is worth it."""
    return dim <= 2 * _TOGETHER


class StarNumbers(NamedTuple):
    """What a client sends of its star beside the gradients; the server gets the averages."""

    curvature: float = 0.0  # lambda_i, of the surrogate's trend
    common: float = 0.0  # |U_0 fresh_i|^2, of the directions that all asked
    seen: float = 0.0  # dealt: what the own pair shows, times what fresh_i predicts of it
    predicted: float = 0.0  # dealt: that prediction, squared
    variance: float = 0.0  # dealt: |fresh_i|^2 over the number of directions
    failed: float = 0.0  # 1: f_i has no value at x


LOW = StarNumbers(-LARGEST, 0.0, -LARGEST, 0.0, 0.0, 0.0)
HIGH = StarNumbers(LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, 1.0)
"""What an honest client sends lies between them."""

PRIVATE = StarNumbers()
"""Under differential privacy none of them leaves: the directions are then shared, and the radius follows the steps."""


class _Carried(NamedTuple):
    """What earlier stars have shown of the gradient, where there are too many points for a surrogate of them all."""

    gradient: FloatArray = np.zeros(0)
    x: FloatArray = np.zeros(0)
    mode: Mode | None = None

    def renewed(self, x: FloatArray, slope: Slope, directions: FloatArray, mode: Mode) -> _Carried:
        """After another star: what it shows along its own directions, and along the others what was known.

        That is carried to the new x by the mean curvature. Where directions were asked by other clients, the memories
        do not add up: it begins anew.
        """
        if mode is not self.mode:
            return _Carried(slope.gradient, x, mode)
        moved = self.gradient + slope.curvature * (x - self.x)
        return _Carried(slope.gradient + moved - (directions @ moved) @ directions, x, mode)


class StarClient:
    """Star and lines of one client.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._memory = Memory(context.trajectory)
        self._centre = math.nan  # f_i(x)
        self._had_centre = False
        self._x = np.zeros(context.dim)
        self._lines: list[FloatArray] = []  # of the last round
        self._carried = _Carried()

    def star(self, x: FloatArray, control: Control) -> Arrays:
        """Exchange 1."""
        length, directions = control.radius * math.sqrt(len(x)), star_directions(control, len(x))
        rows = np.vstack([directions.common, directions.own])
        signs, first = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)[:, None], len(self._context.trajectory)
        points, values, good = self._ask_star(np.vstack([x, x + length * signs * rows]))
        if len(directions.own):
            self._memory.keep_private(first + 1)
        self._x, self._centre = x, float(values[0])
        failed = float(self._had_centre and math.isnan(self._centre))
        self._had_centre = self._had_centre or not math.isnan(self._centre)
        if math.isnan(self._centre) or good.sum() < 2:
            if control.mode is Mode.DEALT:
                self._context.query(np.stack([x, x]), "refresh")  # what was planned is asked
            return _reply(np.zeros_like(x), np.zeros_like(x), StarNumbers(failed=failed))
        slope = _fresh(points[good], values[good] - self._centre, x)
        if looks_back(len(x)):
            memory = self._remembered(x, control)
        else:
            self._carried = self._carried.renewed(x, slope, rows, control.mode)
            memory = self._carried.gradient
        numbers = StarNumbers(slope.curvature, float(np.sum((directions.common @ slope.gradient) ** 2)))
        if control.mode is not Mode.DEALT:
            return _reply(slope.gradient, memory, numbers)
        seen, predicted = self._own_pair(x, length, slope)
        numbers = numbers._replace(
            seen=seen * predicted,
            predicted=predicted * predicted,
            variance=float(slope.gradient @ slope.gradient) / len(rows),
        )
        return _reply(
            _for_all(slope.gradient, directions, control.share),
            _for_all(memory, directions, control.share),
            numbers,
        )

    def _ask_star(self, points: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """The points, their values, and which of them are to be believed; the others are not used again."""
        trajectory, points = self._context.trajectory, self._context.project(points)
        first = len(trajectory)
        values = self._context.query(points, "refresh")
        good = np.isfinite(values)
        arms = np.flatnonzero(good[1:]) + 1
        credible = without_outliers(values[arms]) if len(arms) else np.empty(0, dtype=bool)
        index = first + np.cumsum(good) - 1  # where the trajectory has them: failed ones are left out
        if looks_back(points.shape[1]):
            self._memory.leave_out(index[arms[~credible]])
        good[arms[~credible]] = False
        return points, values, good

    def _remembered(self, x: FloatArray, control: Control) -> FloatArray:
        """The gradient by the nearest 2 d points of all rounds.

        Where directions are shared the clients differ: only what all have asked adds up to a surrogate of the mean.
        """
        trajectory = self._context.trajectory
        near = self._memory.nearest(x, _POINTS * len(x) + 1, private=control.mode is not Mode.SHARED)
        return fit_slope(trajectory.x[near], trajectory.y[near] - self._centre, x, control.ridge).gradient

    def _own_pair(self, x: FloatArray, length: float, slope: Slope) -> tuple[float, float]:
        """f_i(x + H u) - f_i(x - H u) along the own gradient: as it is, and as predicted."""
        pair, count = self._context.project(_pair(x, length, slope.gradient)), len(self._context.trajectory)
        first, second = self._context.query(pair, "refresh")
        self._memory.keep_private(count)
        if math.isnan(first) or math.isnan(second):
            return 0.0, 0.0
        return float(first - second), slope.between(pair[0], pair[1], x)

    def answer(self, x: FloatArray, control: Control, mean: Arrays) -> Arrays:
        """Exchange 2."""
        context = self._context
        if StarNumbers(*mean["star"]).failed > 0.0:  # somebody has no value here: the server goes back
            self._lines = []
            return _nothing(control)
        self._lines = [inward(-mean[name], x, context.projected) for name in ("fresh", "memory")]
        places = control.reach * np.array(LINE)
        points = [] if control.pilot else [x + places[:, None] * line for line in self._lines]
        if control.mode is not Mode.DEALT:
            points.append(_pair(x, control.radius * math.sqrt(len(x)), mean["fresh"]))
        if not np.array_equal(x, self._x):  # it missed the star
            self._x, self._centre = x, float(context.query(x[None], "active")[0])
        values = context.query(np.vstack(points), "active")
        differences, failed = values - self._centre, np.isnan(values)
        differences[failed | np.isnan(differences)] = 0.0
        if math.isnan(self._centre) and not self._had_centre:
            failed[:] = False  # it has no say at all
        count = 0 if control.pilot else len(LINE) * len(self._lines)
        sent = dict(_nothing(control))
        if count:
            sent |= {"lines": differences[:count], "failed": failed[:count].astype(np.float64)}
        if control.mode is not Mode.DEALT:
            pair = values[count] - values[count + 1]
            sent["pair"] = np.array([0.0 if math.isnan(pair) else pair])
        return sent

    def rebuilt(self, control: Control) -> FloatArray:
        """The server's x, from the one before and the move that the server tells."""
        if not control.line:
            return self._x
        if control.line > len(self._lines):
            raise MessageError(f"there was no line {control.line} in the last round")
        return self._context.project(self._x + control.length * self._lines[control.line - 1])


def inward(line: FloatArray, x: FloatArray, projected: bool) -> FloatArray:
    """The direction of length 1, without what leaves the box at once; zeros where nothing is left."""
    if projected:
        line = np.where(((x <= 0.0) & (line < 0.0)) | ((x >= 1.0) & (line > 0.0)), 0.0, line)
    largest = float(np.max(np.abs(line)))
    if largest == 0.0:
        return np.zeros_like(line)
    line = line / largest  # first, so that squares neither overflow nor vanish
    return line / float(np.sqrt(np.sum(line * line)))


def _fresh(points: FloatArray, values: FloatArray, x: FloatArray) -> Slope:
    """The gradient by a star alone: x first, then its arms.

    Arms are orthogonal, so that those of a large star are taken a part at a time: each part shows the gradient along
    its own directions, and they add up.
    """
    arms = np.arange(1, len(points))
    parts = math.ceil(len(arms) / _TOGETHER)
    centre = np.zeros(1, dtype=np.int64)
    found = []
    for k in range(parts):
        part = np.concatenate([centre, arms[k::parts]])
        found.append(fit_slope(points[part], values[part], x, _FLOOR))
    if parts == 1:
        return found[0]
    return Slope(np.sum([s.gradient for s in found], axis=0), float(np.mean([s.curvature for s in found])))


def _pair(x: FloatArray, length: float, gradient: FloatArray) -> FloatArray:
    """x + H u and x - H u, u along the gradient."""
    u = inward(gradient, x, projected=False)
    return np.stack([x + length * u, x - length * u])


def _for_all(gradient: FloatArray, directions: Directions, share: float) -> FloatArray:
    """A direction that only this client asked counts 1 / omega_i, so that the average over all has it once."""
    inside = (directions.common @ gradient) @ directions.common
    return inside + (gradient - inside) / share


def _nothing(control: Control) -> Arrays:
    """An answer of the right shape where nothing was asked."""
    count = 2 * len(LINE)
    pair = {} if control.mode is Mode.DEALT else {"pair": np.zeros(1)}
    return {"lines": np.zeros(count), "failed": np.ones(count), **pair}


def _reply(fresh: FloatArray, memory: FloatArray, numbers: StarNumbers) -> Arrays:
    return {"fresh": fresh, "memory": memory, "star": np.array(numbers)}
