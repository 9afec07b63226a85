"""The client half of FedTrustRegion: its surrogate is minimised in a trust region.

first time   query x and d orthonormal directions at distance Delta sqrt(d)
exchange 1   p = mu_i(x);  query y = f_i(x);  query x +- Delta sqrt(d) v, v the least certain direction
             sent: g_i = grad mu_i(x), log Delta + power_i log 2, the relative uncertainty of g_i, whether y failed
exchange 2   x_i = argmin mu_i + delta_i over the box and |. - x|_inf <= Delta   (no queries)
             sent: x_i

e_i = max(|p - y| - sqrt2 sigma, 0) / (|p - mu(x')| + |y - mu(x')|),    x' the centre before
power_i = min(1 - e_i / 0.2, 4 cos of the last two moves) in [-1, 1]
    only a used region doubles: 0 if the move was below Delta / 2, -1 below Delta / 10
    0 if the change is below the noise; -1 if y failed
    after three rounds without a value the last good centre is queried again; if that fails too, f_i is broken, which is
    no reason to return
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
from fzoos.algorithms.trust_region.global_correction import GlobalCorrection
from fzoos.algorithms.trust_region.minimizers import Curved, lbfgsb_point, newton_point
from fzoos.algorithms.trust_region.multipliers import Multipliers
from fzoos.algorithms.trust_region.neighbours import Neighbours
from fzoos.messages.message import Arrays, Message
from fzoos.surrogates.augmented_lagrangian import LagrangianProcess
from fzoos.surrogates.region import RegionProcess

__all__ = [
    "FIRST_DELTA",
    "HIGH",
    "LOW",
    "PRIVATE",
    "RegionClient",
    "RegionStatistics",
    "delta_of",
    "first_directions",
    "ranges",
]

FIRST_DELTA = 0.1
_LEAST_DELTA, _MOST_DELTA = 1e-9, 0.5
_TAU = 0.2  # the prediction error at which Delta stays
_SILENT = 3  # rounds without any value after which the last good centre is queried again
_SMALL = 0.1  # Delta shrinks if less than this fraction of it is used
_SADDLES = 5  # the largest number of steps from saddles if the surrogate has many points with noise
_TINY = 1e-300


class RegionStatistics(NamedTuple):
    """What a client sends beside its gradient; the server receives the averages."""

    log_delta: float
    uncertainty: float = 1.0  # trace of the gradient's posterior covariance over the prior's
    failed: float = 0.0  # 1: f_i has no value at x


LOW = RegionStatistics(math.log(_LEAST_DELTA / 2.0), -1.0, 0.0)
HIGH = RegionStatistics(math.log(2.0 * _MOST_DELTA), 1e3, 1.0)
"""The range of what an honest client sends; with rounding a trace may be below zero."""

PRIVATE = RegionStatistics(math.nan, 0.0, 0.0)
"""What is sent under differential privacy: the proposed region, with noise, and nothing else."""


def ranges(delta: float) -> tuple[RegionStatistics, RegionStatistics]:
    """Return the range of what an honest client sends: it may propose to double or to halve Delta.

    Example:
        >>> from fzoos.algorithms.trust_region.client import ranges
        >>> [round(numbers.log_delta, 2) for numbers in ranges(0.1)]                  # log 0.05 and log 0.2
        [-3.0, -1.61]
    """
    low, high = (math.log(delta) + math.log(2.0) * power for power in (-1.0, 1.0))
    return LOW._replace(log_delta=low), HIGH._replace(log_delta=high)


def delta_of(mean: Arrays) -> float:
    """Return Delta, given the clients' averaged logarithms."""
    log_delta = RegionStatistics(*mean["region"]).log_delta
    return min(max(math.exp(min(log_delta, 0.0)), _LEAST_DELTA), _MOST_DELTA)


