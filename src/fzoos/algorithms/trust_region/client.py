"""A client's part of a round with a trust region: the surrogates know all directions.

first time   ask x and d orthonormal directions at distance Delta sqrt(d)
exchange 1   p = mu_i(x);  ask y = f_i(x);  ask x +- Delta sqrt(d) v, v the direction of which least is known
             sent: g_i = grad mu_i(x), log Delta + power_i log 2, the unknown share, whether y failed
exchange 2   x_i = argmin mu_i + delta_i over the box and |. - x|_inf <= Delta   (no queries)
             sent: x_i

e_i = max(|p - y| - sqrt2 sigma, 0) / (|p - mu(x')| + |y - mu(x')|),    x' the centre before
power_i = min(1 - e_i / 0.2, 4 cos of the last two moves) in [-1, 1]
    only what was used doubles: 0 where the move was below Delta / 2, -1 below Delta / 10
    who sees only noise abstains; y failed: -1
    no value in three rounds: ask the last good centre again; none there: f_i is broken, which is no reason to go back
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.excess import Excess
from fzoos.algorithms.trust_region.minimum import least_point
from fzoos.algorithms.trust_region.multipliers import Multipliers
from fzoos.algorithms.trust_region.neighbours import Neighbours
from fzoos.algorithms.trust_region.newton import Curved, newton_point
from fzoos.messages.message import Arrays, Message
from fzoos.surrogates.augmented_lagrangian import LagrangianProcess
from fzoos.surrogates.region import RegionProcess

__all__ = [
    "FIRST_DELTA",
    "HIGH",
    "LOW",
    "PRIVATE",
    "RegionClient",
    "RegionNumbers",
    "delta_of",
    "first_directions",
    "ranges",
]

FIRST_DELTA = 0.1
_LEAST_DELTA, _MOST_DELTA = 1e-9, 0.5
_TAU = 0.2  # prediction error at which Delta stays
_SILENT = 3  # rounds in a row without any value, after which the last good centre is asked again
_SMALL = 0.1  # Delta shrinks where less than this share of it is used
_SADDLES = 5  # steps from one to the next where many points with noise make the surrogate, and it stays not convex
_TINY = 1e-300


class RegionNumbers(NamedTuple):
    """What a client sends beside its gradient; the server gets the averages."""

    log_delta: float
    unknown: float = 1.0  # trace of the gradient's posterior covariance over the prior's
    failed: float = 0.0  # 1: f_i has no value at x


LOW = RegionNumbers(math.log(_LEAST_DELTA / 2.0), -1.0, 0.0)
HIGH = RegionNumbers(math.log(2.0 * _MOST_DELTA), 1e3, 1.0)
"""What an honest client sends lies between them; rounding may take a trace below zero."""

PRIVATE = RegionNumbers(math.nan, 0.0, 0.0)
"""Under differential privacy: the proposed region leaves with noise, and nothing else does."""


def ranges(delta: float) -> tuple[RegionNumbers, RegionNumbers]:
    """What an honest client sends in a round of this Delta: it proposes to double or to halve it at most.

    Example:
        >>> from fzoos.algorithms.trust_region.client import ranges
        >>> [round(numbers.log_delta, 2) for numbers in ranges(0.1)]                  # log 0.05 and log 0.2
        [-3.0, -1.61]
    """
    low, high = (math.log(delta) + math.log(2.0) * power for power in (-1.0, 1.0))
    return LOW._replace(log_delta=low), HIGH._replace(log_delta=high)


def delta_of(mean: Arrays) -> float:
    """Delta, from the clients' averaged logarithms."""
    log_delta = RegionNumbers(*mean["region"]).log_delta
    return min(max(math.exp(min(log_delta, 0.0)), _LEAST_DELTA), _MOST_DELTA)


