"""Few dimensions, where the surrogates know all directions: a federated trust region on Gaussian processes.

All in the unit cube; Delta is half the width of the trust region. README.md has the algorithm in one piece. Clients
and server run in one process; what would travel is the `Reply` and the proposal of each client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.prototypes.problems import Trace
from fzoos._util.arrays import FloatArray

FIRST_DELTA, LEAST_DELTA, MOST_DELTA = 0.1, 1e-9, 0.5
LENGTHS = np.geomspace(0.3, 30, 7)  # l, in units of rho
WEIGHTS = (0, 100)  # b: the quadratic part is not there, or free
RIDGES = (1e-13, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1)
NOISY, MORE = 1e-3, 3  # from this ridge on a client has noise, and uses three times as many points
REACH = 30  # points further than REACH Delta sqrt(d) are left out while enough others are left
MEMORY = 15  # averaged gradients
TAU = 0.2  # prediction error at which Delta stays
SMALL = 0.1  # Delta shrinks where less than this share of it is used
OUTLIERS = 3  # points that are removed at once, at most
TOLERANCE = 1e-6  # three moves below: converged
JITTER = 1e-12
FENCE_RIDGE = 1e-8
TINY = 1e-300

Objective = Callable[[FloatArray], float]  # of one point; NaN is a failure
Surrogate = Callable[[FloatArray], tuple[float, FloatArray]]  # value and gradient


class Choice(NamedTuple):
    """What the evidence chooses: l, b and the ridge."""

    length: float
    weight: float
    ridge: float


class Fit(NamedTuple):
    """A solved process: K = Q diag(v) Q^T with the ridge in v, alpha = K^-1 (y - m), a^2 = alpha.(y - m) / n."""

    choice: Choice
    amplitude: float  # a^2
    mean: float  # m
    alpha: FloatArray
    eigenvalues: FloatArray  # v
    vectors: FloatArray  # Q


class GaussianProcess:
    """k(u, u') = exp(-|u - u'|^2 / 2 l^2) + b (1 + u.u' / rho^2)^2,  u = x - centre,  rho = rms |u|; constant mean.

    l, b and the ridge by evidence, amplitude and mean in closed form; `like` takes another's choice instead.
    Values are divided by their range.
    """

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        centre: FloatArray,
        like: Choice | None = None,
        fence: bool = False,
    ) -> None:
        self.centre, self.offsets = centre, points - centre
        self.rho2 = float(np.mean(np.sum(self.offsets**2, 1))) + TINY
        self.range, self.lowest = max(float(np.ptp(values)), TINY), float(values.min())
        products = self.offsets @ self.offsets.T
        squares = np.diag(products)[:, None] + np.diag(products) - 2 * products
        quadratic, scaled = (1 + products / self.rho2) ** 2, (values - self.lowest) / self.range
        self.fit = _best(squares, quadratic, scaled, self._grid(like, fence))

    def _grid(self, like: Choice | None, fence: bool) -> list[tuple[float, float, Sequence[float]]]:
        """(l, b, ridges) to try. A star of d + 1 points says nothing of l."""
        if like is not None:
            return [(like.length, like.weight, (like.ridge,))]
        count, dim = self.offsets.shape
        lengths = math.sqrt(self.rho2) * (LENGTHS if count > dim + 1 else LENGTHS[-1:])
        weights, ridges = ((0,), (FENCE_RIDGE,)) if fence else (WEIGHTS, RIDGES)
        return [(float(length), weight, ridges) for length in lengths for weight in weights]

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """mu(x) and grad mu(x)."""
        (length, weight, _), alpha = self.fit.choice, self.fit.alpha
        u = x - self.centre
        gap = u - self.offsets
        near = np.exp(-0.5 * np.sum(gap * gap, 1) / length**2) * alpha
        line = 1 + self.offsets @ u / self.rho2
        bent = weight * alpha * line
        value = self.lowest + self.range * (self.fit.mean + near.sum() + bent @ line)
        return float(value), self.range * (2 * (bent @ self.offsets) / self.rho2 - (near @ gap) / length**2)

    @property
    def sigma(self) -> float:
        """Standard deviation of an observation, as the evidence has it."""
        _, weight, ridge = self.fit.choice
        return self.range * math.sqrt(self.fit.amplitude * ridge * (1 + weight)) if ridge > 1e-12 else 0.0

    def outliers(self) -> list[int]:
        """The k <= 3 points without which the misfit (y - m)^T K^-1 (y - m) falls below 10^-k of what it was.

        Greedily the largest alpha_j^2 / [K^-1]_jj, which is what the misfit falls by; then a rank-one downdate.
        """
        values, vectors, alpha = self.fit.eigenvalues, self.fit.vectors, self.fit.alpha.copy()
        inverse, left, out, found = (vectors / values) @ vectors.T, 1.0, list[int](), list[int]()
        for k in range(1, OUTLIERS + 1):
            falls = alpha**2 / np.maximum(np.diag(inverse), TINY)
            falls[out] = 0
            worst = int(np.argmax(falls))
            left -= falls[worst] / (len(values) * self.fit.amplitude)
            out.append(worst)
            if left < 0.1**k:
                found = list(out)
            column = inverse[:, worst].copy()
            alpha = alpha - column * alpha[worst] / column[worst]
            inverse = inverse - np.outer(column, column) / column[worst]
        return found

    def unknown(self, x: FloatArray) -> FloatArray:
        """Posterior covariance of the gradient at x over the prior variance at the centre, (d, d)."""
        length, weight, _ = self.fit.choice
        u = x - self.centre
        gap = u - self.offsets
        near = np.exp(-0.5 * np.sum(gap * gap, 1) / length**2)
        slopes = -(near[:, None] * gap) / length**2
        slopes = slopes + (2 * weight * (1 + self.offsets @ u / self.rho2) / self.rho2)[:, None] * self.offsets
        seen = self.fit.vectors.T @ slopes
        prior = np.eye(len(x)) * (1 / length**2 + 2 * weight / self.rho2 * (1 + u @ u / self.rho2))
        prior = prior + 2 * weight * np.outer(u, u) / self.rho2**2
        left: FloatArray = prior - seen.T @ (seen / self.fit.eigenvalues[:, None])
        return left / (1 / length**2 + 2 * weight / self.rho2)


def _best(
    squares: FloatArray, quadratic: FloatArray, values: FloatArray, grid: list[tuple[float, float, Sequence[float]]]
) -> Fit:
    """The choice of the greatest evidence: least n/2 log a^2 + 1/2 sum log v. One eigendecomposition for all ridges."""
    least, best = math.inf, None
    for length, weight, ridges in grid:
        spectrum, vectors = np.linalg.eigh(np.exp(-0.5 * squares / length**2) + weight * quadratic)
        spectrum = np.maximum(spectrum, 0)
        turned, ones = vectors.T @ values, vectors.T @ np.ones(len(values))
        for ridge in ridges:
            v = spectrum + ridge * (1 + weight)
            mean = (ones @ (turned / v)) / (ones @ (ones / v))
            rest = turned - mean * ones
            amplitude = max(rest @ (rest / v) / len(values), TINY)
            cost = 0.5 * len(values) * math.log(amplitude) + 0.5 * np.sum(np.log(v))
            if cost < least:
                choice = Choice(length, weight, ridge)
                least, best = cost, Fit(choice, float(amplitude), float(mean), vectors @ (rest / v), v, vectors)
    if best is None:
        raise ValueError("the values of the surrogate are not finite")
    return best


class GradientProcess:
    """Mean of a process (squared exponential, l) that is known by gradients only: what F has in excess of f_i.

    Cov(grad(x), grad(x')) = k(x, x') (I - (x - x') (x - x')^T / l^2) / l^2, plus a ridge for each gradient.
    """

    def __init__(self, points: FloatArray, gradients: FloatArray, length: float, ridges: FloatArray) -> None:
        count, dim = points.shape
        self.points, self.length = points, length
        gap = points[:, None] - points
        near = np.exp(-0.5 * np.sum(gap * gap, -1) / length**2)
        blocks = near[:, :, None, None] * (np.eye(dim) - gap[..., :, None] * gap[..., None, :] / length**2)
        matrix = blocks.transpose(0, 2, 1, 3).reshape(count * dim, count * dim)
        matrix[np.diag_indices(count * dim)] += np.repeat(ridges, dim)
        self.weights = np.linalg.solve(matrix, gradients.ravel()).reshape(count, dim)  # times l^2

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Its mean, up to a constant, and the mean's gradient."""
        gap = x - self.points
        near = np.exp(-0.5 * np.sum(gap * gap, 1) / self.length**2)
        along = np.sum(gap * self.weights, 1)
        gradient = (near[:, None] * (self.weights - (along / self.length**2)[:, None] * gap)).sum(0)
        return float(near @ along), gradient


class Reply(NamedTuple):
    """What a client sends in the first exchange."""

    gradient: FloatArray  # g_i = grad mu_i(x_r)
    log_delta: float  # log Delta + power_i log 2
    unknown: float  # posterior over prior trace
    failed: bool  # f_i(x_r) has no value


class Common(NamedTuple):
    """A centre and the averaged gradient there."""

    x: FloatArray
    gradient: FloatArray


@dataclass(eq=False)
class Client:
    """Its function, all it was asked so far, and its surrogates."""

    objective: Objective
    rng: np.random.Generator
    alone: bool  # N = 1: the proposal is the next centre and is asked there
    points: FloatArray
    values: FloatArray = field(default_factory=lambda: np.empty(0))
    usable: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))  # has a value, is no outlier
    failed: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    walk: list[FloatArray] = field(default_factory=list)  # the last two centres
    sent: list[FloatArray] = field(default_factory=list)  # g_i of every round
    delta: float = FIRST_DELTA  # of the last refresh
    noisy: bool = False
    fence: GaussianProcess | None = None
    gp: GaussianProcess = field(init=False)
    gradient: FloatArray = field(init=False)  # g_i of this round
    good: FloatArray = field(init=False)  # the last centre that had a value

    def ask(self, x: FloatArray) -> float:
        """f_i(x); after a failure nearby also the fence, the surrogate of failing."""
        value = self.objective(x)
        finite = math.isfinite(value)
        self.points, self.values = np.vstack([self.points, x]), np.append(self.values, value)
        self.usable, self.failed = np.append(self.usable, finite), np.append(self.failed, not finite)
        if self.failed.any():
            near = np.argsort(np.sum((self.points - x) ** 2, 1))[: most_points(len(x))]
            labels = self.failed[near].astype(np.float64)
            self.fence = GaussianProcess(self.points[near], labels, x, fence=True) if labels.any() else None
        return value

    def allowed(self, x: FloatArray) -> bool:
        """Whether the surrogate of failing (0: a value came, 1: none) is below a half."""
        return self.fence is None or self.fence(x)[0] < 0.5

    def back(self, x: FloatArray) -> FloatArray:
        """x, halved towards the last good centre until it is allowed."""
        for _ in range(30):
            if self.allowed(x):
                break
            x = (x + self.good) / 2
        return x

    def aside(self, x: FloatArray, direction: FloatArray, distance: float) -> FloatArray:
        """x + direction or x - direction: what is allowed, then what stays further inside."""
        both = [np.clip(x + sign * distance * direction, 0, 1) for sign in (1, -1)]
        return self.back(max(both, key=lambda u: (self.allowed(u), round(float(np.sum((u - x) ** 2)), 15))))

    def refit(self, x: FloatArray) -> None:
        """The surrogate around x by evidence, again without its outliers as long as there are any."""
        while True:
            near = self._near(x)
            self.gp = GaussianProcess(self.points[near], self.values[near], x)
            out = self.gp.outliers() if len(near) > len(x) + 2 else []
            if not out:
                return
            self.usable[near[out]] = False

    def update(self, x: FloatArray) -> None:
        """The surrogate around x with the l, b and ridge that it has."""
        choice = self.gp.fit.choice
        self.noisy = self.noisy or choice.ridge >= NOISY
        near = self._near(x)
        self.gp = GaussianProcess(self.points[near], self.values[near], x, choice)

    def _near(self, x: FloatArray) -> NDArray[np.intp]:
        """The nearest max(60, 3 d) points, thrice that with noise; those beyond the reach cost digits."""
        dim = len(x)
        count = most_points(dim) * (MORE if self.noisy else 1)
        distances = np.where(self.usable, np.sum((self.points - x) ** 2, 1), np.inf)
        near = np.argsort(distances)[: min(count, self.usable.sum())]
        within = np.sqrt(np.sum((self.points[near] - x) ** 2, 1)) <= REACH * self.delta * math.sqrt(dim)
        return near[: max(int(np.sum(within)), (dim + 1) * (dim + 2) // 2)]

    def begin(self, x: FloatArray, delta: float) -> Reply:
        """Round 1: ask x_0 and d orthonormal directions."""
        value, dim = self.ask(x), len(x)
        self.good, self.delta = x, delta
        for direction in np.linalg.qr(self.rng.standard_normal((dim, dim)))[0].T:
            self.ask(self.aside(x, direction, delta * math.sqrt(dim)))
        return self._reply(x, delta, 0.0, value)

    def refresh(self, x: FloatArray, delta: float) -> Reply:
        """Ask x_r, and the direction least is known of: the gradient's posterior covariance's first eigenvector."""
        predicted, before = self.gp(x)[0], self.gp(self.walk[-1])[0]
        self.delta = delta
        value = self.ask(x)
        if math.isfinite(value):
            self.good = x
        self.update(self.good)
        direction = np.linalg.eigh(self.gp.unknown(self.good))[1][:, -1]
        self.ask(self.aside(self.good, direction, delta * math.sqrt(len(x))))
        power = self._power(x, delta, predicted, before, value) if math.isfinite(value) else -1.0
        return self._reply(x, delta, power, value)

    def _reply(self, x: FloatArray, delta: float, power: float, value: float) -> Reply:
        self.refit(self.good)
        self.gradient = self.gp(x)[1]
        unknown = float(np.trace(self.gp.unknown(x))) / len(x)
        return Reply(self.gradient, math.log(delta) + math.log(2) * power, unknown, not math.isfinite(value))

    def _power(self, x: FloatArray, delta: float, predicted: float, before: float, value: float) -> float:
        """1: double Delta, -1: halve it.

        e_i = max(|p - y| - sqrt2 sigma, 0) / (|p - mu(x_{r-1})| + |y - mu(x_{r-1})|),  c = cos of the last two moves,
        power = min(1 - e_i / 0.2, 4 c) within [-1, 1]. Only what was used doubles; who sees only noise abstains.
        """
        change, sigma = abs(predicted - before) + abs(value - before), math.sqrt(2) * self.gp.sigma
        error = max(abs(predicted - value) - sigma, 0) / change if change > 0 else 0.0
        power = min(max(min(1 - error / TAU, 4 * cosine([*self.walk, x])), -1), 1)
        move = float(np.max(np.abs(x - self.walk[-1])))
        if power > 0 and move < delta / 2:
            power = -1.0 if move < SMALL * delta else 0.0
        return 0.0 if power < 0 and change < 2 * sigma else power

    def propose(self, delta: float, history: Sequence[Common], failed: bool) -> FloatArray:
        """x_i = argmin mu_i + delta_i over the box and |x - x_r|_inf <= Delta (L-BFGS-B, no queries); ask there.

        history ends with the centre; `failed` says that the server went back to it.
        """
        x = self.good = history[-1].x
        if failed:
            self.update(x)
        else:
            self.walk, self.sent = [*self.walk[-1:], x], [*self.sent, self.gradient]
        low, high = np.maximum(-1, -x / delta), np.minimum(1, (1 - x) / delta)
        found = minimize(
            self._local(delta, history),
            np.zeros(len(x)),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": 100, "ftol": 1e-15, "gtol": 1e-10},
        )
        own = self.back(np.clip(x + delta * found.x, 0, 1))
        if not self.alone:
            self.ask(own)
        return own

    def _local(self, delta: float, history: Sequence[Common]) -> Surrogate:
        """t -> [mu_i + delta_i](x_r + Delta t) in units of |g| Delta, plus 100 max(h - 1/4, 0)^2 for the fence h."""
        x, gradient = history[-1]
        excess = self._excess(history)
        unit, reference = float(np.linalg.norm(gradient)) * delta + TINY, self.gp(x)[0]

        def local(t: FloatArray) -> tuple[float, FloatArray]:
            point = x + delta * t
            (own, own_slope), (other, other_slope) = self.gp(point), excess(point)
            value, slope = (own - reference + other) / unit, delta * (own_slope + other_slope) / unit
            if self.fence is not None:
                height, rise = self.fence(point)
                if height > 0.25:
                    value, slope = value + 100 * (height - 0.25) ** 2, slope + 200 * (height - 0.25) * delta * rise
            return value, slope

        return local

    def _excess(self, history: Sequence[Common]) -> Surrogate:
        """delta_i, the surrogate of F - f_i: g_s - grad mu_i(x_s) is its gradient at each centre x_s of the past.

        mu_i is as it is now; how much its gradient at x_s has changed since it was sent is how stale g_s is:
        noise |grad mu_i(x_s) now - g_i,s|^2 / d. One gradient alone: DANE's linear term (g - g_i).(x - x_r).
        """
        if len(history) == 1:
            x, slope = history[0].x, history[0].gradient - self.gradient
            return lambda point: (float(slope @ (point - x)), slope)
        centres = np.array([h.x for h in history])
        now = np.array([self.gp(p)[1] for p in centres])
        gradients = np.array([h.gradient for h in history]) - now
        stale = np.mean((now - np.array(self.sent[-len(history) :])) ** 2, 1)
        size = np.mean(gradients[-1] ** 2) + TINY
        return GradientProcess(centres, gradients, self.gp.fit.choice.length, JITTER + stale / size)


def most_points(dim: int) -> int:
    return max(60, 3 * dim)


def cosine(walk: Sequence[FloatArray]) -> float:
    """Of the last two moves; 1 where there are none."""
    if len(walk) < 3:
        return 1.0
    last, before = walk[-1] - walk[-2], walk[-2] - walk[-3]
    size = np.linalg.norm(last) * np.linalg.norm(before)
    return float(last @ before / size) if size > 0 else 1.0


def run(objectives: Sequence[Objective], x0: FloatArray, queries: int, seed: int) -> tuple[Trace, str]:
    """Queries of one client and x after each round, and "completed" or "converged". All must have a value at x_0."""
    rngs = [np.random.default_rng([seed, i]) for i in range(len(objectives))]
    clients = [
        Client(f, rng, len(objectives) == 1, np.empty((0, len(x0)))) for f, rng in zip(objectives, rngs, strict=True)
    ]
    x, delta, history, trace = np.array(x0, float), FIRST_DELTA, list[Common](), Trace()
    while True:
        replies = [c.refresh(x, delta) if trace else c.begin(x, delta) for c in clients]
        failed = any(r.failed for r in replies)
        if failed:  # a centre at which anybody failed is rejected
            x = trace[-1][1]
        else:
            history = [*history, Common(x.copy(), np.mean([r.gradient for r in replies], 0))][-MEMORY:]
        trace.append((max(len(c.values) for c in clients), x.copy()))
        delta = min(max(math.exp(np.mean([r.log_delta for r in replies])), LEAST_DELTA), MOST_DELTA)
        if trace[-1][0] >= queries:
            return trace, "completed"
        if not failed and rests(trace):
            return trace, "converged"
        x = np.mean([c.propose(delta, history, failed) for c in clients], 0)


def rests(trace: Trace) -> bool:
    """Whether the last three moves were below the tolerance."""
    last = [x for _, x in trace[-4:]]
    return len(last) == 4 and max(np.max(np.abs(last[k + 1] - last[k])) for k in range(3)) < TOLERANCE
