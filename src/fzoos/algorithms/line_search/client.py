"""The client half of FedLineSearch: a round has a design with fewer points than dimensions, and a search along lines.

exchange 1   query x and x +- t H u_j, H = h sqrt(d), one side each, t^2 = 3/2 and 2/3 in turn: wide and narrow points
             fresh_i = grad mu(x) by this design, wide and narrow points apart, at most 512 in a part: the parts add up
             memory_i = grad mu(x) by the nearest 2 d of all own points
             in more than 1024 dimensions, U the design's directions, lambda_i the curvature that it gives:
             memory_i = fresh_i + (1 - U'U) (memory_i' + lambda_i (x - x'))
             split: query x +- H v for the wide and the narrow part v of fresh_i / |fresh_i|; a direction that only
             this client queried is then weighted by 1 / omega_i
exchange 2   two lines, -fresh and -memory as averaged, projected at the box: query x + t v at three t of each
             shared: query x +- H v for both parts v of fresh / |fresh|
             only the differences to f_i(x) are sent
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import retain_freed_memory
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import LARGEST, ClientContext, ClientHalf
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.design import MOST_POINTS, Design
from fzoos.algorithms.line_search.directions import common_rows, design_rows
from fzoos.algorithms.line_search.memory import Memory
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.surrogates.cached_kernel import CachedKernel
from fzoos.surrogates.trend import Slope, credible_values, fit_slope

__all__ = ["HIGH", "LINE", "LOW", "PRIVATE", "DesignStatistics", "LineSearchClient", "halves", "inward", "uses_memory"]

LINE = (0.3, 1.0, 3.0)  # where a line is queried, in units of L
_POINTS = 2  # the number of points in the surrogate of all rounds, over d
_CACHED = 256  # the dimension from which on its kernel is cached


def uses_memory(dim: int) -> bool:
    """Return whether there is a surrogate of all rounds; its cost grows as d^3."""
    return dim <= 2 * MOST_POINTS


class DesignStatistics(NamedTuple):
    """What a client sends about its design beside the gradients; the server receives the averages."""

    curvature: float = 0.0  # lambda_i, of the surrogate's trend
    common: float = 0.0  # |U_0 fresh_i|^2, by the directions that all clients query
    wide_seen: float = 0.0  # split: the difference of the own pair along the wide part times its prediction
    wide_predicted: float = 0.0  # split: the prediction, squared
    wide_square: float = 0.0  # split: the mean square of the slopes of wide points
    narrow_seen: float = 0.0
    narrow_predicted: float = 0.0
    narrow_square: float = 0.0
    failed: float = 0.0  # 1: f_i has no value at x


LOW = DesignStatistics(-LARGEST, 0.0, -LARGEST, 0.0, 0.0, -LARGEST, 0.0, 0.0, 0.0)
HIGH = DesignStatistics(LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, LARGEST, 1.0)
"""The range of what an honest client sends."""

PRIVATE = DesignStatistics()
"""What is sent under differential privacy: directions are then shared, and the radius follows the steps."""


class _CarriedGradient(NamedTuple):
    """The gradient by earlier designs, if there are too many points for a surrogate of all of them."""

    gradient: FloatArray = np.zeros(0)
    x: FloatArray = np.zeros(0)
    mode: Mode | None = None

    def updated(self, x: FloatArray, slope: Slope, directions: FloatArray, mode: Mode) -> _CarriedGradient:
        """Return the new gradient along the directions of another design, and along others the earlier one.

        The earlier one is carried to the new x by the mean curvature. If the mode has changed, the clients' memories do
        not add up, and the new gradient is all there is.
        """
        if mode is not self.mode:
            return _CarriedGradient(slope.gradient, x, mode)
        moved = self.gradient + slope.curvature * (x - self.x)
        return _CarriedGradient(slope.gradient + moved - (directions @ moved) @ directions, x, mode)


class LineSearchClient(ClientHalf):
    """The client half of FedLineSearch."""

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._context = context
        if uses_memory(context.dim):
            context.trajectory.store_points()
        self._memory, self._kernel = Memory(context.trajectory), CachedKernel()
        self._round = -1  # of the last design
        self._centre = math.nan  # f_i(x)
        self._had_centre = False
        self._x = np.zeros(context.dim)
        self._lines: list[FloatArray] = []  # of the last round
        self._carried = _CarriedGradient()

    def reply(self, x: FloatArray, request: Message) -> Arrays:
        return self.refresh(x, request) if request.kind == "refresh" else self.update(x, request)

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Answer exchange 1: the design."""
        control, round = Control.of(request.scalars), request.round
        if round != self._round + 1:  # idle clients may have released their kernel: all compute without it
            self._kernel.release()
        self._round = round
        retain_freed_memory()
        length, (rows, common) = control.radius * math.sqrt(len(x)), design_rows(control, len(x))
        first = len(self._context.trajectory)
        points, values, good = self._query_design(x, length, rows)
        if len(rows) > common:
            self._memory.mark_private(first + 1)
        again = np.array_equal(x, self._x)
        self._x, self._centre = x, float(values[0])
        # A failure at the x of the last round would recur at every x to return to: no complaint until it works.
        self._had_centre = not math.isnan(self._centre) or (self._had_centre and not again)
        failed = float(self._had_centre and math.isnan(self._centre))
        if math.isnan(self._centre) or good.sum() < 2:
            if control.mode is Mode.SPLIT:
                self._context.query(np.stack([x] * 4), "refresh")  # the planned number
            return _reply(np.zeros_like(x), np.zeros_like(x), DesignStatistics(failed=failed))
        slope = points.slope(values - self._centre, good)
        if uses_memory(len(x)):
            memory = self._memory_gradient(x, control)
        else:
            self._carried = self._carried.updated(x, slope, rows, control.mode)
            memory = self._carried.gradient
        numbers = DesignStatistics(slope.curvature, float(np.sum((rows[:common] @ slope.gradient) ** 2)))
        if control.mode is not Mode.SPLIT:
            return _reply(slope.gradient, memory, numbers)
        numbers = numbers._replace(**self._own_pairs(x, length, slope, rows))
        return _reply(
            _reweighted(slope.gradient, rows[:common], control.weight),
            _reweighted(memory, rows[:common], control.weight),
            numbers,
        )

    def _query_design(
        self, x: FloatArray, length: float, rows: FloatArray
    ) -> tuple[Design, FloatArray, NDArray[np.bool_]]:
        """Return the points, their values, and which are credible; the others are never used."""
        trajectory, points = self._context.trajectory, Design(x, length, rows, self._context.project)
        first = len(trajectory)
        values = self._context.query_inside(points.points, "refresh", at_server_x=True)
        good = np.isfinite(values)
        if len(values) > 1 and good.all() and credible_values(values[1:]).all():
            return points, values, good
        valued = np.flatnonzero(good[1:]) + 1
        credible = credible_values(values[valued]) if len(valued) else np.empty(0, dtype=bool)
        index = first + np.cumsum(good) - 1  # in the trajectory, which has no failed points
        if uses_memory(len(x)):
            self._memory.exclude(index[valued[~credible]])
        good[valued[~credible]] = False
        return points, values, good

    def _memory_gradient(self, x: FloatArray, control: Control) -> FloatArray:
        """Return the gradient by the nearest 2 d points of all rounds.

        With shared directions only points that all clients have queried add up to a surrogate of the mean.
        """
        trajectory = self._context.trajectory
        cached, private = len(x) >= _CACHED, control.mode is not Mode.SHARED
        near = self._memory.nearest(
            x, _POINTS * len(x) + 1, private=private, arranged=self._kernel.order if cached else None
        )
        values, kernel = trajectory.y[near.numbers] - self._centre, self._kernel.kernel(*near) if cached else None
        return fit_slope(near.offsets, values, control.ridge, near.squares, kernel).gradient

    def release(self) -> None:
        self._kernel.release()

    def _own_pairs(self, x: FloatArray, length: float, slope: Slope, rows: FloatArray) -> dict[str, float]:
        """Return f_i(x + H v) - f_i(x - H v) along both parts of the own gradient, with predictions."""
        parts, count = halves(rows, slope.gradient), len(self._context.trajectory)
        pairs = self._context.project(_pairs(x, length, parts))
        values = self._context.query_inside(pairs, "refresh")
        self._memory.mark_private(count)
        found = {}
        for k, (name, part) in enumerate(zip(("wide", "narrow"), parts, strict=True)):
            seen = float(values[2 * k] - values[2 * k + 1])
            predicted = 0.0 if math.isnan(seen) else slope.between(pairs[2 * k], pairs[2 * k + 1], x)
            found[f"{name}_seen"] = 0.0 if math.isnan(seen) else seen * predicted
            found[f"{name}_predicted"] = predicted * predicted
            found[f"{name}_square"] = float(part @ part) / max(1, len(rows[k::2]))
        return found

    def update(self, x: FloatArray, request: Message) -> Arrays:
        """Answer exchange 2: the lines."""
        control, mean = Control.of(request.scalars), request.arrays
        context = self._context
        if DesignStatistics(*mean["statistics"]).failed > 0.0:  # some client has no value at x: the server returns
            self._lines = []
            return _empty_reply(control)
        self._lines = [inward(-mean[name], x, context.projected) for name in ("fresh", "memory")]
        places = control.step_size * np.array(LINE)
        points = [] if control.probe else [x + places[:, None] * line for line in self._lines]
        if control.mode is not Mode.SPLIT:
            parts = halves(common_rows(control, len(x)), mean["fresh"])
            points.append(_pairs(x, control.radius * math.sqrt(len(x)), parts))
        if "x" in request.arrays:  # it missed the design
            self._x, self._centre = x, float(context.query(x[None], "active", at_server_x=True)[0])
        queried = np.concatenate(points)
        values = context.query_inside(context.project(queried, queried), "active")
        differences, failed = values - self._centre, np.isnan(values)
        differences[failed | np.isnan(differences)] = 0.0
        if math.isnan(self._centre) and not self._had_centre:
            failed[:] = False  # it has no say
        count = 0 if control.probe else len(LINE) * len(self._lines)
        sent = dict(_empty_reply(control))
        if count:
            sent |= {"lines": differences[:count], "failed": failed[:count].astype(np.float64)}
        if control.mode is not Mode.SPLIT:
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
        self._carried = _CarriedGradient()
        if "gradient" in state:
            self._carried = _CarriedGradient(state["gradient"], state["gradient_x"], Mode(state["gradient_mode"]))
        self._memory.restore(part_of("memory", state))
        self._kernel.restore(part_of("cache", state))