def first_directions(control: RegionControl, dim: int) -> int:
    """Return the number of directions in the first design: all, or at least half, with fewer of which x goes astray."""
    return control.directions(dim, least=(dim + 1) // 2)


class RegionClient(ClientHalf):
    """The client half of FedTrustRegion.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._context = context
        context.trajectory.store_points()
        self._neighbours = Neighbours(context)
        self._correction = GlobalCorrection(context.dim)
        self._multipliers = Multipliers(context)
        self._path: list[FloatArray] = []  # the last two centres at which all clients had a value
        self._good: FloatArray | None = None  # the last centre at which this client had a value
        self._silent = 0  # rounds since it had a value
        self._gradient = np.zeros(context.dim)  # as sent
        self._last_round = -1  # round
        self.process: RegionProcess | LagrangianProcess | None = None

    def reply(self, x: FloatArray, request: Message) -> Arrays:
        return self.refresh(x, request) if request.kind == "refresh" else self.update(x, request)

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Answer exchange 1: query x and around it."""
        control, round = RegionControl.of(request.scalars), request.round
        if round != self._last_round + 1:  # idle clients may have released their factor: all compute without it
            self._neighbours.release()
        if control.quiet:
            return self._without_queries(x, control.radius)
        delta, process = control.radius, self.process
        first, known = not self._context.evaluator.has_queried, len(self._context.trajectory)
        predicted = before = math.nan
        if process is not None and self._path:
            predicted, before = process(x)[0], process(self._path[-1])[0]
        value = self._neighbours.query(x, at_server_x=True)
        if math.isfinite(value):
            self._good, self._silent = x, 0
        self._query_around(x, control, first)
        self._silent = 0 if len(self._context.trajectory) > known else self._silent + 1
        failed, broken = not math.isfinite(value), self._silent > _SILENT
        if self._good is None or self._neighbours.count < 2:  # it has no say yet
            self.process, self._gradient = None, np.zeros_like(x)
            numbers = RegionStatistics(math.log(delta))
        else:
            self.process = self._neighbours.fit(self._good, delta)
            self._gradient = self.process(x)[1]
            self._multipliers.record_gradient(self.process, x)
            power = (0.0 if broken else -1.0) if failed else self._power(x, delta, predicted, before, value)
            unknown = float(np.trace(self.process.grad_covariance(x))) / len(x)
            numbers = RegionStatistics(math.log(delta) + math.log(2.0) * power, unknown, float(failed and not broken))
        shift = {"shift": self._multipliers.gradient_shift} if control.constrained else {}
        return {"gradient": self._gradient, "region": np.array(numbers), **shift}

    def _without_queries(self, x: FloatArray, delta: float) -> Arrays:
        """Answer exchange 1 without queries: the gradient by the surrogate of earlier points."""
        self.process, self._gradient = None, np.zeros_like(x)
        numbers = RegionStatistics(math.log(delta))
        if self._good is not None and self._neighbours.count >= 2:
            self.process = self._neighbours.fit(x, delta)
            self._gradient = self.process(x)[1]
            numbers = numbers._replace(uncertainty=float(np.trace(self.process.grad_covariance(x))) / len(x))
        return {"gradient": self._gradient, "region": np.array(numbers)}

    def _query_around(self, x: FloatArray, control: RegionControl, first: bool) -> None:
        """Query all directions the first time, later the least certain one; fewer if the round is cut."""
        dim, delta = len(x), control.radius
        if not first and not control.directions(1, least=0):
            return
        centre = x if self._good is None else self._good
        if self._good is not None and self._silent >= _SILENT:
            self._neighbours.query(centre)
            return
        if first:
            rows = np.linalg.qr(self._context.rng.standard_normal((dim, dim)))[0].T[: first_directions(control, dim)]
        elif self.process is None or self._neighbours.count < 2:
            rows = np.linalg.qr(self._context.rng.standard_normal((dim, 1)))[0].T
        else:
            process = self._neighbours.fit(centre, delta, self.process.choice)
            rows = np.linalg.eigh(process.grad_covariance(centre))[1][:, -1:].T
        self._neighbours.query_offsets(centre, rows * (delta * math.sqrt(dim)))
        if first:
            self._neighbours.exclude_outliers(len(rows))

    def _power(self, x: FloatArray, delta: float, predicted: float, before: float, value: float) -> float:
        """Return 1 to double Delta, -1 to halve it, 0 if there is nothing to compare or the value is not credible."""
        if math.isnan(predicted) or self.process is None or not self._neighbours.credible(x):
            return 0.0
        change, sigma = abs(predicted - before) + abs(value - before), math.sqrt(2.0) * self.process.sigma
        error = max(abs(predicted - value) - sigma, 0.0) / change if change > 0.0 else 0.0
        power = min(max(min(1.0 - error / _TAU, 4.0 * _cosine([*self._path, x])), -1.0), 1.0)
        move = float(np.max(np.abs(x - self._path[-1])))
        if power > 0.0 and move < delta / 2.0:
            power = -1.0 if move < _SMALL * delta and not self._multipliers.violated else 0.0
        return 0.0 if power < 0.0 and change < 2.0 * sigma else power

    def update(self, x: FloatArray, request: Message) -> Arrays:
        """Answer exchange 2: the minimum of the corrected surrogate in the region."""
        control, mean, round = RegionControl.of(request.scalars), request.arrays, request.round
        delta, process, self._last_round = delta_of(mean), self.process, round
        weight = control.weight if control.constrained else 1.0 / self._context.clients
        if RegionStatistics(*mean["region"]).failed > 0.0:
            x = self._good = self._path[-1] if self._path else x  # the last centre at which all clients had a value
            if process is not None:
                process = self._neighbours.fit(x, delta, process.choice)
        else:
            self._path = [*self._path[-1:], x]
            if "shift" in mean:
                self._correction.shift(mean["shift"], weight * self._multipliers.gradient_shift)
            own = process.with_weight(weight)(x)[1] if isinstance(process, LagrangianProcess) else self._gradient
            if "history" in mean:
                self._correction.correct(mean["history"], round)
            self._correction.add(x, mean["gradient"], own, round)
            self._multipliers.update(mean["gradient"])
        if process is None or not self._correction.known:
            return {"x": x}
        self.process = process

        def place(t: FloatArray) -> FloatArray:
            return self._context.project(x + delta * t)

        low, high = self._bounds(x, delta)
        if isinstance(process, LagrangianProcess):
            local = self._local(process.with_weight(weight), x, delta, mean["gradient"])
            bounds = [*zip(low, high, strict=True)]
            t = self._multipliers.minimize(process, place, lambda start: lbfgsb_point(local, start, bounds))
        else:
            curved, rounding = self._curved(process, x, delta, mean["gradient"])
            limit = {"saddles": _SADDLES} if self._neighbours.is_cached else {}
            t = newton_point(curved, np.zeros(len(x)), low, high, rounding, **limit)
        return {"x": self._neighbours.inside(place(t), x)}

    def release(self) -> None:
        self._neighbours.release()
        if self.process is not None:
            self.process.release()

    def state(self) -> StateDict:
        path, process = np.reshape(self._path, (-1, self._context.dim)), self.process
        own = {"path": path, "good": self._good, "silent": self._silent, "gradient": self._gradient}
        surrogate: StateDict = {}
        if isinstance(process, RegionProcess):
            surrogate = prefixed("process", process.state(factor=self._neighbours.is_cached))
        elif process is not None:
            surrogate = prefixed("lagrangian", process.state())
        return {
            **super().state(),
            **own,
            "answered": self._last_round,
            **surrogate,
            **prefixed("points", self._neighbours.state()),
            **prefixed("correction", self._correction.state()),
            **prefixed("multipliers", self._multipliers.state()),
        }

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self._path, self._good, self._silent = list(state["path"]), state.get("good"), state["silent"]
        self._gradient, self._last_round, self.process = state["gradient"], state["answered"], None
        multipliers = self._context.trajectory.lagrangian
        if found := part_of("process", state):
            self.process = RegionProcess.restored(found)
        elif multipliers is not None and (found := part_of("lagrangian", state)):
            self.process = LagrangianProcess.restored(found, multipliers)
        self._neighbours.restore(part_of("points", state), self.process)
        self._correction.restore(part_of("correction", state))
        self._multipliers.restore(part_of("multipliers", state))

    def _bounds(self, x: FloatArray, delta: float) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of t: the region, within the box if there is one."""
        low, high = (self._context.project(x + sign * delta) for sign in (-1.0, 1.0))
        return (low - x) / delta, (high - x) / delta

    def _curved(
        self, process: RegionProcess, x: FloatArray, delta: float, gradient: FloatArray
    ) -> tuple[Callable[[FloatArray], Curved], float]:
        """Return t -> [mu_i + delta_i](x + Delta t) / |g| Delta with failure penalty, and its rounding error."""
        correction, has_failures = self._correction.process(process), self._neighbours.has_failures
        unit = float(np.linalg.norm(gradient)) * delta + _TINY
        there = [(process.curved(x), correction.curved(x))]  # t = 0, where the search starts
        reference, other_reference = there[0][0][0], correction(x)[0]

        def local(t: FloatArray) -> Curved:
            point = x + delta * t
            known = there.pop() if there and not t.any() else (process.curved(point), correction.curved(point))
            (own, slope, bend), (other, other_slope, other_bend) = known
            value = (own - reference + (other - other_reference)) / unit
            slope = (slope + other_slope) * (delta / unit)
            bend += other_bend
            bend *= delta * delta / unit
            if has_failures:
                penalty, penalty_slope, penalty_bend = self._neighbours.failure_penalty(point)
                value, slope, bend = value + penalty, slope + delta * penalty_slope, bend + delta * delta * penalty_bend
            return Curved(value, slope, bend)

        return local, (process.rounding + correction.rounding) / unit

    def _local(
        self, process: LagrangianProcess, x: FloatArray, delta: float, gradient: FloatArray
    ) -> Callable[[FloatArray], tuple[float, FloatArray]]:
        """Return t -> [mu_i + delta_i](x + Delta t) / |g| Delta with its gradient and the failure penalty."""
        correction = self._correction.process(process)
        unit, reference = float(np.linalg.norm(gradient)) * delta + _TINY, process(x)[0]

        def local(t: FloatArray) -> tuple[float, FloatArray]:
            point = x + delta * t
            (own, slope), (other, other_slope) = process(point), correction(point)
            value, slope = (own - reference + other) / unit, (slope + other_slope) / unit
            if self._neighbours.has_failures:
                penalty, penalty_slope, _ = self._neighbours.failure_penalty(point)
                value, slope = value + penalty, slope + penalty_slope
            return value, delta * slope

        return local


def _cosine(path: list[FloatArray]) -> float:
    """Return the cosine between the last two moves; 1 if there are none."""
    if len(path) < 3:
        return 1.0
    last, before = path[-1] - path[-2], path[-2] - path[-3]
    size = float(np.linalg.norm(last) * np.linalg.norm(before))
    return float(last @ before) / size if size > 0.0 else 1.0
