"""The server half of FedLineSearch: the next x, the next design, and the step size of its lines.

step        the minimum of a parabola through the lowest t and its neighbours; the lower minimum of both lines wins
differ      G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1 over 16 directions U_0 that all query
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import LARGEST, Part, Parts, Recipient, Request, Round, ServerHalf, State
from fzoos.algorithms.line_search.client import HIGH, LINE, LOW, PRIVATE, DesignStatistics, halves, inward
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import COMMON, common_rows, design_size, next_used
from fzoos.algorithms.line_search.scales import (
    FIRST_RADIUS,
    FIRST_STEP_SIZE,
    Quality,
    Scales,
    first_size,
    is_converged,
    next_scales,
    next_size,
)
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.objectives.box import clip_to_cube
from fzoos.surrogates.trend import Slope

__all__ = ["LineSearchServer", "Step", "best_step", "differences"]

_MOST_STEP_SIZE = 4.0  # L over the cube's diagonal: longer lines meet a face
_UNBOUNDED_STEP_SIZE = 1e11  # L without a box
_SIMILAR = 0.25  # directions are split if G' < (N - 1) / 4: shared designs of several rounds add up, split ones do not
_TIE = 1e-9  # of two lines that are equal except for rounding the first is taken


class _Numbers(NamedTuple):
    """The state beside x, as one array."""

    mode: float
    basis: float = 0.0
    used: float = 0.0
    line: float = 0.0
    length: float = 0.0
    sent: float = 0.0  # whether the last participants can compute x from line and length
    careful: float = 0.0  # whether some client ever had no value at a centre


class LineSearchServer(ServerHalf):
    """State: x, the last centre at which no client failed, the numbers of `_Numbers` and `Scales`, and averages."""

    def __init__(self, dim: int, projected: bool) -> None:
        super().__init__(dim)
        self.scalars = Control
        self._projected = projected
        numbers = Part((len(LOW),), "numbers", low=LOW, high=HIGH, neutral=PRIVATE, indicators=slice(-1, None))
        self._gradients = {"fresh": Part((dim,)), "memory": Part((dim,)), "statistics": numbers}

    def start(self, x: FloatArray) -> State:
        step_size = FIRST_STEP_SIZE * FIRST_RADIUS * math.sqrt(self.dim)
        return _state(x, x, _Numbers(Mode.SHARED), Scales(step_size=step_size))

    def exchanges(self, round: int) -> tuple[Kind, ...]:
        return "refresh", "update"

    def control(self, state: State, seed: int, cut: int = 0) -> Control:
        """Return the numbers that all participants of the next round receive."""
        numbers, scales = _numbers_of(state), _scales_of(state)
        return Control(
            seed=seed,
            mode=Mode(int(numbers.mode)),
            radius=scales.radius,
            ridge=scales.ridge,
            step_size=scales.step_size,
            basis=int(numbers.basis),
            used=int(numbers.used),
            size=int(scales.size),
            probe=min(COMMON, self.dim) if scales.first else 0,
            line=int(numbers.line),
            length=numbers.length,
            cut=cut,
        )

    def request(self, state: State, kind: Kind, recipient: Recipient, round: Round) -> Request:
        """Send x to who cannot compute it, exactly if others can; in the second exchange the averages of the first."""
        computed = bool(_numbers_of(state).sent)
        has_x = recipient.in_round if kind == "update" else computed and recipient.in_last_round
        averages = {name: state[name] for name in self._gradients if name in state} if kind == "update" else {}
        x = {} if has_x else {"x": state["x"]}
        return Request({**x, **averages}, self._scalars(state, recipient, round), exact=computed and not has_x)

    def _scalars(self, state: State, recipient: Recipient, round: Round) -> dict[str, float]:
        """Return the numbers for one client; for a single one there is nothing to split."""
        shared, participants = self.control(state, round.seed, round.cut).scalars(), len(round.weights)
        if participants == 1:
            return {**shared, "mode": Mode.SHARED}
        return {**shared, "client_index": recipient.position, "participants": participants, "weight": recipient.weight}

    def reported_x(self, state: State) -> FloatArray:
        """Return x; once a client had no value at a centre, the last one at which all had one."""
        return state["good"] if _numbers_of(state).careful else state["x"]

    def moved(self, state: State, before: FloatArray) -> float:
        """Return how far x has moved, or the design's radius if no point on the lines was better.

        Unless that shows that x is a minimum, the next round queries elsewhere.
        """
        numbers, scales = _numbers_of(state), _scales_of(state)
        searched = 0.0 if numbers.line or is_converged(scales, self.dim) else scales.radius
        return max(super().moved(state, before), searched)

    def reply_parts(self, request: Message) -> Parts:
        if request.kind == "refresh":
            return self._gradients
        return _LINES if Control.of(request.scalars).mode is Mode.SPLIT else {"pair": _PAIR, **_LINES}

    def request_parts(self, request: Message) -> Parts:
        x = {"x": Part((self.dim,))} if "x" in request.arrays else {}
        return {**x, **(self._gradients if request.kind == "update" else {})}

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        if kind == "refresh":
            x = state["x"] if round.received_x is None else round.received_x
            return {**state, "x": x, **mean}
        mode = Mode.SHARED if "pair" in mean else Mode.SPLIT  # as it was sent
        control = replace(self.control(state, round.seed, round.cut), mode=mode)
        return self._after_lines(state, {**state, **mean}, control, len(round.replied))

    def _after_lines(self, state: State, mean: Arrays, control: Control, participants: int) -> State:
        x, statistics, scales = state["x"], DesignStatistics(*mean["statistics"]), _scales_of(state)
        if statistics.failed > 0.0:  # return to where all had a value, with shorter lines
            shorter = scales._replace(step_size=scales.step_size * LINE[0])
            again = self._next(control, control.mode)._replace(careful=1.0)
            return _state(state["good"], state["good"], again, shorter)
        slope = Slope(mean["fresh"], statistics.curvature)
        common = common_rows(control, self.dim)
        differ = differences(statistics.common, float(np.sum((common @ slope.gradient) ** 2)))
        mode = Mode.SPLIT if differ < _SIMILAR * (participants - 1) else Mode.SHARED
        too_different = control.mode is Mode.SPLIT and mode is Mode.SHARED
        shape = (2, len(LINE))
        step = best_step(mean["lines"].reshape(shape), mean["failed"].reshape(shape), scales.step_size)
        if control.probe:  # a few directions of many would push x into a corner
            step = Step(0, 0.0)
        there = x
        if step.line:
            there = x + step.length * inward(-mean[("fresh", "memory")[step.line - 1]], x, self._projected)
            there = clip_to_cube(there) if self._projected else there
        now = self._quality(x, mean, slope, control)
        moved = float(np.sqrt(np.mean((there - x) ** 2)))
        after = next_scales(scales, now, statistics.curvature, step.length, moved, self.dim)
        if too_different:  # the measurement shows only how much they differ
            after = scales._replace(step_size=step.length or scales.step_size)
        if control.probe:
            after = after._replace(step_size=scales.step_size)
        if now is not None:
            after = self._sized(after, now, slope, step, control, mode, participants)
        # One site can claim in every round that the farthest point is the lowest: L would leave its range.
        most = _MOST_STEP_SIZE * math.sqrt(self.dim) if self._projected else _UNBOUNDED_STEP_SIZE
        after = after._replace(step_size=min(after.step_size, most))
        careful = _numbers_of(state).careful
        numbers = self._next(control, mode)._replace(line=step.line, length=step.length, sent=1.0, careful=careful)
        return _state(there, x, numbers, after)

    def _quality(self, x: FloatArray, mean: Arrays, slope: Slope, control: Control) -> Quality | None:
        """Return q by the pairs that all queried, or by least squares over the clients' own; None if not sent."""
        statistics, length = DesignStatistics(*mean["statistics"]), control.radius * math.sqrt(self.dim)
        if control.mode is Mode.SPLIT:
            pairs = (
                (statistics.wide_seen, statistics.wide_predicted),
                (statistics.narrow_seen, statistics.narrow_predicted),
            )
            wide, narrow = (_ratio(seen, predicted) for seen, predicted in pairs)
            count = design_size(control, self.dim)
            return Quality(length, count, wide, narrow, statistics.wide_square, statistics.narrow_square)
        if statistics.curvature == 0.0 and not np.any(mean["pair"]) and np.any(slope.gradient):
            return None
        rows, qualities, squares = common_rows(control, self.dim), [], []
        for k, part in enumerate(halves(rows, slope.gradient)):
            v = inward(part, x, projected=False)
            ends = [x + sign * length * v for sign in (1.0, -1.0)]
            first, second = (clip_to_cube(p) if self._projected else p for p in ends)
            qualities.append(_ratio(float(mean["pair"][k]), slope.between(first, second, x)))
            squares.append(float(part @ part) / max(1, len(rows[k::2])))
        return Quality(length, len(rows), *qualities, *squares)

    def _sized(
        self, after: Scales, now: Quality, slope: Slope, step: Step, control: Control, mode: Mode, participants: int
    ) -> Scales:
        """Return the scales with the number of directions of the next design."""
        if control.probe:
            return first_size(after, mode, participants, self.dim)
        along = now.overall * float(np.sqrt(slope.gradient @ slope.gradient))
        return next_size(after, now, along, step.first, slope.curvature, mode, participants, self.dim)

    def _next(self, control: Control, mode: Mode) -> _Numbers:
        """Return the next round's directions: the rest of a basis, or a new one."""
        used = next_used(control, self.dim)
        rest = mode is control.mode and used < self.dim
        return _Numbers(mode, control.basis + (not rest), used if rest else 0)


