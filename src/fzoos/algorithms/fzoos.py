"""FZooS: federated zeroth-order optimisation with trajectory-informed surrogate gradients (Shu et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from fzoos._check import check_count, check_number
from fzoos.algorithms.base import Algorithm, ClientHalf, Site
from fzoos.arrays import Array, FloatArray, check_device, check_device_name, to_device, to_numpy
from fzoos.federation.message import Arrays, Message
from fzoos.kernels import Kernel, Matern52, SquaredExponential
from fzoos.lengths import Constant, CorrectionLength, Moment, Reciprocal
from fzoos.queries import ActiveQueries, InitialDesign, uniform_around
from fzoos.surrogates.fit import FitLengthScale, fit_length_scale
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate, shared_features
from fzoos.surrogates.local import LocalSurrogate
from fzoos.trajectory import Purpose

__all__ = ["FZooS"]


@dataclass(frozen=True)
class FZooS(Algorithm):
    """FZooS: g_hat = grad mu_i(x) + gamma_t (grad mu_hat(x) - grad mu_hat_i(x)).

    The local gradient comes from a Gaussian process on the client's own queries, the correction from random Fourier
    features of all clients' processes, of which only the M averaged weights travel. The plain defaults are those that
    did best across heterogeneities on the quadratic task (benchmarks/README.md); `FZooS.paper()` has the paper's.

    Args:
        kernel: k and its length scale l, in units of the unit cube.
        fit: fit l by marginal likelihood each round; None keeps the kernel's.
        noise: sigma^2, the ridge, relative to the variance of the observations in use.
        features: M.
        points: how many of the nearest points the local surrogate uses, besides those asked around x itself; None: all
            of the trajectory.
        feature_points: the same for the features' surrogate.
        active: queries after each local step but the last; None: no such queries.
        refresh: queries around the server's x, besides x itself, before the payload is renewed; None: no such queries,
            and one exchange a round instead of two.
        initial: queries before a client's first round.
        length: gamma_t.
        vector: "adaptive": the correction vector is taken at the current x; "fixed": at x_{r-1} for the whole round.
        device: None for NumPy, or a PyTorch device such as "cuda" for the surrogates' arithmetic.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        Y. Shu et al., "Federated Zeroth-Order Optimization using Trajectory-Informed Surrogate Gradients", 2023.

    Deviations from the paper:
        Uncertainty is ranked by the trace of the gradient's posterior covariance: its spectral norm is constant as long
        as there are fewer points than dimensions. Features carry sqrt(2/M). Observations are standardised.

    Example:
        >>> import numpy as np
        >>> from fzoos import FZooS, minimize
        >>> sites = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in (0.2, 0.4)]
        >>> result = minimize(sites, x0=np.zeros(5), bounds=(-1, 1), algorithm=FZooS(features=500), rounds=10, seed=0)
        >>> bool(np.all(abs(result.x - 0.3) < 0.05))
        True
    """

    kernel: Kernel = field(default_factory=lambda: Matern52(8.0))  # k, l
    fit: FitLengthScale | None = None
    noise: float = 1e-6  # sigma^2
    features: int = 10_000  # M
    points: int | None = 500
    feature_points: int | None = 500
    active: ActiveQueries | None = field(default_factory=lambda: ActiveQueries(100, 5, 0.01))
    refresh: ActiveQueries | None = field(default_factory=lambda: ActiveQueries(200, 50, None))
    initial: InitialDesign = field(default_factory=lambda: InitialDesign(100, 0.01))
    length: CorrectionLength = field(default_factory=Constant)  # gamma_t
    vector: Literal["adaptive", "fixed"] = "adaptive"  # x' = x'' = x, or x_{r-1}
    device: str | None = None

    name: ClassVar[str] = "fzoos"
    label: ClassVar[str] = "FZooS"
    keeps_trajectory: ClassVar[bool] = True
    shares_seed: ClassVar[bool] = True
    carried: ClassVar[tuple[str, ...]] = ("log_length_scale",)

    def __post_init__(self) -> None:
        _check_type("kernel", self.kernel, Kernel)
        _check_type("fit", self.fit, (FitLengthScale, type(None)))
        check_number("noise (sigma^2)", self.noise, 0.0)
        check_count("features (M)", self.features, low=1)
        for name in ("points", "feature_points"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), low=1)
        _check_type("active", self.active, (ActiveQueries, type(None)))
        if self.active is not None and self.active.radius is None:
            raise ValueError("active needs a radius; only refresh can take it from |x_r - x_i|")
        _check_type("refresh", self.refresh, (ActiveQueries, type(None)))
        _check_type("initial", self.initial, InitialDesign)
        _check_type("length", self.length, CorrectionLength)
        if self.device is not None:
            check_device_name(self.device)
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
            "length": Reciprocal(),
            "vector": "adaptive",
            "projected": False,
        }
        return cls(**(settings | changes))

    @property
    def exchanges(self) -> int:
        """2, or 1 without queries at the server's x."""
        return 1 if self.refresh is None else 2

    def queries(self, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """(T - 1) picks, the initial design in the client's first round, 1 + picks at a refresh."""
        count = (local_steps - 1) * (self.active.picks if self.active else 0)
        count += self.initial.points if first else 0
        count += 1 + self.refresh.picks if refreshed and self.refresh else 0
        return count

    def payload(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """w_i, and log l where it is fitted."""
        return {"w": (self.features,)} | ({} if self.fit is None else {"log_length_scale": (1,)})

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
        self._seed = 0  # the shared seed of the features, told by the server
        self._fourier: FourierSurrogate | None = None
        self._use(settings.kernel)
        self._own: Array | None = None  # w_i
        self._own_round = 0
        self._own_features: FourierFeatures | None = None  # those that w_i belongs to
        self._difference: Array | None = None  # w - w_i
        self._fixed: FloatArray | None = None  # the correction vector of the round, if it is fixed
        self._last: FloatArray | None = None  # where the last local steps ended, x_i
        self._moment = (0, 0)  # r, t
        self._uncertainties: list[float] = []

    # The three parts of a round

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Query x and around it, then renew w_i."""
        self._meet(x, request)
        self._adopt_length_scale(request)
        assert self._settings.refresh is not None
        self.site.trajectory.query(x[None, :], "refresh")
        self._query_actively(x, self._settings.refresh, "refresh")
        return self._payload(x, request.round)

    def begin(self, x: FloatArray, request: Message) -> None:
        """w - w_i for this round; the first round has no w and a newcomer no w_i: then there is no correction."""
        super().begin(x, request)
        self._meet(x, request)
        self._uncertainties = []
        known = "w" in request.arrays and self._own is not None
        if self._settings.fit:  # an older w_i had another length scale than w
            known = known and self._own_round == request.round - (self._settings.exchanges == 1)
        self._difference = to_device(request.arrays["w"], self._settings.device) - self._own if known else None
        self._fixed = self._correction_vector(x) if known and self._settings.vector == "fixed" else None
        if self._settings.exchanges == 1:
            self._adopt_length_scale(request)

    def end(self, x: FloatArray) -> Arrays:
        """Without a refresh exchange, w_i travels with x_i."""
        self._last = x
        return self._payload(x, self._moment[0]) if self._settings.exchanges == 1 else {}

    # The estimate: g_hat = grad mu_i(x) + gamma_t (grad mu_hat(x) - grad mu_hat_i(x))

    def local_gradient(self, x: FloatArray) -> FloatArray:
        return self._surrogate.at(x).grad_mean(x)

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        if self._difference is None:
            return None
        self._moment = (self._moment[0], t)
        vector = self._correction_vector(x) if self._fixed is None else self._fixed
        return self._settings.length(self._describe(x)), vector

    def _correction_vector(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T (w - w_i)."""
        assert self._own_features is not None
        return self._own_features.grad(x, self._difference)

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
            noise=self._settings.noise,
            points=len(trajectory),
            mean_squared_distance=lambda: float(np.mean(np.sum((trajectory.x - x) ** 2, axis=1))),
        )

    # Queries

    def explore(self, x: FloatArray) -> None:
        """Active queries around the new iterate."""
        self._uncertainties.append(self._query_actively(x, self._settings.active, "active"))

    def _query_actively(self, x: FloatArray, active: ActiveQueries | None, purpose: Purpose) -> float:
        """Query the most uncertain candidates around x; return the uncertainty at x as a share of the prior's."""
        points = x[None, :]
        if active is not None:
            radius = self._half_spread(x) if active.radius is None else active.radius
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

    def _meet(self, x: FloatArray, request: Message) -> None:
        """Take note of the round; before the first one, query the initial design around x."""
        self._moment = (request.round, 0)
        self._seed = int(request.scalars["seed"])
        trajectory, initial = self.site.trajectory, self._settings.initial
        if trajectory.count == 0:
            design = uniform_around(x, initial.points, initial.radius, self.site.rng)
            trajectory.query(self.site.project(design), "initial")

    # The payload

    def _payload(self, x: FloatArray, round: int) -> Arrays:
        """w_i over the points in use around x, and log l where it is fitted."""
        settings, trajectory = self._settings, self.site.trajectory
        if self._fourier is None:
            features = shared_features(self._seed, settings.features, self.site.dim, self._kernel, settings.device)
            self._fourier = FourierSurrogate(features, settings.noise)
        index = trajectory.nearest(x, settings.feature_points)
        self._own = self._fourier.weights(index, trajectory.x, trajectory.y)
        self._own_features, self._own_round = self._fourier.features, round
        payload = {"w": to_numpy(self._own)}
        if settings.fit is not None:
            near = trajectory.nearest(x, settings.fit.points)
            fitted = fit_length_scale(
                self._kernel, settings.noise, trajectory.x[near], trajectory.y[near], settings.fit
            )
            payload["log_length_scale"] = np.array([math.log(fitted)])
        return payload

    def _adopt_length_scale(self, request: Message) -> None:
        if "log_length_scale" in request.arrays:
            self._use(self._kernel.with_length_scale(math.exp(float(request.arrays["log_length_scale"][0]))))

    def _use(self, kernel: Kernel) -> None:
        """Make the surrogates anew with this kernel."""
        settings = self._settings
        self._kernel = kernel
        self._surrogate = LocalSurrogate(self.site.trajectory, kernel, settings.noise, settings.points, settings.device)
        self._fourier = None

    def diagnostics(self) -> dict[str, float]:
        """Beside the correction length: the posterior over the prior trace (1: nothing is known), mean over steps."""
        if not self._uncertainties:  # a single local step has nothing after it to explore for
            return super().diagnostics()
        return super().diagnostics() | {"uncertainty": float(np.mean(self._uncertainties))}
