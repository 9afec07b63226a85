"""The server half of the line search: where the next round begins, and how wide it looks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import LARGEST, Part, Parts, Recipient, Request, Round, ServerHalf, State
from fzoos.algorithms.line_search.client import HIGH, LINE, LOW, PRIVATE, StarNumbers, halves, inward
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import COMMON, common_rows, next_used, star_size
from fzoos.algorithms.line_search.lines import Step, best_step, differences
from fzoos.algorithms.line_search.scales import (
    FIRST_RADIUS,
    FIRST_REACH,
    Quality,
    Scales,
    first_size,
    next_scales,
    next_size,
    resting,
)
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.objectives.box import clip_to_cube
from fzoos.surrogates.trend import Slope

__all__ = ["StarServer"]

_MOST_REACH = 4.0  # L over the cube's diagonal: by then a line has met a face
_ANY_REACH = 1e11  # L where there are no faces
_ALIKE = 0.25  # directions are dealt while G' < (N - 1) / 4: shared stars of several rounds add up, dealt ones do not


class _Numbers(NamedTuple):
    """The state beside x, as one array."""

    mode: float
    sweep: float = 0.0
    used: float = 0.0
    line: float = 0.0
    length: float = 0.0
    sent: float = 0.0  # whether the last participants can compute x from line and length
    careful: float = 0.0  # whether somebody has had no value at a centre


class StarServer(ServerHalf):
    """State: x, the last centre at which nobody failed, the numbers of `_Numbers` and `Scales`, and averages.

    Args:
        dim: d, the number of variables.
        projected: whether x is clipped to the cube.
    """

    def __init__(self, dim: int, projected: bool) -> None:
        super().__init__(dim)
        self.scalars = Control
        self._dim, self._projected = dim, projected
        numbers = Part((len(LOW),), "numbers", low=LOW, high=HIGH, neutral=PRIVATE, indicators=slice(-1, None))
        self._gradients = {"fresh": Part((dim,)), "memory": Part((dim,)), "star": numbers}

    def start(self, x: FloatArray) -> State:
        reach = FIRST_REACH * FIRST_RADIUS * math.sqrt(self._dim)
        return _state(x, x, _Numbers(Mode.SHARED), Scales(reach=reach))

    def exchanges(self, round: int) -> tuple[Kind, ...]:
        return "refresh", "update"

    def control(self, state: State, seed: int, cut: int = 0) -> Control:
        """Return the numbers that all participants of the next round receive."""
        return self._shared(state, seed, cut)[0]

    def _shared(self, state: State, seed: int, cut: int) -> tuple[Control, Mapping[str, float]]:
        return _control_of(
            _Numbers(*state["numbers"].tolist()), Scales(*state["scales"].tolist()), cut, seed, self._dim
        )

    def request(self, state: State, kind: Kind, recipient: Recipient, round: Round) -> Request:
        """Send x to who cannot compute it, exactly if others can; in the second exchange the averages of the first."""
        computed = bool(_Numbers(*state["numbers"].tolist()).sent)
        has_x = recipient.in_round if kind == "update" else computed and recipient.in_last_round
        averages = {name: state[name] for name in self._gradients if name in state} if kind == "update" else {}
        x = {} if has_x else {"x": state["x"]}
        return Request({**x, **averages}, self._scalars(state, recipient, round), exact=computed and not has_x)

    def _scalars(self, state: State, recipient: Recipient, round: Round) -> dict[str, float]:
        """Return the numbers for one client; for a single one there is nothing to split."""
        shared = self._shared(state, round.seed, round.cut)[1]
        participants = len(round.weights)
        if participants == 1:
            return {**shared, "mode": Mode.SHARED} if shared["mode"] == Mode.DEALT else dict(shared)
        return {**shared, "turn": recipient.position, "participants": participants, "share": recipient.weight}

    def reported_x(self, state: State) -> FloatArray:
        """Return x; once somebody had no value at a centre, the last one at which everybody had."""
        return state["good"] if _Numbers(*state["numbers"].tolist()).careful else state["x"]

    def moved(self, state: State, before: FloatArray) -> float:
        """Return how far x has moved, or the star's radius where no place on the lines was better.

        Unless that says that x is a minimum, the next round looks elsewhere.
        """
        numbers, scales = _Numbers(*state["numbers"].tolist()), Scales(*state["scales"].tolist())
        in_vain = 0.0 if numbers.line or resting(scales, self._dim) else scales.radius
        return max(super().moved(state, before), in_vain)

    def reply_parts(self, request: Message) -> Parts:
        if request.kind == "refresh":
            return self._gradients
        return _LINES if Control.of(request.scalars).mode is Mode.DEALT else {"pair": _PAIR, **_LINES}

    def request_parts(self, request: Message) -> Parts:
        x = {"x": Part((self.dim,))} if "x" in request.arrays else {}
        return {**x, **(self._gradients if request.kind == "update" else {})}

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        if kind == "refresh":
            x = state["x"] if round.received_x is None else round.received_x
            return {**state, "x": x, **mean}
        mode = Mode.SHARED if "pair" in mean else Mode.DEALT  # as it was sent
        control = replace(self.control(state, round.seed, round.cut), mode=mode)
        return self._after_lines(state, {**state, **mean}, control, len(round.replied))

    def _after_lines(self, state: State, mean: Arrays, control: Control, participants: int) -> State:
        x, star, scales = state["x"], StarNumbers(*mean["star"]), Scales(*state["scales"].tolist())
        if star.failed > 0.0:  # back to where everybody had a value, and not as far the next time
            shorter = scales._replace(reach=scales.reach * LINE[0])
            again = self._next(control, control.mode)._replace(careful=1.0)
            return _state(state["good"], state["good"], again, shorter)
        slope = Slope(mean["fresh"], star.curvature)
        common = common_rows(control, self._dim)
        differ = differences(star.common, float(np.sum((common @ slope.gradient) ** 2)))
        mode = Mode.DEALT if differ < _ALIKE * (participants - 1) else Mode.SHARED
        unlike = control.mode is Mode.DEALT and mode is Mode.SHARED
        shape = (2, len(LINE))
        step = best_step(mean["lines"].reshape(shape), mean["failed"].reshape(shape), scales.reach)
        if control.pilot:  # a few directions of many would push x into a corner
            step = Step(0, 0.0)
        there = self._moved(x, mean, step)
        now = self._quality(x, mean, slope, control)
        moved = float(np.sqrt(np.mean((there - x) ** 2)))
        after = next_scales(scales, now, star.curvature, step.length, moved, self._dim)
        if unlike:  # what was measured is how much they differ
            after = scales._replace(reach=step.length or scales.reach)
        if control.pilot:
            after = after._replace(reach=scales.reach)
        if now is not None:
            after = self._sized(after, now, slope, step, control, mode, participants)
        # One site can say in each round that the furthest place is the lowest: L would leave what may be told.
        most = _MOST_REACH * math.sqrt(self._dim) if self._projected else _ANY_REACH
        after = after._replace(reach=min(after.reach, most))
        careful = _Numbers(*state["numbers"].tolist()).careful
        numbers = self._next(control, mode)._replace(line=step.line, length=step.length, sent=1.0, careful=careful)
        return _state(there, x, numbers, after)

    def _moved(self, x: FloatArray, mean: Arrays, step: Step) -> FloatArray:
        if not step.line:
            return x
        line = inward(-mean[("fresh", "memory")[step.line - 1]], x, self._projected)
        there = x + step.length * line
        return clip_to_cube(there) if self._projected else there

    def _quality(self, x: FloatArray, mean: Arrays, slope: Slope, control: Control) -> Quality | None:
        """q by the pairs that all asked; dealt, by least squares over the clients' own; None: nothing was sent."""
        star, length = StarNumbers(*mean["star"]), control.radius * math.sqrt(self._dim)
        if control.mode is Mode.DEALT:
            pairs = (star.wide_seen, star.wide_predicted), (star.narrow_seen, star.narrow_predicted)
            wide, narrow = (_share(seen, predicted) for seen, predicted in pairs)
            count = star_size(control, self._dim)
            return Quality(length, count, wide, narrow, star.wide_square, star.narrow_square)
        if star.curvature == 0.0 and not np.any(mean["pair"]) and np.any(slope.gradient):
            return None
        rows, shares, squares = common_rows(control, self._dim), [], []
        for k, part in enumerate(halves(rows, slope.gradient)):
            v = inward(part, x, projected=False)
            ends = [x + sign * length * v for sign in (1.0, -1.0)]
            first, second = (clip_to_cube(p) if self._projected else p for p in ends)
            shares.append(_share(float(mean["pair"][k]), slope.between(first, second, x)))
            squares.append(float(part @ part) / max(1, len(rows[k::2])))
        return Quality(length, len(rows), *shares, *squares)

    def _sized(
        self, after: Scales, now: Quality, slope: Slope, step: Step, control: Control, mode: Mode, participants: int
    ) -> Scales:
        """With the number of directions of the next star."""
        if control.pilot:
            return first_size(after, mode, participants, self._dim)
        along = now.share * float(np.sqrt(slope.gradient @ slope.gradient))
        return next_size(after, now, along, step.first, slope.curvature, mode, participants, self._dim)

    def _next(self, control: Control, mode: Mode) -> _Numbers:
        """The next round's directions: the rest of a basis, or a new one."""
        used = next_used(control, self._dim)
        rest = mode is control.mode and used < self._dim
        return _Numbers(mode, control.sweep + (not rest), used if rest else 0)


@lru_cache(maxsize=8)  # every participant gets the same in both exchanges
def _control_of(
    numbers: _Numbers, scales: Scales, cut: int, seed: int, dim: int
) -> tuple[Control, MappingProxyType[str, float]]:
    """Return the numbers that all participants receive, as a record and as they are sent."""
    control = Control(
        seed,
        Mode(int(numbers.mode)),
        scales.radius,
        scales.ridge,
        scales.reach,
        int(numbers.sweep),
        int(numbers.used),
        int(scales.size),
        min(COMMON, dim) if scales.first else 0,
        int(numbers.line),
        numbers.length,
        cut=cut,
    )
    return control, MappingProxyType(control.scalars())


def _share(seen: float, predicted: float) -> float:
    """q: what is seen of what was predicted, in [0, 1]."""
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
