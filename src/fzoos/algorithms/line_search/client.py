"""A client's part of a round with a star: fewer points than dimensions.

exchange 1   ask x and x +- t H u_j, H = h sqrt(d), one side each, t^2 = 3/2 and 2/3 by turns: wide and narrow arms
             fresh_i = grad mu(x) by this star alone, wide and narrow arms apart, at most 512 at a time: they add up
             memory_i = grad mu(x) by the nearest 2 d of all own points
             in more than 1024 dimensions, U the star's directions, lambda_i the curvature it shows:
             memory_i = fresh_i + (1 - U'U) (memory_i' + lambda_i (x - x'))
             dealt: ask x +- H v for the wide and the narrow part v of fresh_i / |fresh_i|; then a direction that
             only this client asked counts 1 / omega_i
exchange 2   two lines, -fresh and -memory as averaged, projected at the box: ask x + t v at three t of each
             not dealt: ask x +- H v for both parts v of fresh / |fresh|
             sent are the differences to f_i(x) alone
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.heap import retain_freed_memory
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import LARGEST, ClientContext, ClientHalf
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import common_rows, star_rows
from fzoos.algorithms.line_search.memory import Memory
from fzoos.algorithms.line_search.star_points import TOGETHER, StarPoints
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.surrogates.cached_kernel import CachedKernel
from fzoos.surrogates.trend import Slope, credible_values, fit_slope

__all__ = ["HIGH", "LINE", "LOW", "PRIVATE", "StarClient", "StarNumbers", "halves", "inward", "looks_back"]

LINE = (0.3, 1.0, 3.0)  # where a line is asked, in units of L
_POINTS = 2  # nearest points of the surrogate with memory, over d
_KEPT = 256  # dimensions from which on it is worth while to keep its kernel from round to round


def looks_back(dim: int) -> bool:
    """Whether there is a surrogate of old points: where its cost, which grows as d^3, is worth it."""
    return dim <= 2 * TOGETHER


class StarNumbers(NamedTuple):
    """What a client sends of its star beside the gradients; the server gets the averages."""

    curvature: float = 0.0  # lambda_i, of the surrogate's trend
    common: float = 0.0  # |U_0 fresh_i|^2, of the directions that all asked
    wide_seen: float = 0.0  # dealt: what the own pair along the wide part shows, times what fresh_i predicts
    wide_predicted: float = 0.0  # dealt: that prediction, squared
    wide_square: float = 0.0  # dealt: the mean square of the wide arms' slopes
    narrow_seen: float = 0.0
    narrow_predicted: float = 0.0
    narrow_square: float = 0.0
    failed: float = 0.0  # 1: f_i has no value at x


LOW = StarNumbers(-LARGEST, 0.0, -LARGEST, 0.0, 0.0, -LARGEST, 0.0, 0.0, 0.0)
HIGH = StarNumbers(LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, 1.0)
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


class StarClient(ClientHalf):
    """Star and lines of one client.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._context = context
        if looks_back(context.dim):
            context.trajectory.store_points()
        self._memory, self._kernel = Memory(context.trajectory), CachedKernel()
        self._round = -1  # of the last star
        self._centre = math.nan  # f_i(x)
        self._had_centre = False
        self._x = np.zeros(context.dim)
        self._lines: list[FloatArray] = []  # of the last round
        self._carried = _Carried()

    def reply(self, x: FloatArray, request: Message) -> Arrays:
        return self.refresh(x, request) if request.kind == "refresh" else self.update(x, request)

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Exchange 1: the star."""
        control, round = Control.of(request.scalars), request.round
        if round != self._round + 1:  # a client that slept has given its kernel back, and must compute as if it had
            self._kernel.release()
        self._round = round
        retain_freed_memory()
        length, (rows, common) = control.radius * math.sqrt(len(x)), star_rows(control, len(x))
        first = len(self._context.trajectory)
        points, values, good = self._ask_star(x, length, rows)
        if len(rows) > common:
            self._memory.keep_private(first + 1)
        again = np.array_equal(x, self._x)
        self._x, self._centre = x, float(values[0])
        # What fails where the last round began as well does so wherever x goes back to: it has no say until it works.
        self._had_centre = not math.isnan(self._centre) or (self._had_centre and not again)
        failed = float(self._had_centre and math.isnan(self._centre))
        if math.isnan(self._centre) or good.sum() < 2:
            if control.mode is Mode.DEALT:
                self._context.query(np.stack([x] * 4), "refresh")  # what was planned is asked
            return _reply(np.zeros_like(x), np.zeros_like(x), StarNumbers(failed=failed))
        slope = points.slope(values - self._centre, good)
        if looks_back(len(x)):
            memory = self._remembered(x, control)
        else:
            self._carried = self._carried.renewed(x, slope, rows, control.mode)
            memory = self._carried.gradient
        numbers = StarNumbers(slope.curvature, float(np.sum((rows[:common] @ slope.gradient) ** 2)))
        if control.mode is not Mode.DEALT:
            return _reply(slope.gradient, memory, numbers)
        numbers = numbers._replace(**self._own_pairs(x, length, slope, rows))
        return _reply(
            _for_all(slope.gradient, rows[:common], control.share),
            _for_all(memory, rows[:common], control.share),
            numbers,
        )

    def _ask_star(
        self, x: FloatArray, length: float, rows: FloatArray
    ) -> tuple[StarPoints, FloatArray, NDArray[np.bool_]]:
        """The points, their values, and which of them are to be believed; the others are not used again."""
        trajectory, points = self._context.trajectory, StarPoints(x, length, rows, self._context.project)
        first = len(trajectory)
        values = self._context.query_inside(points.asked, "refresh", at_server_x=True)
        good = np.isfinite(values)
        if len(values) > 1 and good.all() and credible_values(values[1:]).all():
            return points, values, good
        arms = np.flatnonzero(good[1:]) + 1
        credible = credible_values(values[arms]) if len(arms) else np.empty(0, dtype=bool)
        index = first + np.cumsum(good) - 1  # where the trajectory has them: failed ones are left out
        if looks_back(len(x)):
            self._memory.leave_out(index[arms[~credible]])
        good[arms[~credible]] = False
        return points, values, good

    def _remembered(self, x: FloatArray, control: Control) -> FloatArray:
        """The gradient by the nearest 2 d points of all rounds.

        Where directions are shared the clients differ: only what all have asked adds up to a surrogate of the mean.
        """
        trajectory = self._context.trajectory
        kept, private = len(x) >= _KEPT, control.mode is not Mode.SHARED
        near = self._memory.around(
            x, _POINTS * len(x) + 1, private=private, arranged=self._kernel.order if kept else None
        )
        values, kernel = trajectory.y[near.numbers] - self._centre, self._kernel.kernel(*near) if kept else None
        return fit_slope(near.offsets, values, control.ridge, near.squares, kernel).gradient

    def rest(self) -> None:
        """Give the kernel back."""
        self._kernel.release()

    def _own_pairs(self, x: FloatArray, length: float, slope: Slope, rows: FloatArray) -> dict[str, float]:
        """f_i(x + H v) - f_i(x - H v) along both parts of the own gradient: as it is, and as predicted."""
        parts, count = halves(rows, slope.gradient), len(self._context.trajectory)
        pairs = self._context.project(_pairs(x, length, parts))
        values = self._context.query_inside(pairs, "refresh")
        self._memory.keep_private(count)
        found = {}
        for k, (name, part) in enumerate(zip(("wide", "narrow"), parts, strict=True)):
            seen = float(values[2 * k] - values[2 * k + 1])
            predicted = 0.0 if math.isnan(seen) else slope.between(pairs[2 * k], pairs[2 * k + 1], x)
            found[f"{name}_seen"] = 0.0 if math.isnan(seen) else seen * predicted
            found[f"{name}_predicted"] = predicted * predicted
            found[f"{name}_square"] = float(part @ part) / max(1, len(rows[k::2]))
        return found

    def update(self, x: FloatArray, request: Message) -> Arrays:
        """Exchange 2: the lines."""
        control, mean = Control.of(request.scalars), request.arrays
        context = self._context
        if StarNumbers(*mean["star"]).failed > 0.0:  # somebody has no value here: the server goes back
            self._lines = []
            return _nothing(control)
        self._lines = [inward(-mean[name], x, context.projected) for name in ("fresh", "memory")]
        places = control.reach * np.array(LINE)
        points = [] if control.pilot else [x + places[:, None] * line for line in self._lines]
        if control.mode is not Mode.DEALT:
            parts = halves(common_rows(control, len(x)), mean["fresh"])
            points.append(_pairs(x, control.radius * math.sqrt(len(x)), parts))
        if "x" in request.arrays:  # it missed the star
            self._x, self._centre = x, float(context.query(x[None], "active", at_server_x=True)[0])
        asked = np.concatenate(points)
        values = context.query_inside(context.project(asked, asked), "active")
        differences, failed = values - self._centre, np.isnan(values)
        differences[failed | np.isnan(differences)] = 0.0
        if math.isnan(self._centre) and not self._had_centre:
            failed[:] = False  # it has no say at all
        count = 0 if control.pilot else len(LINE) * len(self._lines)
        sent = dict(_nothing(control))
        if count:
            sent |= {"lines": differences[:count], "failed": failed[:count].astype(np.float64)}
        if control.mode is not Mode.DEALT:
            pairs = values[count::2] - values[count + 1 :: 2]
            sent["pair"] = np.where(np.isnan(pairs), 0.0, pairs)
        return sent

    def compute_x(self, request: Message) -> FloatArray:
        """Return the server's x, from the one before and the move that the server sends."""
        r = request.round
        if request.kind != "refresh" or self._located is None or self._located_round != r - 1:
            raise MessageError(f"a {request.kind} of round {r} without x, and no round before it to compute it from")
        control = Control.of(request.scalars)
        if not control.line:
            return self._x
        if control.line > len(self._lines):
            raise MessageError(f"there was no line {control.line} in the last round")
        return self._context.project(self._x + control.length * self._lines[control.line - 1])

    def state(self) -> StateDict:
        own = {"round": self._round, "value": self._centre, "had_value": self._had_centre, "x": self._x}
        lines, (gradient, x, mode) = np.reshape(self._lines, (-1, self._context.dim)), self._carried
        carried = {} if mode is None else {"gradient": gradient, "gradient_x": x, "gradient_mode": int(mode)}
        parts = {**prefixed("memory", self._memory.state()), **prefixed("cache", self._kernel.state())}
        return {**super().state(), **own, "lines": lines, **carried, **parts}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self._round, self._centre, self._had_centre = state["round"], float(state["value"]), bool(state["had_value"])
        self._x, self._lines = state["x"], list(state["lines"])
        self._carried = _Carried()
        if "gradient" in state:
            self._carried = _Carried(state["gradient"], state["gradient_x"], Mode(state["gradient_mode"]))
        self._memory.restore(part_of("memory", state))
        self._kernel.restore(part_of("cache", state))


