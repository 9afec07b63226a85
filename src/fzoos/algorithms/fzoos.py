"""FZooS: federated zeroth-order optimisation with trajectory-informed surrogate gradients (Shu et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from fzoos._check import check_count, check_number
from fzoos.algorithms.base import Algorithm, ClientHalf, Site
from fzoos.algorithms.correction import CORRECTIONS
from fzoos.arrays import FloatArray, check_device, check_device_name
from fzoos.federation.message import Arrays, Message
from fzoos.kernels import Kernel, Matern52, SquaredExponential
from fzoos.lengths import Constant, CorrectionLength, Measured, Moment, Reciprocal
from fzoos.noise import NoiseModel
from fzoos.queries import ActiveQueries, InitialDesign, UnseenDirections, uniform_around
from fzoos.radius import best_radius
from fzoos.steps import StepScale, TrustRegion
from fzoos.surrogates.evidence import Ridge
from fzoos.surrogates.fit import FitLengthScale, fit_length_scale
from fzoos.surrogates.local import LocalSurrogate
from fzoos.trajectory import Purpose

__all__ = ["FZooS"]

_LARGEST = 1e99  # squares beyond it are not taken by anybody, and say the same
_UNKNOWN_RADIUS = 0.1  # of queries, as long as there is noise and nobody knows how much beside the function


@dataclass(frozen=True)
class FZooS(Algorithm):
    """FZooS: g_hat = grad mu_i(x) + gamma_t (grad mu_hat(x) - grad mu_hat_i(x)).

    The local gradient comes from a Gaussian process on the client's own queries, the correction from what all clients'
    processes say of their gradients: d numbers each, or the weights of M random Fourier features. The plain defaults
    go beyond the paper and are compared with it in docs/beyond.md; `FZooS.paper()` has the paper's.

    Args:
        kernel: k and its length scale l, in units of the unit cube.
        fit: fit l by marginal likelihood each round; None keeps the kernel's.
        noise: sigma^2, the ridge, relative to the variance of the observations in use; or `KnownNoise` or
            `FittedNoise`, which find the ridge once a round. Queries then go at least as far as the noise demands.
        features: M, where weights travel.
        orthogonal: whether the features' frequencies are made orthogonal: fewer features for the same error.
        points: how many of the nearest points the local surrogate uses, besides those asked around x itself; None: all
            of the trajectory.
        feature_points: the same for the features' surrogate.
        active: queries after each local step but the last; None: no such queries.
        refresh: queries around the server's x, besides x itself, before the payload is renewed; None: no such queries,
            and one exchange a round instead of two.
        initial: queries before a client's first round.
        early: whether the first round begins with a refresh too, in which newcomers make their initial queries: there
            is then a correction from the first step on.
        sends: "weights": w_i, M numbers from which the gradient anywhere follows; "gradient": grad mu_i(x_r), d
            numbers, and the correction vector is the same during the round; "curvature": the gradient and how it
            changes along the last round's, 2 d numbers.
        length: gamma_t.
        steps: how the optimiser's steps are scaled from round to round; None: not at all.
        vector: "adaptive": the correction vector is taken at the current x; "fixed": at x_{r-1} for the whole round.
        device: None for NumPy, or a PyTorch device such as "cuda" for the surrogates' arithmetic.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        Y. Shu et al., "Federated Zeroth-Order Optimization using Trajectory-Informed Surrogate Gradients", 2023.

    Deviations from the paper:
        Uncertainty is ranked by the trace of the gradient's posterior covariance: its spectral norm is constant as long
        as there are fewer points than dimensions. Features carry sqrt(2/M). Observations are standardised. By default
        gradients travel in place of weights, gamma is measured, queries at x_r go where nothing is known, the first
        round has a correction too, and steps are scaled.

    Example:
        >>> import numpy as np
        >>> from fzoos import FZooS, minimize
        >>> sites = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in (0.2, 0.4)]
        >>> result = minimize(sites, x0=np.zeros(5), bounds=(-1, 1), algorithm=FZooS(), rounds=10, seed=0)
        >>> bool(np.all(abs(result.x - 0.3) < 0.05))
        True
    """

    kernel: Kernel = field(default_factory=lambda: Matern52(8.0))  # k, l
    fit: FitLengthScale | None = None
    noise: float | NoiseModel = 1e-8  # sigma^2
    features: int = 10_000  # M
    orthogonal: bool = False
    points: int | None = 500
    feature_points: int | None = 500
    active: ActiveQueries | None = field(default_factory=lambda: ActiveQueries(100, 1, 0.01))
    refresh: ActiveQueries | UnseenDirections | None = field(default_factory=lambda: UnseenDirections(80))
    initial: InitialDesign = field(default_factory=lambda: InitialDesign(161, 0.01, "orthogonal"))
    early: bool = True
    sends: Literal["weights", "gradient", "curvature"] = "gradient"
    length: CorrectionLength = field(default_factory=Measured)  # gamma_t
    steps: TrustRegion | None = field(default_factory=TrustRegion)
    vector: Literal["adaptive", "fixed"] = "adaptive"  # x' = x'' = x, or x_{r-1}
    device: str | None = None

    name: ClassVar[str] = "fzoos"
    label: ClassVar[str] = "FZooS"
    keeps_trajectory: ClassVar[bool] = True
    shares_seed: ClassVar[bool] = True
    told: ClassVar[tuple[str, ...]] = ("correction_length", "uncertainty", "step_scale")

    def __post_init__(self) -> None:
        _check_type("kernel", self.kernel, Kernel)
        _check_type("fit", self.fit, (FitLengthScale, type(None)))
        if not isinstance(self.noise, NoiseModel):
            check_number("noise (sigma^2)", self.noise, 0.0)
        check_count("features (M)", self.features, low=1)
        for name in ("points", "feature_points"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), low=1)
        _check_type("active", self.active, (ActiveQueries, type(None)))
        if self.active is not None and self.active.radius is None:
            raise ValueError("active needs a radius; only refresh can take it from |x_r - x_i|")
        _check_type("refresh", self.refresh, (ActiveQueries, UnseenDirections, type(None)))
        _check_type("initial", self.initial, InitialDesign)
        _check_type("length", self.length, CorrectionLength)
        if self.device is not None:
            check_device_name(self.device)
        if self.sends not in CORRECTIONS:
            raise ValueError(f"sends must be one of {', '.join(CORRECTIONS)}, got {self.sends!r}")
        _check_type("steps", self.steps, (TrustRegion, type(None)))
        if self.refresh is None and (self.early or self.sends != "weights" or self.steps is not None):
            raise ValueError(
                "early, steps and sends other than 'weights' need a refresh, but refresh is None; FZooS.weights() can "
                "do without"
            )
        if self.vector not in ("adaptive", "fixed"):
            raise ValueError(f"vector must be 'adaptive' or 'fixed', got {self.vector!r}")

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The settings of the paper's experiments; keyword arguments change single ones.

        Squared exponential kernel with l = 1, sigma^2 = 1e-6, M = 10 000, gamma_t = 1/t, 5 of 100 candidates within
        0.01 after each local step, 50 of 200 around x_r, the whole trajectory, iterates not projected.

        Example:
            >>> from fzoos import FZooS
            >>> FZooS.paper(features=1000).points is None
            True
        """
        settings: dict[str, Any] = {
            "kernel": SquaredExponential(1.0),
            "noise": 1e-6,
            "features": 10_000,
            "points": None,
            "feature_points": None,
            "active": ActiveQueries(100, 5, 0.01),
            "refresh": ActiveQueries(200, 50, None),
            "initial": InitialDesign(10, 0.01),
            "early": False,
            "sends": "weights",
            "length": Reciprocal(),
            "steps": None,
            "vector": "adaptive",
            "projected": False,
        }
        return cls(**(settings | changes))

    @classmethod
    def weights(cls, **changes: Any) -> Self:
        """Weights travel, as in the paper, with settings chosen for it; keyword arguments change single ones.

        For whoever wants the correction at any x, one exchange a round (`refresh=None`), or differential privacy, which
        leaves nothing of the single numbers that a measured length and step control send. M numbers travel, and there
        are more queries.

        Example:
            >>> from fzoos import FZooS
            >>> FZooS.weights(refresh=None).exchanges
            1
        """
        settings: dict[str, Any] = {
            "noise": 1e-6,
            "active": ActiveQueries(100, 5, 0.01),
            "refresh": ActiveQueries(200, 50, None),
            "initial": InitialDesign(100, 0.01),
            "early": False,
            "sends": "weights",
            "length": Constant(1.0),
            "steps": None,
        }
        return cls(**(settings | changes))

    @property
    def carried(self) -> tuple[str, ...]:
        """The length scale, the step scale, and the direction of curvature."""
        return ("log_length_scale", "log_step", *(["g"] if self.sends == "curvature" else []))

    @property
    def refreshes_first(self) -> bool:
        """`early`."""
        return self.early

    @property
    def exchanges(self) -> int:
        """2, or 1 without queries at the server's x."""
        return 1 if self.refresh is None else 2

    def queries(self, dim: int, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """(T - 1) picks, the initial design in the client's first round, 1 + picks at a refresh."""
        count = (local_steps - 1) * (self.active.picks if self.active else 0)
        count += self.initial.count(dim) if first else 0
        if refreshed and self.refresh and not (first and self.early):  # early newcomers have just asked around x
            count += 1 + self.refresh.count(dim)
        return count

    def payload(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """w_i or the gradient, log l where it is fitted, and what a measured length and step control need."""
        shapes: dict[str, tuple[int, ...]] = {"w": (self.features,)} if self.sends == "weights" else {"g": (dim,)}
        shapes |= {"h": (dim,)} if self.sends == "curvature" else {}
        shapes |= {} if self.fit is None else {"log_length_scale": (1,)}
        shapes |= {} if self.steps is None else {"log_step": (1,)}
        return shapes | ({"measured": (2,)} if isinstance(self.length, Measured) else {})

    def client(self, site: Site) -> ClientHalf:
        """The client half; only here must the device be there: settings may come from another machine."""
        if self.device is not None:
            check_device(self.device)
        return _Client(site, self)


def _check_type(name: str, value: Any, types: type | tuple[type, ...]) -> None:
    if not isinstance(value, types):
        expected = types if isinstance(types, tuple) else (types,)
        raise TypeError(f"{name} must be {' or '.join(t.__name__ for t in expected)}, got {value!r}")


class _Client(ClientHalf):
    def __init__(self, site: Site, settings: FZooS) -> None:
        super().__init__(site)
        self._settings = settings
        self._correction = CORRECTIONS[settings.sends](settings, site)
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
        self._adopt(request)
        self._correction.prepare(request)
        if not (new and self._settings.early):
            # A newcomer has just asked at x: it has nothing to predict.
            predicted = self._surrogate.at(x).mean(x) if self._settings.steps and not new else None
            self._steps.see(x, self._query_around(x), predicted, self._sigma)
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
        if self._settings.exchanges == 1:
            self._adopt(request)
        elif "log_step" in request.arrays:
            self._steps.hear(float(request.arrays["log_step"][0]))
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
        return self._surrogate.at(x).grad_mean(x)

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        if not self._corrects:
            return None
        self._moment = (self._moment[0], t)
        vector = self._correction.vector(x) if self._fixed is None else self._fixed
        return self._settings.length(self._describe(x)), vector

    def _describe(self, x: FloatArray) -> Moment:
        round, step = self._moment
        trajectory, site = self.site.trajectory, self.site
        return Moment(
            step=step,
            round=round,
            local_steps=site.local_steps,
            clients=site.clients,
            dim=site.dim,
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
        refresh, trajectory = self._settings.refresh, self.site.trajectory
        if isinstance(refresh, UnseenDirections):
            radius = self._widened(self._half_spread(x) if refresh.radius is None else refresh.radius)
            near = trajectory.x[trajectory.nearest(x, refresh.known)]
            near = near[np.argsort(np.sum((near - x) ** 2, axis=1), kind="stable")]
            y = trajectory.query(self.site.project(refresh.around(x, radius, self.site.rng, near)), "refresh")
            return float(y[0])
        y = trajectory.query(x[None, :], "refresh")
        self._query_actively(x, refresh, "refresh")
        return float(y[0])

    def _query_actively(self, x: FloatArray, active: ActiveQueries | None, purpose: Purpose) -> float:
        """Query the most uncertain candidates around x; return the uncertainty at x as a share of the prior's."""
        points = x[None, :]
        if active is not None:
            radius = self._widened(self._half_spread(x) if active.radius is None else active.radius)
            candidates = self.site.project(uniform_around(x, active.candidates, radius, self.site.rng))
            points = np.concatenate([points, candidates])
        gp = self._surrogate.at(x)
        uncertainty = gp.grad_uncertainty(points)
        if active is not None:
            self.site.trajectory.query(active.choose(points[1:], uncertainty[1:]), purpose)
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
        if self.site.trajectory.count:
            return False
        initial = self._settings.initial
        initial = replace(initial, radius=self._widened(initial.radius))
        y = self.site.trajectory.query(self.site.project(initial.around(x, self.site.rng)), "initial")
        if initial.kind == "orthogonal":  # then x is its first point
            self._steps.see(x, float(y[0]))
        return True

    # The payload

    def _payload(self, x: FloatArray, round: int) -> Arrays:
        """What the correction needs, log l where it is fitted, log s, and what a measured length needs."""
        settings, trajectory = self._settings, self.site.trajectory
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

    def _adopt(self, request: Message) -> None:
        """The length scale and the step scale that all go on with."""
        fit = self._settings.fit
        if "log_step" in request.arrays:
            self._steps.hear(float(request.arrays["log_step"][0]))
        if fit is not None and "log_length_scale" in request.arrays:
            told = float(request.arrays["log_length_scale"][0])
            # Nobody fits a scale beyond these; one that lies must not break the others.
            scale = math.exp(min(max(told, math.log(fit.low)), math.log(fit.high)))
            self._use(self._kernel.with_length_scale(scale))

    def _fit_noise(self, x: FloatArray) -> None:
        """Find the ridge around x, once a round; a change too small to matter is not worth a new factor."""
        noise, round, trajectory = self._settings.noise, self._moment[0], self.site.trajectory
        if not isinstance(noise, NoiseModel) or self._ridge_round == round:
            return
        near = trajectory.nearest(x, noise.points)
        found = noise.ridge(self._kernel, trajectory.x[near], trajectory.y[near])
        self._ridge_round = round
        self._sigma = math.sqrt(found.ratio) * (found.amplitude or 0.0)
        self._least_radius = best_radius(self._kernel, found.ratio, self.site.dim, self.site.dim)
        if not found.resembles(self._ridge):
            self._ridge = found
            self._surrogate.use(found)

    def _use(self, kernel: Kernel) -> None:
        """Make the surrogates anew with this kernel."""
        settings = self._settings
        self._kernel = kernel
        self._surrogate = LocalSurrogate(self.site.trajectory, kernel, self._ridge, settings.points, settings.device)
        self._correction.use(kernel)

    def diagnostics(self) -> dict[str, float]:
        """Beside the correction length: the posterior over the prior trace (1: nothing is known), mean over steps."""
        told = super().diagnostics()
        if self._settings.steps is not None:
            told["step_scale"] = self._steps.scale
        if self._uncertainties:  # a single local step has nothing after it to explore for
            told["uncertainty"] = float(np.mean(self._uncertainties))
        return told