def inward(line: FloatArray, x: FloatArray, projected: bool) -> FloatArray:
    """Return the direction with length 1, without components that leave the box; zeros if nothing is left."""
    if projected:
        line = np.where(((x <= 0.0) & (line < 0.0)) | ((x >= 1.0) & (line > 0.0)), 0.0, line)
    largest = float(np.maximum.reduce(np.abs(line)))
    if largest == 0.0:
        return np.zeros_like(line)
    line = line / largest  # first, so that squares neither overflow nor vanish
    line /= math.sqrt(np.add.reduce(line * line))
    return line


def halves(rows: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the parts of a gradient along the directions of wide and of narrow points."""
    wide, narrow = rows[0::2], rows[1::2]
    return (wide @ gradient) @ wide, (narrow @ gradient) @ narrow


def _pairs(x: FloatArray, length: float, gradients: Sequence[FloatArray]) -> FloatArray:
    """Return x + H u and x - H u for u along each gradient."""
    found = np.empty((2 * len(gradients), len(x)))
    for k, gradient in enumerate(gradients):
        offset = length * inward(gradient, x, projected=False)
        np.add(x, offset, out=found[2 * k])
        np.subtract(x, offset, out=found[2 * k + 1])
    return found


def _reweighted(gradient: FloatArray, common: FloatArray, weight: float) -> FloatArray:
    """Weight directions that only this client queried by 1 / omega_i, so that the average has them once."""
    inside = (common @ gradient) @ common
    return inside + (gradient - inside) / weight


def _empty_reply(control: Control) -> Arrays:
    """Return a reply of the right shape without queries."""
    count = 2 * len(LINE)
    pair = {} if control.mode is Mode.SPLIT else {"pair": np.zeros(2)}
    return {"lines": np.zeros(count), "failed": np.ones(count), **pair}


def _reply(fresh: FloatArray, memory: FloatArray, numbers: DesignStatistics) -> Arrays:
    return {"fresh": fresh, "memory": memory, "statistics": np.array(numbers)}
