"""FZooS: federated zeroth-order optimisation with trajectory-informed surrogate gradients (Shu et al. 2023).

=========  =======  ==========================================================================================
symbol     shape    meaning
=========  =======  ==========================================================================================
x_r        (d,)     the server's iterate after round r
x_{r,t}    (d,)     client i's iterate after local step t of round r
D_i        --       client i's trajectory: every (x, y) that it has queried; it never leaves the client
mu_i       --       posterior mean of the Gaussian process conditioned on D_i
phi        --       M random Fourier features of the kernel, the same for all clients (from a shared seed)
w_i, w     (M,)     weights of client i's surrogate in these features, and their average over the clients
gamma_t    scalar   gradient-correction length at local step t
=========  =======  ==========================================================================================

Algorithm 2 of the paper at client i in round r, with the numbers of its lines:

    3     x_{r,0} <- x_{r-1}, with the averaged weights w of round r-1                                (eq. 7)
    4     for t = 1..T:
    5         condition mu_i on the trajectory D_i                                                    (eq. 5)
    6         x_{r,t} <- x_{r,t-1} - optimizer(g_hat),  where
                  g_hat = grad mu_i(x) + gamma_t (grad phi(x)^T w - grad phi(x)^T w_i)                 (eq. 8)
              query x_{r,t}, which joins D_i, and then actively around it unless t = T
    7     send x_{r,T}, receive x_r; query x_r and actively around it
    8     w_i <- weights of the surrogate of D_i in the features                                       (eq. 6)
    9     send w_i, receive w; the server's lines 10 and 11 are the averages of x and w

Lines 7 to 9 run when the next round begins, which saves the queries after the last one. All deviations, with their
reasons, are in the documentation under "From the paper to the code".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fzoos._util.arrays import FloatArray, check_device, check_device_name
from fzoos._util.checks import check_count, check_positive, check_type
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import ClientContext, ClientHalf, Part, RefreshedServerHalf, SeededScalars, ServerHalf
from fzoos.algorithms.correction_lengths import CorrectionLength, Measured, Moment, Reciprocal
from fzoos.algorithms.local_steps import GradientHalf, GradientSteps
from fzoos.algorithms.query_designs import ActiveQueries, uniform_around
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.ledger import Purpose
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate, shared_features
from fzoos.surrogates.kernels import Kernel, SquaredExponential
from fzoos.surrogates.local import LocalSurrogate

__all__ = ["FZooS"]

_INITIAL_RADIUS = 0.01  # per coordinate, of the initial design: as of the active queries


@dataclass(frozen=True)
class FZooS(GradientSteps):
    """The paper's Algorithm 2; the defaults are the settings of its experiments.

    A client's local gradient is that of a Gaussian process conditioned on all points that the client has queried. The
    clients' surrogates travel as the weights of M random Fourier features, so that every client can correct its
    gradient towards that of F at each iterate.

    Args:
        kernel: k with its length scale, in units of the unit cube. The text allows any shift-invariant kernel.
        noise: sigma^2, relative to the variance of the observations in use. 1e-6 is the authors' program's value.
        features: M, the number of random Fourier features (text: 10 000).
        initial: queries around x_0 before a client's first round, beside x_0 itself. 10 is the authors' program's
            value; the text begins with an empty trajectory, from which no gradient follows.
        active: queries around each new iterate but the last of a round (text: 5 of 100 candidates within 0.01); None:
            no such queries.
        refresh: queries around the server's x_r before the weights are renewed (the text says "query around x_r"; 50
            of 200 and half the mean |x_r - x_i| are the authors' program's values); None: no queries at x_r, and x and
            weights travel in one exchange.
        points: how many of the nearest points the local surrogate is conditioned on; None, the text: the whole
            trajectory. The authors' program uses 150.
        feature_points: the same for the weights. The authors' program uses 500.
        length: gamma_t, a `CorrectionLength` (text: 1/t in the experiments, Cor. 1 and Cor. 2 in the theory).
            `Measured()` is ours and recommended: Cor. 1 without its constants.
        vector: "adaptive": the correction is evaluated at the current iterate; "fixed": at x_{r-1} for a whole round,
            the text's ablation.
        device: None for NumPy, or a PyTorch device such as "cuda" for the surrogates' arithmetic.
        local_steps: T, the number of local steps of each client in a round (text: 10, and 5 to 20).
        optimizer: turns gradient estimates into local steps (text: Adam, eta = 0.01).
        projected: whether iterates and queries are clipped to the box. The paper minimises over [0, 1]^d and leaves
            out how its iterates stay there.

    Reference:
        Y. Shu et al., "Federated Zeroth-Order Optimization using Trajectory-Informed Surrogate Gradients", 2023.

    Example:
        >>> import numpy as np
        >>> from fzoos import FZooS, minimize
        >>> clients = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in (0.2, 0.4)]
        >>> small = FZooS(features=1000)
        >>> result = minimize(clients, x0=np.zeros(5), bounds=(-1, 1), algorithm=small, rounds=10, seed=0)
        >>> bool(np.all(abs(result.x - 0.3) < 0.05))
        True
    """

    kernel: Kernel = field(default_factory=lambda: SquaredExponential(1.0))  # k, l
    noise: float = 1e-6  # sigma^2
    features: int = 10_000  # M
    initial: int = 10
    active: ActiveQueries | None = field(default_factory=lambda: ActiveQueries(100, 5, 0.01))
    refresh: ActiveQueries | None = field(default_factory=lambda: ActiveQueries(200, 50))
    points: int | None = None
    feature_points: int | None = None
    length: CorrectionLength = field(default_factory=Reciprocal)  # gamma_t
    vector: Literal["adaptive", "fixed"] = "adaptive"
    device: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type("kernel", self.kernel, Kernel)
        check_type("length", self.length, CorrectionLength)
        check_positive("noise (sigma^2)", self.noise)
        check_count("features (M)", self.features, low=1)
        check_count("initial", self.initial)
        for name in ("points", "feature_points"):
            check_count(name, 1 if getattr(self, name) is None else getattr(self, name), low=1)
        for name in ("active", "refresh"):
            check_type(name, getattr(self, name), ActiveQueries, optional=True)
        if self.active is not None and self.active.radius is None:
            raise ValueError("active needs a radius; only refresh can take it from |x_r - x_i|")
        if isinstance(self.length, Measured) and self.refresh is None:
            raise ValueError("length = Measured() compares the clients' gradients at x_r: it needs refresh, got None")
        if self.vector not in ("adaptive", "fixed"):
            raise ValueError(f"vector must be 'adaptive' or 'fixed', got {self.vector!r}")
        if self.device is not None:
            check_device_name(self.device)

    def client(self, context: ClientContext) -> ClientHalf:
        """Make the client half; only here must the device exist: settings may come from another machine."""
        if self.device is not None:
            check_device(self.device)
        return _Client(context, self)

    def server(self, dim: int) -> ServerHalf:
        """Average x and w; with a refresh in two exchanges, where late weights are of use: they are a function's."""
        late: Literal["keep", "refuse"] = "refuse" if self.refresh is None else "keep"
        parts = {"w": Part((self.features,), late=late)}
        if isinstance(self.length, Measured):  # ||grad phi(x_r)^T w_i||^2
            parts["square"] = Part((1,), "refuse", 'length = { name = "Reciprocal" }', low=0.0, late=late)
        half = ServerHalf if self.refresh is None else RefreshedServerHalf
        return half(dim, parts, SeededScalars)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return 1 + refresh for x_r; T iterates and the active queries between them, x_0 and its design before."""
        if request.kind == "refresh":
            return 1 + (self.refresh.picks if self.refresh else 0)
        steps = self.steps_in(request)
        return steps + (steps - 1) * (self.active.picks if self.active else 0) + first * (1 + self.initial)


class _Client(GradientHalf):
    """Client i of Algorithm 2."""

    def __init__(self, context: ClientContext, settings: FZooS) -> None:
        super().__init__(context, settings)
        context.trajectory.store_points()
        self._settings = settings
        self.largest_matrix = context.dim * settings.features  # the frequencies
        of_surrogate = settings.kernel, settings.noise, settings.points, settings.device
        self._surrogate = LocalSurrogate(context.trajectory, *of_surrogate)
        self._fourier: FourierSurrogate | None = None
        self._own: FloatArray | None = None  # w_i
        self._difference: FloatArray | None = None  # w - w_i
        self._fixed: FloatArray | None = None  # the correction vector at x_{r-1}
        self._last: FloatArray | None = None  # x_{r,T}, where the last local steps ended
        self._heterogeneity: float | None = None  # G of a measured length
        self._round, self._seed = 0, 0

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Lines 7 to 9: query x_r and actively around it, renew w_i."""
        design, self._seed = self._settings.refresh, int(request.scalars["seed"])
        assert design is not None
        self.context.query(x[None], "refresh", at_server_x=True)
        spread = 0.0 if self._last is None else 0.5 * float(np.mean(np.abs(x - self._last)))
        self._query_actively(x, design, design.radius or spread or _INITIAL_RADIUS, "refresh")
        return self._weights(x)

    def begin(self, x: FloatArray, request: Message) -> None:
        """Line 3: x_{r,0} = x_{r-1}, and w. In a client's first round there is no w_i to compare it with."""
        super().begin(x, request)
        self._round, self._seed = request.round, int(request.scalars["seed"])
        if not self.context.evaluator.has_queried:
            design = uniform_around(x, self._settings.initial, _INITIAL_RADIUS, self.context.rng)
            self.context.query(np.concatenate([x[None], design]), "initial", at_server_x=True)
        w = request.arrays.get("w")
        self._difference = None if w is None or self._own is None else w - self._own
        known = self._difference is not None
        self._fixed = self._vector(x) if known and self._settings.vector == "fixed" else None
        self._heterogeneity = None
        if known and "square" in request.arrays:
            g = self._features.grad(x, w)
            self._heterogeneity = max(float(request.arrays["square"][0] - g @ g), 0.0)

    def local_gradient(self, x: FloatArray) -> FloatArray:
        """Line 5: grad mu_i(x), the posterior mean of eq. 5."""
        return self._surrogate.at(x).grad_mean(x)

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        """Line 6: gamma_t and grad phi(x)^T (w - w_i) of eq. 8."""
        if self._difference is None:
            return None
        return self._length(x, t), self._vector(x) if self._fixed is None else self._fixed

    def explore(self, x: FloatArray) -> None:
        """Line 6: x_{r,t} joins the trajectory; active queries around it."""
        self.context.query(x[None], "iterate")
        if self._settings.active is not None:
            assert self._settings.active.radius is not None
            self._query_actively(x, self._settings.active, self._settings.active.radius, "active")

    def end(self, x: FloatArray) -> Arrays:
        """x_{r,T} joins the trajectory; without a refresh w_i is made of it now and travels with x_{r,T}."""
        self.context.query(x[None], "iterate")
        self._last = x
        return {"x": x, **(self._weights(x) if self._settings.refresh is None else {})}

    def release(self) -> None:
        """Release what can be computed again from the trajectory."""
        self._surrogate.release()
        self._fourier = None

    def _query_actively(self, x: FloatArray, design: ActiveQueries, radius: float, purpose: Purpose) -> None:
        """The candidates around x at which the gradient is least certain."""
        uncertainty = self._surrogate.at(x).grad_uncertainty
        self.context.query(design.select(x, radius, self.context.rng, self.context.project, uncertainty), purpose)

    @property
    def _features(self) -> FourierFeatures:
        """The feature map phi, one copy for all clients of a process."""
        settings = self._settings
        return shared_features(self._seed, settings.features, self.context.dim, settings.kernel, settings.device)

    def _weights(self, x: FloatArray) -> Arrays:
        """Line 8: w_i (eq. 6), of the whole trajectory or of its points nearest to x."""
        trajectory = self.context.trajectory
        self._fourier = self._fourier or FourierSurrogate(self._features, self._settings.noise)
        nearest = trajectory.nearest(x, self._settings.feature_points)
        self._own = self._fourier.weights(nearest, trajectory.x, trajectory.y)
        if not isinstance(self._settings.length, Measured):
            return {"w": self._own}
        g = self._features.grad(x, self._own)
        return {"w": self._own, "square": np.array([g @ g])}

    def _vector(self, x: FloatArray) -> FloatArray:
        """The correction vector grad phi(x)^T (w - w_i)."""
        return self._features.grad(x, self._difference)

    def _length(self, x: FloatArray, t: int) -> float:
        """Return the correction length gamma_t of local step t at x."""
        settings, trajectory = self._settings, self.context.trajectory
        place = t, self._round, self.local_steps, self.context.clients, self.context.dim
        known = settings.kernel, settings.noise, len(trajectory)
        distance = lambda: float(np.mean(np.sum((trajectory.x - x) ** 2, axis=1)))  # noqa: E731
        error = lambda: float(np.sum((self.local_gradient(x) - self._features.grad(x, self._own)) ** 2))  # noqa: E731
        return settings.length(Moment(*place, *known, distance, error, self._heterogeneity))

    def state(self) -> StateDict:
        own = {"w": self._own, "last": self._last, "shared_seed": self._seed}
        fourier = {} if self._fourier is None else prefixed("fourier", self._fourier.state())
        return {**super().state(), **own, **prefixed("local", self._surrogate.state()), **fourier}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self._own, self._last, self._seed = state.get("w"), state.get("last"), state["shared_seed"]
        self._surrogate.restore(part_of("local", state))
        self._fourier = None
        if fourier := part_of("fourier", state):
            self._fourier = FourierSurrogate(self._features, self._settings.noise)
            self._fourier.restore(fourier, self.context.trajectory.x)