def inward(line: FloatArray, x: FloatArray, projected: bool) -> FloatArray:
    """The direction of length 1, without what leaves the box at once; zeros where nothing is left."""
    if projected:
        line = np.where(((x <= 0.0) & (line < 0.0)) | ((x >= 1.0) & (line > 0.0)), 0.0, line)
    largest = float(np.maximum.reduce(np.abs(line)))
    if largest == 0.0:
        return np.zeros_like(line)
    line = line / largest  # first, so that squares neither overflow nor vanish
    line /= math.sqrt(np.add.reduce(line * line))
    return line


def halves(rows: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What the wide arms of a star say of the gradient, and what the narrow ones say."""
    wide, narrow = rows[0::2], rows[1::2]
    return (wide @ gradient) @ wide, (narrow @ gradient) @ narrow


def _pairs(x: FloatArray, length: float, gradients: Sequence[FloatArray]) -> FloatArray:
    """x + H u and x - H u for u along each of these."""
    found = np.empty((2 * len(gradients), len(x)))
    for k, gradient in enumerate(gradients):
        arm = length * inward(gradient, x, projected=False)
        np.add(x, arm, out=found[2 * k])
        np.subtract(x, arm, out=found[2 * k + 1])
    return found


def _for_all(gradient: FloatArray, common: FloatArray, share: float) -> FloatArray:
    """A direction that only this client asked counts 1 / omega_i, so that the average over all has it once."""
    inside = (common @ gradient) @ common
    return inside + (gradient - inside) / share


def _nothing(control: Control) -> Arrays:
    """An answer of the right shape where nothing was asked."""
    count = 2 * len(LINE)
    pair = {} if control.mode is Mode.DEALT else {"pair": np.zeros(2)}
    return {"lines": np.zeros(count), "failed": np.ones(count), **pair}


def _reply(fresh: FloatArray, memory: FloatArray, numbers: StarNumbers) -> Arrays:
    return {"fresh": fresh, "memory": memory, "star": np.array(numbers)}