def first_directions(control: RegionControl, dim: int) -> int:
    """Directions of the first star: all, or half of them at least, with fewer of which x would rather go astray."""
    return control.directions(dim, least=(dim + 1) // 2)


class RegionClient(ClientHalf):
    """The trust region of one client.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._context = context
        context.trajectory.store_points()
        self._neighbours = Neighbours(context)
        self._excess = Excess(context.dim)
        self._multipliers = Multipliers(context)
        self._walk: list[FloatArray] = []  # the last two centres that everybody accepted
        self._good: FloatArray | None = None  # the last centre at which this client had a value
        self._silent = 0  # rounds since it had any
        self._gradient = np.zeros(context.dim)  # as sent
        self._answered = -1  # round
        self.process: RegionProcess | LagrangianProcess | None = None

    def reply(self, x: FloatArray, request: Message) -> Arrays:
        return self.refresh(x, request) if request.kind == "refresh" else self.update(x, request)

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Exchange 1: query x and around it."""
        control, round = RegionControl.of(request.scalars), request.round
        if round != self._answered + 1:  # a client that slept has given its factor back, and must compute as if it had
            self._neighbours.release()
        if control.quiet:
            return self._remember(x, control.radius)
        delta, process = control.radius, self.process
        first, known = not self._context.evaluator.has_queried, len(self._context.trajectory)
        predicted = before = math.nan
        if process is not None and self._walk:
            predicted, before = process(x)[0], process(self._walk[-1])[0]
        value = self._neighbours.ask(x, at_server_x=True)
        if math.isfinite(value):
            self._good, self._silent = x, 0
        self._ask_around(x, control, first)
        self._silent = 0 if len(self._context.trajectory) > known else self._silent + 1
        failed, broken = not math.isfinite(value), self._silent > _SILENT
        if self._good is None or self._neighbours.count < 2:  # it has no say yet
            self.process, self._gradient = None, np.zeros_like(x)
            numbers = RegionNumbers(math.log(delta))
        else:
            self.process = self._neighbours.fit(self._good, delta)
            self._gradient = self.process(x)[1]
            self._multipliers.send(self.process, x)
            power = (0.0 if broken else -1.0) if failed else self._power(x, delta, predicted, before, value)
            unknown = float(np.trace(self.process.grad_covariance(x))) / len(x)
            numbers = RegionNumbers(math.log(delta) + math.log(2.0) * power, unknown, float(failed and not broken))
        shift = {"shift": self._multipliers.ahead} if control.constrained else {}
        return {"gradient": self._gradient, "region": np.array(numbers), **shift}

    def _remember(self, x: FloatArray, delta: float) -> Arrays:
        """Exchange 1 without queries: the gradient there, as the surrogate has it from those before."""
        self.process, self._gradient = None, np.zeros_like(x)
        numbers = RegionNumbers(math.log(delta))
        if self._good is not None and self._neighbours.count >= 2:
            self.process = self._neighbours.fit(x, delta)
            self._gradient = self.process(x)[1]
            numbers = numbers._replace(unknown=float(np.trace(self.process.grad_covariance(x))) / len(x))
        return {"gradient": self._gradient, "region": np.array(numbers)}

    def _ask_around(self, x: FloatArray, control: RegionControl, first: bool) -> None:
        """All directions at the first time, later the one of which least is known; fewer if the round is cut."""
        dim, delta = len(x), control.radius
        if not first and not control.directions(1, least=0):
            return
        centre = x if self._good is None else self._good
        if self._good is not None and self._silent >= _SILENT:
            self._neighbours.ask(centre)
            return
        if first:
            rows = np.linalg.qr(self._context.rng.standard_normal((dim, dim)))[0].T[: first_directions(control, dim)]
        elif self.process is None or self._neighbours.count < 2:
            rows = np.linalg.qr(self._context.rng.standard_normal((dim, 1)))[0].T
        else:
            process = self._neighbours.fit(centre, delta, self.process.choice)
            rows = np.linalg.eigh(process.grad_covariance(centre))[1][:, -1:].T
        self._neighbours.ask_aside(centre, rows * (delta * math.sqrt(dim)))
        if first:
            self._neighbours.doubt_star(len(rows))

    def _power(self, x: FloatArray, delta: float, predicted: float, before: float, value: float) -> float:
        """1: double Delta, -1: halve it, 0: there is nothing to compare, or the value is not credible."""
        if math.isnan(predicted) or self.process is None or not self._neighbours.credible(x):
            return 0.0
        change, sigma = abs(predicted - before) + abs(value - before), math.sqrt(2.0) * self.process.sigma
        error = max(abs(predicted - value) - sigma, 0.0) / change if change > 0.0 else 0.0
        power = min(max(min(1.0 - error / _TAU, 4.0 * _cosine([*self._walk, x])), -1.0), 1.0)
        move = float(np.max(np.abs(x - self._walk[-1])))
        if power > 0.0 and move < delta / 2.0:
            power = -1.0 if move < _SMALL * delta and not self._multipliers.violated else 0.0
        return 0.0 if power < 0.0 and change < 2.0 * sigma else power

    def update(self, x: FloatArray, request: Message) -> Arrays:
        """Exchange 2: the minimum of the corrected surrogate in the region."""
        control, mean, round = RegionControl.of(request.scalars), request.arrays, request.round
        delta, process, self._answered = delta_of(mean), self.process, round
        share = control.share if control.constrained else 1.0 / self._context.clients
        if RegionNumbers(*mean["region"]).failed > 0.0:
            x = self._good = self._walk[-1] if self._walk else x  # the last centre that everybody accepted
            if process is not None:
                process = self._neighbours.fit(x, delta, process.choice)
        else:
            self._walk = [*self._walk[-1:], x]
            if "shift" in mean:
                self._excess.shift(mean["shift"], share * self._multipliers.ahead)
            own = process.with_weight(share)(x)[1] if isinstance(process, LagrangianProcess) else self._gradient
            if "history" in mean:
                self._excess.correct(mean["history"], round)
            self._excess.add(x, mean["gradient"], own, round)
            self._multipliers.hear(mean["gradient"])
        if process is None or not self._excess.known:
            return {"x": x}
        self.process = process

        def place(t: FloatArray) -> FloatArray:
            return self._context.project(x + delta * t)

        low, high = self._bounds(x, delta)
        if isinstance(process, LagrangianProcess):
            local, bounds = (
                self._local(process.with_weight(share), x, delta, mean["gradient"]),
                [*zip(low, high, strict=True)],
            )
            t = self._multipliers.meet(process, place, lambda start: least_point(local, start, bounds))
        else:
            curved, rounding = self._curved(process, x, delta, mean["gradient"])
            limit = {"saddles": _SADDLES} if self._neighbours.keeps else {}
            t = newton_point(curved, np.zeros(len(x)), low, high, rounding, **limit)
        return {"x": self._neighbours.inside(place(t), x)}

    def rest(self) -> None:
        """Others take part for a while: without the surrogate's factor."""
        self._neighbours.release()
        if self.process is not None:
            self.process.release()

    def state(self) -> StateDict:
        walk, process = np.reshape(self._walk, (-1, self._context.dim)), self.process
        own = {"walk": walk, "good": self._good, "silent": self._silent, "gradient": self._gradient}
        surrogate: StateDict = {}
        if isinstance(process, RegionProcess):
            surrogate = prefixed("process", process.state(factor=self._neighbours.keeps))
        elif process is not None:
            surrogate = prefixed("lagrangian", process.state())
        return {
            **super().state(),
            **own,
            "answered": self._answered,
            **surrogate,
            **prefixed("points", self._neighbours.state()),
            **prefixed("excess", self._excess.state()),
            **prefixed("multipliers", self._multipliers.state()),
        }

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self._walk, self._good, self._silent = list(state["walk"]), state.get("good"), state["silent"]
        self._gradient, self._answered, self.process = state["gradient"], state["answered"], None
        multipliers = self._context.trajectory.lagrangian
        if found := part_of("process", state):
            self.process = RegionProcess.restored(found)
        elif multipliers is not None and (found := part_of("lagrangian", state)):
            self.process = LagrangianProcess.restored(found, multipliers)
        self._neighbours.restore(part_of("points", state), self.process)
        self._excess.restore(part_of("excess", state))
        self._multipliers.restore(part_of("multipliers", state))

    def _bounds(self, x: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
        """Of t: within the region, and within the box if there is one."""
        low, high = (self._context.project(x + sign * delta) for sign in (-1.0, 1.0))
        return (low - x) / delta, (high - x) / delta

    def _curved(
        self, process: RegionProcess, x: FloatArray, delta: float, gradient: FloatArray
    ) -> tuple[Callable[[FloatArray], Curved], float]:
        """t -> [mu_i + delta_i](x + Delta t) as below, with second derivatives; and the error of its values."""
        excess, fenced = self._excess.process(process), self._neighbours.fenced
        unit = float(np.linalg.norm(gradient)) * delta + _TINY
        there = [(process.curved(x), excess.curved(x))]  # t = 0, from where the minimum is looked for
        reference, other_reference = there[0][0][0], excess(x)[0]

        def local(t: FloatArray) -> Curved:
            point = x + delta * t
            known = there.pop() if there and not t.any() else (process.curved(point), excess.curved(point))
            (own, slope, bend), (other, other_slope, other_bend) = known
            value = (own - reference + (other - other_reference)) / unit
            slope = (slope + other_slope) * (delta / unit)
            bend += other_bend
            bend *= delta * delta / unit
            if fenced:
                fence, fence_slope, fence_bend = self._neighbours.curved_fence(point)
                value, slope, bend = value + fence, slope + delta * fence_slope, bend + delta * delta * fence_bend
            return Curved(value, slope, bend)

        return local, (process.rounding + excess.rounding) / unit

    def _local(
        self, process: LagrangianProcess, x: FloatArray, delta: float, gradient: FloatArray
    ) -> Callable[[FloatArray], tuple[float, FloatArray]]:
        """t -> [mu_i + delta_i](x + Delta t) in units of |g| Delta, and what keeps away from where values failed."""
        excess = self._excess.process(process)
        unit, reference = float(np.linalg.norm(gradient)) * delta + _TINY, process(x)[0]

        def local(t: FloatArray) -> tuple[float, FloatArray]:
            point = x + delta * t
            (own, slope), (other, other_slope) = process(point), excess(point)
            value, slope = (own - reference + other) / unit, (slope + other_slope) / unit
            if self._neighbours.fenced:
                fence, fence_slope = self._neighbours.fence(point)
                value, slope = value + fence, slope + fence_slope
            return value, delta * slope

        return local


def _cosine(walk: list[FloatArray]) -> float:
    """Of the last two moves; 1 where there are none."""
    if len(walk) < 3:
        return 1.0
    last, before = walk[-1] - walk[-2], walk[-2] - walk[-3]
    size = float(np.linalg.norm(last) * np.linalg.norm(before))
    return float(last @ before) / size if size > 0.0 else 1.0
