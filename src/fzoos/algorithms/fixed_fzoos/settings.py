"""FZooS: federated zeroth-order optimisation with trajectory-informed surrogate gradients (Shu et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from fzoos._util.arrays import check_device, check_device_name
from fzoos._util.checks import check_count, check_number
from fzoos._util.renamed import renamed_fields
from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf, PayloadPart
from fzoos.algorithms.fixed_fzoos.client import FZooSClient, payload_parts
from fzoos.algorithms.fixed_fzoos.correction import CORRECTIONS
from fzoos.algorithms.fixed_fzoos.correction_lengths import Constant, CorrectionLength, Measured, Reciprocal
from fzoos.algorithms.fixed_fzoos.query_designs import ActiveQueries, InitialDesign, UnseenDirections
from fzoos.algorithms.fixed_fzoos.step_scale import TrustRegion
from fzoos.surrogates.kernels import Kernel, Matern52, SquaredExponential
from fzoos.surrogates.length_scale import FitLengthScale
from fzoos.surrogates.noise import NoiseModel

__all__ = ["FixedFZooS"]


@renamed_fields(early="refresh_first_round")
@dataclass(frozen=True)
class FixedFZooS(Algorithm):
    """FZooS with fixed settings: g_hat = grad mu_i(x) + gamma_t (grad mu_hat(x) - grad mu_hat_i(x)).

    The local gradient comes from a Gaussian process on the client's own queries, the correction from what all clients'
    processes say of their gradients: d numbers each, or the weights of M random Fourier features. `FZooS.paper()` and
    `FZooS.weights()` make such settings; the plain ones were the default of release 0.1.0.

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
        refresh_first_round: whether the first round begins with a refresh too, in which newcomers make their initial
            queries: there is then a correction from the first step on.
        sends: "weights": w_i, M numbers from which the gradient anywhere follows; "gradient": grad mu_i(x_r), d
            numbers, and the correction vector is the same during the round.
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
        >>> from fzoos import FixedFZooS, minimize
        >>> sites = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in (0.2, 0.4)]
        >>> result = minimize(sites, x0=np.zeros(5), bounds=(-1, 1), algorithm=FixedFZooS(), rounds=10, seed=0)
        >>> bool(np.all(abs(result.x - 0.3) < 0.05))
        True
    """

    kernel: Kernel = field(default_factory=lambda: Matern52(8.0), metadata={"unnamed": Matern52})  # k, l
    fit: FitLengthScale | None = None
    noise: float | NoiseModel = 1e-8  # sigma^2
    features: int = 10_000  # M
    orthogonal: bool = False
    points: int | None = 500
    feature_points: int | None = 500
    active: ActiveQueries | None = field(default_factory=lambda: ActiveQueries(100, 1, 0.01))
    refresh: ActiveQueries | UnseenDirections | None = field(default_factory=lambda: UnseenDirections(80))
    initial: InitialDesign = field(default_factory=lambda: InitialDesign(161, 0.01, "orthogonal"))
    refresh_first_round: bool = True
    sends: Literal["weights", "gradient"] = "gradient"
    length: CorrectionLength = field(default_factory=Measured)  # gamma_t
    steps: TrustRegion | None = field(default_factory=TrustRegion)
    vector: Literal["adaptive", "fixed"] = "adaptive"  # x' = x'' = x, or x_{r-1}
    device: str | None = None

    shares_seed: ClassVar[bool] = True
    reported: ClassVar[tuple[str, ...]] = ("correction_length", "uncertainty", "step_scale")
    presets: ClassVar[tuple[str, ...]] = ("paper", "weights")

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
        _check_sends(self.sends)
        _check_type("steps", self.steps, (TrustRegion, type(None)))
        if self.refresh is None and (self.refresh_first_round or self.sends != "weights" or self.steps is not None):
            raise ValueError(
                "refresh_first_round, steps and sends other than 'weights' need a refresh, but refresh is None; "
                "FZooS.weights() can do without"
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
            "refresh_first_round": False,
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
            "refresh_first_round": False,
            "sends": "weights",
            "length": Constant(1.0),
            "steps": None,
        }
        return cls(**(settings | changes))

    @property
    def refreshes_first(self) -> bool:
        """`refresh_first_round`."""
        return self.refresh_first_round

    @property
    def exchanges(self) -> int:
        """2, or 1 without queries at the server's x."""
        return 1 if self.refresh is None else 2

    @property
    def asks_x(self) -> bool:
        """In a refresh."""
        return self.refresh is not None

    def keeps_trajectory(self, dim: int) -> bool:
        """True."""
        return True

    def queries(self, dim: int, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """(T - 1) picks, the initial design in the client's first round, 1 + picks at a refresh."""
        count = (local_steps - 1) * (self.active.picks if self.active else 0)
        count += self.initial.count(dim) if first else 0
        just_asked = first and self.refresh_first_round  # a newcomer's initial queries are around the same x
        if refreshed and self.refresh and not just_asked:
            count += 1 + self.refresh.count(dim)
        return count

    @property
    def keeps_answers(self) -> bool:
        """Surrogates are functions: at another x they still are the client's. A refresh keeps them young."""
        return self.exchanges == 2

    def payload(self, dim: int) -> Mapping[str, PayloadPart]:
        """What the client's parts send: w_i or g_i, log l_i where it is fitted, what step control and gamma need."""
        return payload_parts(self, dim)

    def largest_matrix(self, dim: int) -> int:
        """The frequencies, M d numbers, or the points in use."""
        return dim * max(self.features if self.sends == "weights" else 0, self.points or 0)

    @property
    def in_step(self) -> bool:
        """On a GPU: elsewhere it would be worth little, and the objectives' thread stays the caller's."""
        return self.device is not None and self.device.startswith("cuda")

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half; only here must the device be there: settings may come from another machine."""
        if self.device is not None:
            check_device(self.device)
        return FZooSClient(context, self)


FixedFZooS.name, FixedFZooS.label = "fzoos", "FZooS"  # in a study's file it is FZooS with settings


def _check_sends(sends: str) -> None:
    if sends == "curvature":  # an option before it was measured
        raise ValueError(
            "sends = 'curvature' is no longer an option: it was worth one round at one heterogeneity for 1.7 times the "
            "bytes; leave `sends` out for 'gradient', which is closest to it"
        )
    if sends not in CORRECTIONS:
        raise ValueError(f"sends must be one of {', '.join(CORRECTIONS)}, got {sends!r}")


def _check_type(name: str, value: Any, types: type | tuple[type, ...]) -> None:
    if not isinstance(value, types):
        expected = types if isinstance(types, tuple) else (types,)
        raise TypeError(f"{name} must be {' or '.join(t.__name__ for t in expected)}, got {value!r}")