def _numbers_of(state: State) -> _Numbers:
    return _Numbers(*state["numbers"].tolist())


def _scales_of(state: State) -> Scales:
    return Scales(*state["scales"].tolist())


def _ratio(seen: float, predicted: float) -> float:
    """Return q, the difference over its prediction, in [0, 1]."""
    return min(max(seen / predicted, 0.0), 1.0) if predicted != 0.0 else 0.0


def _state(x: FloatArray, good: FloatArray, numbers: _Numbers, scales: Scales) -> State:
    return {"x": x, "good": good, "numbers": np.array(numbers), "scales": np.array(scales)}


def _numbers(low: float, high: float, count: int, indicators: slice | None = None) -> Part:
    return Part(
        (count,), "numbers", low=(low,) * count, high=(high,) * count, neutral=(0.0,) * count, indicators=indicators
    )


_COUNT = 2 * len(LINE)
_PAIR = _numbers(-LARGEST, LARGEST, 2)
_LINES = {"lines": Part((_COUNT,)), "failed": _numbers(0.0, 1.0, _COUNT, slice(None))}


class Step(NamedTuple):
    """A move: the line (1 or 2; 0: none), the length, and where the first line is lowest."""

    line: int
    length: float
    first: float = 0.0


def best_step(values: FloatArray, failed: FloatArray, step_size: float) -> Step:
    """Return the line with the lowest predicted value of F, and where on it.

    `values` are F(x + t v) - F(x), shape (2, 3); places where a client had no value (`failed` > 0) are left out.
    """
    best, found, first = 0.0, Step(0, 0.0), 0.0
    for k, (row, missing) in enumerate(zip(values.tolist(), failed.tolist(), strict=True)):
        there = [j for j, weight in enumerate(missing) if weight == 0.0]
        promise, place = _lowest([0.0, *(step_size * LINE[j] for j in there)], [0.0, *(row[j] for j in there)])
        if k == 0:
            first = place or 0.5 * step_size * LINE[0]  # before the nearest place
        if promise < best - _TIE * abs(best):
            best, found = promise, Step(k + 1, place)
    return found._replace(first=first)


def _lowest(places: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return value and place of the minimum of the parabola through the lowest value and its neighbours."""
    low, last = values.index(min(values)), len(places) - 1
    if last < 2 or low == last or not places[-1] > 0.0:
        return values[low], places[low]
    left = max(0, min(low - 1, last - 2))
    t, f = [place / places[-1] for place in places[left : left + 3]], values[left : left + 3]
    first, second = (f[1] - f[0]) / (t[1] - t[0]), (f[2] - f[1]) / (t[2] - t[1])
    bend = (second - first) / (t[2] - t[0])
    if not bend > 0.0:
        return values[low], places[low]
    vertex = 0.5 * (t[0] + t[1]) - 0.5 * first / bend
    vertex = min(max(vertex, places[max(low - 1, 0)] / places[-1]), places[low + 1] / places[-1])
    value = f[0] + first * (vertex - t[0]) + bend * (vertex - t[0]) * (vertex - t[1])
    return value, vertex * places[-1]


def differences(common: float, mean: float) -> float:
    """Return G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1; infinite if `common` is left out."""
    return max(common - mean, 0.0) / mean if mean > 0.0 and common > 0.0 else math.inf
