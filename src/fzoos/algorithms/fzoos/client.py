"""The client half of FZooS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.fzoos.correction import CORRECTIONS
from fzoos.algorithms.fzoos.correction_lengths import Measured, Moment
from fzoos.algorithms.fzoos.query_designs import ActiveQueries, UnseenDirections, uniform_around
from fzoos.algorithms.fzoos.radius import best_radius
from fzoos.algorithms.fzoos.step_scale import StepScale
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.trajectory import Purpose
from fzoos.surrogates.evidence import Ridge
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.length_scale import fit_length_scale
from fzoos.surrogates.local import LocalSurrogate
from fzoos.surrogates.noise import NoiseModel

if TYPE_CHECKING:
    from fzoos.algorithms.fzoos import FZooS

__all__ = ["FZooSClient"]

_LARGEST = 1e99  # squares beyond it are not taken by anybody, and say the same
_UNKNOWN_RADIUS = 0.1  # of queries, as long as there is noise and nobody knows how much beside the function


class FZooSClient(ClientHalf):
    """Keeps the surrogates in step with the trajectory, and makes of them the estimate, the queries and the payload.

    Args:
        context: what the client half works with.
        settings: of the algorithm.
    """

    def __init__(self, context: ClientContext, settings: FZooS) -> None:
        super().__init__(context)
        self._settings = settings
        self._correction = CORRECTIONS[settings.sends](settings, context)
        self._steps = StepScale(settings.steps)
        self._ridge = Ridge(NoiseModel.floor if isinstance(settings.noise, NoiseModel) else settings.noise)
        self._ridge_round = 0  # when it was found
        self._least_radius = _UNKNOWN_RADIUS if isinstance(settings.noise, NoiseModel) else 0.0
        self._sigma = 0.0  # of an observation, where a noise model says so
        self._use(settings.kernel)
        self._corrects = False  # whether there is a correction in this round
        self._fixed: FloatArray | None = None  # the correction vector of the round, if it is fixed
        self._last: FloatArray | None = None  # where the last local steps ended, x_i
        self._moment = (0, 0)  # r, t
        self._measured: tuple[float | None, float | None] = (None, None)  # G, U
        self._uncertainties: list[float] = []

    # The three parts of a round

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Query x and around it, then renew the payload."""
        new = self._meet(x, request)
        self._adopt_step(request)
        self._adopt_length_scale(request)
        if not (new and self._settings.refresh_first_round):
            # A newcomer has just asked at x: it has nothing to predict.
            predicted = self._surrogate.at(x).mean(x) if self._settings.steps and not new else None
            self._steps.observe(x, self._query_around(x), predicted, self._sigma)
        self._fit_noise(x)
        return self._payload(x, request.round)

    def begin(self, x: FloatArray, request: Message) -> None:
        """The correction of this round; a first round without a payload, and a newcomer, have none."""
        super().begin(x, request)
        self._meet(x, request)
        self._uncertainties = []
        self._corrects = self._correction.take(request)
        if self._corrects:
            self._measured = self._measure(x, request)
        self._fixed = self._correction.vector(x) if self._corrects and self._settings.vector == "fixed" else None
        self._adopt_step(request)
        if self._settings.exchanges == 1:
            self._adopt_length_scale(request)
        self._fit_noise(x)

    def end(self, x: FloatArray) -> Arrays:
        """Without a refresh exchange, w_i travels with x_i."""
        self._last = x
        return self._payload(x, self._moment[0]) if self._settings.exchanges == 1 else {}

    def step(self, x: FloatArray, t: int, descend: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The optimiser's step, scaled."""
        return super().step(x, t, lambda gradient: self._steps.scale * descend(gradient))

    # The estimate: g_hat = grad mu_i(x) + gamma_t (grad mu_hat(x) - grad mu_hat_i(x))

    def local_gradient(self, x: FloatArray) -> FloatArray:
        """Grad mu_i(x)."""
        return self._surrogate.at(x).grad_mean(x)

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        """gamma_t and the correction vector."""
        if not self._corrects:
            return None
        self._moment = (self._moment[0], t)
        vector = self._correction.vector(x) if self._fixed is None else self._fixed
        return self._settings.length(self._describe(x)), vector

    def _describe(self, x: FloatArray) -> Moment:
        round, step = self._moment
        trajectory, context = self.context.trajectory, self.context
        return Moment(
            step=step,
            round=round,
            local_steps=context.local_steps,
            clients=context.clients,
            dim=context.dim,
            kernel=self._kernel,
            noise=self._ridge.ratio,
            points=len(trajectory),
            mean_squared_distance=lambda: float(np.mean(np.sum((trajectory.x - x) ** 2, axis=1))),
            heterogeneity=self._measured[0],
            uncertainty=self._measured[1],
        )

    def _measure(self, x: FloatArray, request: Message) -> tuple[float | None, float | None]:
        """G = mean_i ||g_i||^2 - ||mean_i g_i||^2, and U."""
        if "measured" not in request.arrays:
            return None, None
        squares, uncertainty = request.arrays["measured"].tolist()
        mean = self._correction.mean(x)
        return max(squares - float(mean @ mean), 0.0), uncertainty

    # Queries

    def explore(self, x: FloatArray) -> None:
        """Active queries around the new iterate."""
        self._uncertainties.append(self._query_actively(x, self._settings.active, "active"))

    def _query_around(self, x: FloatArray) -> float:
        """Query the server's x and around it; the observation at x."""
        refresh, trajectory = self._settings.refresh, self.context.trajectory
        if isinstance(refresh, UnseenDirections):
            radius = self._widened(self._half_spread(x) if refresh.radius is None else refresh.radius)
            near = trajectory.x[trajectory.nearest(x, refresh.known)]
            near = near[np.argsort(np.sum((near - x) ** 2, axis=1), kind="stable")]
            y = trajectory.query(self.context.project(refresh.around(x, radius, self.context.rng, near)), "refresh")
            return float(y[0])
        y = trajectory.query(x[None, :], "refresh")
        self._query_actively(x, refresh, "refresh")
        return float(y[0])

    def _query_actively(self, x: FloatArray, active: ActiveQueries | None, purpose: Purpose) -> float:
        """Query the most uncertain candidates around x; return the uncertainty at x as a share of the prior's."""
        points = x[None, :]
        if active is not None:
            radius = self._widened(self._half_spread(x) if active.radius is None else active.radius)
            candidates = self.context.project(uniform_around(x, active.candidates, radius, self.context.rng))
            points = np.concatenate([points, candidates])
        gp = self._surrogate.at(x)
        uncertainty = gp.grad_uncertainty(points)
        if active is not None:
            self.context.trajectory.query(active.choose(points[1:], uncertainty[1:]), purpose)
        return float(uncertainty[0]) / gp.prior_trace

    def _half_spread(self, x: FloatArray) -> float:
        """Half the mean |x_r - x_i|; where that is zero or unknown, the initial design's radius."""
        spread = 0.0 if self._last is None else 0.5 * float(np.mean(np.abs(x - self._last)))
        return spread if spread > 0.0 else self._settings.initial.radius

    def _widened(self, radius: float) -> float:
        """The radius, or with a noise model the one at which a star of queries tells most of the gradient."""
        return max(radius, self._least_radius)

    def _meet(self, x: FloatArray, request: Message) -> bool:
        """Take note of the round; a newcomer queries the initial design around x. Whether it is one."""
        self._moment = (request.round, 0)
        self._correction.seed = int(request.scalars["seed"])
        if self.context.trajectory.count:
            return False
        initial = self._settings.initial
        initial = replace(initial, radius=self._widened(initial.radius))
        y = self.context.trajectory.query(self.context.project(initial.around(x, self.context.rng)), "initial")
        if initial.kind == "orthogonal":  # then x is its first point
            self._steps.observe(x, float(y[0]))
        return True

    # The payload

    def _payload(self, x: FloatArray, round: int) -> Arrays:
        """What the correction needs, log l where it is fitted, log s, and what a measured length needs."""
        settings, trajectory = self._settings, self.context.trajectory
        payload = self._correction.renew(x, round, self._surrogate)
        if settings.fit is not None:
            near = trajectory.nearest(x, settings.fit.points)
            fitted = fit_length_scale(
                self._kernel, settings.noise, trajectory.x[near], trajectory.y[near], settings.fit
            )
            payload["log_length_scale"] = np.array([math.log(fitted)])
        if settings.steps is not None:
            payload["log_step"] = np.array([self._steps.log_scale])
        if isinstance(settings.length, Measured):
            gp = self._surrogate.at(x)
            own, trace = self._correction.own(x), float(gp.grad_uncertainty(x[None, :])[0])
            payload["measured"] = np.minimum(np.array([own @ own, trace * gp.amplitude**2]), _LARGEST)
        return payload

    def _adopt_step(self, request: Message) -> None:
        """The step scale that all go on with."""
        if "log_step" in request.arrays:
            self._steps.adopt(float(request.arrays["log_step"][0]))

    def _adopt_length_scale(self, request: Message) -> None:
        """The length scale that all go on with."""
        fit = self._settings.fit
        if fit is not None and "log_length_scale" in request.arrays:
            told = float(request.arrays["log_length_scale"][0])
            # Nobody fits a scale beyond these; one that lies must not break the others.
            scale = math.exp(min(max(told, math.log(fit.low)), math.log(fit.high)))
            self._use(self._kernel.with_length_scale(scale))

    def _fit_noise(self, x: FloatArray) -> None:
        """Find the ridge around x, once a round; a change too small to matter is not worth a new factor."""
        noise, round, trajectory = self._settings.noise, self._moment[0], self.context.trajectory
        if not isinstance(noise, NoiseModel) or self._ridge_round == round:
            return
        near = trajectory.nearest(x, noise.points)
        found = noise.ridge(self._kernel, trajectory.x[near], trajectory.y[near])
        self._ridge_round = round
        self._sigma = math.sqrt(found.ratio) * (found.amplitude or 0.0)
        self._least_radius = best_radius(self._kernel, found.ratio, self.context.dim, self.context.dim)
        if not found.resembles(self._ridge):
            self._ridge = found
            self._surrogate.use(found)

    def _use(self, kernel: Kernel) -> None:
        """Make the surrogates anew with this kernel."""
        settings = self._settings
        self._kernel = kernel
        self._surrogate = LocalSurrogate(self.context.trajectory, kernel, self._ridge, settings.points, settings.device)
        self._correction.use(kernel)

    def diagnostics(self) -> dict[str, float]:
        """Beside the correction length: the posterior over the prior trace (1: nothing is known), mean over steps."""
        told = super().diagnostics()
        if self._settings.steps is not None:
            told["step_scale"] = self._steps.scale
        if self._uncertainties:  # a single local step has nothing after it to explore for
            told["uncertainty"] = float(np.mean(self._uncertainties))
        return told
