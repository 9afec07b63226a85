"""Many dimensions, fewer points than dimensions: a round is a star of queries, two lines, one step. No settings.

All in the unit cube. h is the radius of the star per coordinate and H = h sqrt(d) its length. README.md has the
algorithm in one piece. Clients and server run in one process; only `Client.ask` touches a client's function, and what
would travel is marked "up".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks.prototypes.problems import Trace
from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import BatchObjective

COMMON = 16  # directions that all clients ask in every round, to measure how much they differ
FIRST_RADIUS, LEAST_RADIUS, MOST_RADIUS = 0.1, 1e-3, 0.3  # h, a share of the box
RADIUS_CHANGE = 3.0  # h changes by this factor a round at most
BLOCK = 0.5  # share of the d directions in a shared round
THRESHOLD = 0.25  # directions are dealt while G' < THRESHOLD (N - 1)
LINE = (0.25, 0.5, 1.0, 2.0, 4.0)  # where a line is asked, in units of L
LENGTH = 0.5  # the kernel's length scale over sqrt(d)
POINTS = 2  # nearest points of the surrogate with memory, over d
FLOOR = 1e-8  # the smallest ridge
FORGET = 0.5  # weight of the newest measurement in phi
LEAST_PHI, LEAST_Q = 0.02, 0.05
SIDES = np.array([[1.0], [-1.0]])

Mode = Literal["pilot", "shared", "dealt"]


class Slope(NamedTuple):
    """A surrogate's gradient at x and the mean curvature lambda of its trend."""

    gradient: FloatArray
    curvature: float

    def between(self, pair: FloatArray, x: FloatArray) -> float:
        """f(p_1) - f(p_2) as predicted: (p_1 - p_2).g + lambda (|p_1 - x|^2 - |p_2 - x|^2) / 2."""
        first, second = pair
        bend = ((first - x) ** 2).sum() - ((second - x) ** 2).sum()
        return float((first - second) @ self.gradient + 0.5 * self.curvature * bend)


def surrogate(points: FloatArray, values: FloatArray, x: FloatArray, ridge: float) -> Slope:
    """grad mu(x) of a Gaussian process with the trend b_0 + b_1 |. - x|^2 / 2 (universal kriging), and lambda = b_1.

    k(u, v) = exp(-|u - v|^2 / 2 l^2),  l = sqrt(d) / 2,  alpha = (K + ridge I)^-1 (y - B b),
    grad mu(x) = sum_j alpha_j k(x, x_j) (x_j - x) / l^2.

    It is linear in y: where all clients ask at the same points, the mean of their gradients is that of F's surrogate.
    """
    length = LENGTH * math.sqrt(len(x))
    offset = points - x
    squares = (offset * offset).sum(1)
    distances = np.maximum(squares[:, None] + squares[None] - 2 * offset @ offset.T, 0)
    factor = _factor(np.exp(-0.5 * distances / length**2), ridge)
    trend = np.stack([np.ones(len(values)), squares / squares.max()], 1)
    solved = cho_solve(factor, np.column_stack([trend, values]))
    beta = np.linalg.lstsq(trend.T @ solved[:, :2], trend.T @ solved[:, 2], rcond=1e-12)[0]
    alpha = solved[:, 2] - solved[:, :2] @ beta
    gradient = (alpha * np.exp(-0.5 * squares / length**2) / length**2) @ offset
    return Slope(gradient, float(2 * beta[1] / squares.max()))


def _factor(kernel: FloatArray, ridge: float) -> tuple[FloatArray, bool]:
    """Cholesky factor of kernel + ridge I; the ridge grows tenfold until there is one."""
    diagonal = np.diag_indices(len(kernel))
    kernel[diagonal] = 1 + ridge
    while True:
        try:
            lower, is_lower = cho_factor(kernel, lower=True)
            return lower, bool(is_lower)
        except np.linalg.LinAlgError:
            ridge *= 10
            kernel[diagonal] += ridge


@dataclass(frozen=True)
class Directions:
    """Orthonormal rows: `common` are asked by all clients, own[i] by client i alone."""

    mode: Mode
    common: FloatArray
    own: tuple[FloatArray, ...]


@dataclass
class Basis:
    """Random orthonormal directions, from a seed that the clients share."""

    dim: int
    clients: int
    rng: np.random.Generator
    left: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.empty((0, self.dim))

    def take(self, mode: Mode) -> Directions:
        """Pilot: 16 rows. Shared: the next d/2 rows. Dealt: 16 rows for all, the others dealt out like cards."""
        common = min(COMMON, self.dim)
        if mode == "dealt":
            self.left = np.empty((0, self.dim))
            rows = self._draw()
            return Directions(mode, rows[:common], tuple(rows[common + i :: self.clients] for i in range(self.clients)))
        if not len(self.left):
            self.left = self._draw()
        count = common if mode == "pilot" else math.ceil(BLOCK * self.dim)
        rows = self.left[:count]
        if mode == "shared":
            self.left = self.left[count:]
        return Directions(mode, rows, (np.empty((0, self.dim)),) * self.clients)

    def _draw(self) -> FloatArray:
        return np.linalg.qr(self.rng.standard_normal((self.dim, self.dim)))[0]


class Star(NamedTuple):
    """Up, exchange 1: what a client sends about its star."""

    fresh: FloatArray  # gradient by this star alone
    memory: FloatArray  # gradient by the nearest 2 d points of all rounds
    curvature: float  # lambda_i
    common: float  # |U_0 fresh_i|^2
    seen: float = 0.0  # dealt: what the own pair shows times what fresh_i predicts
    predicted: float = 0.0  # dealt: that prediction, squared
    variance: float = 0.0  # dealt: |fresh_i|^2 over the number of directions


class Lines(NamedTuple):
    """Up, exchange 2: differences to f_i(x), which are averaged."""

    values: list[FloatArray]  # five on each line
    pair: float  # f_i at x + H u less that at x - H u, u along the averaged fresh


@dataclass(eq=False)
class Client:
    """Its function, and all it was asked so far."""

    objective: BatchObjective
    clients: int
    points: FloatArray
    values: FloatArray = field(default_factory=lambda: np.empty(0))
    centre: float = 0.0  # f_i(x)

    def ask(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The points, cut to the box, and their values."""
        points = np.clip(points, 0, 1)
        values = self.objective(points)
        self.points, self.values = np.vstack([self.points, points]), np.append(self.values, values)
        return points, values

    def star(self, x: FloatArray, length: float, directions: Directions, index: int, ridge: float) -> Star:
        """Ask x and x +- H u_j, one side each; two gradients, and when dealt a pair of its own."""
        rows = np.vstack([directions.common, directions.own[index]])
        sign = np.where(np.arange(len(rows)) % 2, 1.0, -1.0)[:, None]
        points, values = self.ask(np.vstack([x, x + length * sign * rows]))
        self.centre = float(values[0])
        slope = surrogate(points, values, x, FLOOR)
        star = Star(slope.gradient, self._memory(x, ridge), slope.curvature, _square(directions.common, slope.gradient))
        return star if directions.mode != "dealt" else self._dealt(star, x, length, directions.common, len(rows))

    def _memory(self, x: FloatArray, ridge: float) -> FloatArray:
        near = np.argsort(((self.points - x) ** 2).sum(1))[: POINTS * len(x) + 1]
        return surrogate(self.points[near], self.values[near], x, ridge).gradient

    def _dealt(self, star: Star, x: FloatArray, length: float, common: FloatArray, count: int) -> Star:
        """Ask x +- H fresh_i / |fresh_i|; then a direction that only this client asked counts N times."""
        size = float(np.linalg.norm(star.fresh))
        pair, values = self.ask(x + length * SIDES * star.fresh / size)
        predicted = Slope(star.fresh, star.curvature).between(pair, x)
        return star._replace(
            fresh=self._scaled(star.fresh, common),
            memory=self._scaled(star.memory, common),
            seen=float((values[0] - values[1]) * predicted),
            predicted=predicted * predicted,
            variance=size * size / count,
        )

    def _scaled(self, gradient: FloatArray, common: FloatArray) -> FloatArray:
        inside = gradient @ common.T @ common
        return inside + self.clients * (gradient - inside)

    def lines(self, x: FloatArray, lines: Sequence[FloatArray], places: FloatArray, pair: FloatArray | None) -> Lines:
        """Ask x + t v on each line, and the pair if it is common to all."""
        values = [self.ask(x + places[:, None] * line)[1] - self.centre for line in lines]
        if pair is None:
            return Lines(values, 0.0)
        first, second = self.ask(pair)[1]
        return Lines(values, float(first - second))


def _square(rows: FloatArray, gradient: FloatArray) -> float:
    return float(((rows @ gradient) ** 2).sum())


class Quality(NamedTuple):
    """H, mode and E = (1 - q) V of a round, where V = H^2 |fresh|^2 / m and q is the share of V that is slope."""

    length: float
    mode: Mode
    share: float  # q
    error: float  # E


@dataclass(frozen=True)
class State:
    """What all parties know: nothing but averages goes in."""

    x: FloatArray
    radius: float = FIRST_RADIUS  # h
    reach: float = 0.0  # L, the unit of the lines
    ridge: float = FLOOR
    differ: float = 0.0  # G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1
    phi: float = 0.5  # share of E that is as large at every H
    before: Quality | None = None

    @property
    def length(self) -> float:
        """H = h sqrt(d)."""
        return self.radius * math.sqrt(len(self.x))

    def mode(self, clients: int) -> Mode:
        """Dealt where clients are alike: G' < (N - 1) / 4."""
        if self.before is None:
            return "pilot"
        return "dealt" if self.differ < THRESHOLD * (clients - 1) else "shared"


def run(objectives: Sequence[BatchObjective], x0: FloatArray, budget: int, seed: int, rounds: int = 60) -> Trace:
    """Queries of all clients and x after each round, from (0, x_0) until the budget is spent."""
    dim, count = len(x0), len(objectives)
    clients = [Client(f, count, np.empty((0, dim))) for f in objectives]
    basis = Basis(dim, count, np.random.default_rng([seed, 99]))
    state = State(x0.copy(), reach=2 * FIRST_RADIUS * math.sqrt(dim))
    path = [(0, x0)]
    while len(path) <= rounds and path[-1][0] < budget:
        state = one_round(clients, basis, state)
        path.append((sum(len(c.values) for c in clients), state.x))
    return path


def one_round(clients: Sequence[Client], basis: Basis, state: State) -> State:
    """Star, lines, step. The pilot (the first) measures and does not move."""
    mode = state.mode(len(clients))
    directions = basis.take(mode)
    x, length = state.x, state.length
    stars = [c.star(x, length, directions, i, state.ridge) for i, c in enumerate(clients)]
    fresh = np.array([s.fresh for s in stars]).mean(0)
    memory = np.array([s.memory for s in stars]).mean(0)
    slope = Slope(fresh, float(np.mean([s.curvature for s in stars])))
    lines = [] if mode == "pilot" else [inward(-fresh, x), inward(-memory, x)]
    places = state.reach * np.array(LINE)
    size = float(np.linalg.norm(fresh))
    pair = None if mode == "dealt" else np.clip(x + length * SIDES * fresh / size, 0, 1)
    answers = [c.lines(x, lines, places, pair) for c in clients]
    step, move = best_step(lines, places, answers)
    if pair is None:
        quality = own_pairs(stars, length)
    else:
        quality = common_pair(answers, slope.between(pair, x), length, mode, size * size / len(directions.common))
    state = replace(state, differ=differ(stars, directions.common, fresh))
    return narrow(state, quality, slope.curvature, step, np.clip(x + move, 0, 1))


def inward(line: FloatArray, x: FloatArray) -> FloatArray:
    """The direction without what leaves the box at once, of length 1."""
    line = np.where(((x <= 0) & (line < 0)) | ((x >= 1) & (line > 0)), 0.0, line)
    return line / np.linalg.norm(line)


def differ(stars: Sequence[Star], common: FloatArray, fresh: FloatArray) -> float:
    """G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1: how much the clients' slopes differ."""
    mean = _square(common, fresh)
    return max(float(np.mean([s.common for s in stars])) - mean, 0) / mean


def best_step(lines: Sequence[FloatArray], places: FloatArray, answers: Sequence[Lines]) -> tuple[float, FloatArray]:
    """Step and move: a parabola on each line, the line that promises the lowest value wins; none if none goes down."""
    best, step, move = 0.0, 0.0, np.zeros(1)
    for k, line in enumerate(lines):
        values = sum((a.values[k] / len(answers) for a in answers), np.zeros(len(places)))
        promise, place = parabola(np.append(0.0, places), np.append(0.0, values))
        if promise < best:
            best, step, move = promise, place, place * line
    return step, move


def parabola(places: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Value and place of the minimum of the parabola through the lowest value and its neighbours."""
    low, last = int(np.argmin(values)), len(places) - 1
    left = max(0, min(low - 1, last - 2))
    curve = np.polyfit(places[left : left + 3], values[left : left + 3], 2)
    place = places[low]
    if curve[0] > 0 and low < last:
        place = np.clip(-curve[1] / (2 * curve[0]), places[max(low - 1, 0)], places[min(low + 1, last)])
    return float(np.polyval(curve, place)), float(place)


def own_pairs(stars: Sequence[Star], length: float) -> Quality:
    """Dealt: q by least squares over the clients' own pairs, so that nothing of their differences is in it."""
    share = float(np.array([s.seen for s in stars]).sum() / np.array([s.predicted for s in stars]).sum())
    return _quality(length, "dealt", share, float(np.array([s.variance for s in stars]).mean()))


def common_pair(answers: Sequence[Lines], predicted: float, length: float, mode: Mode, variance: float) -> Quality:
    """Shared: q = what the pair along fresh shows / what fresh predicts for it.

    Errors of the m slopes are part of fresh, so that along fresh the true slope is q |fresh| with
    q = signal / (signal + error): two queries of each client test m directions.
    """
    seen = sum(a.pair / len(answers) for a in answers)
    return _quality(length, mode, seen / predicted, variance)


def _quality(length: float, mode: Mode, share: float, variance: float) -> Quality:
    share = min(max(share, 0.0), 1.0)
    return Quality(length, mode, share, (1 - share) * (variance * length**2))


def narrow(state: State, now: Quality, curvature: float, step: float, x: FloatArray) -> State:
    """The next round's radius, ridge and lines.

    A slope's error is sigma^2 / H^2 by noise and at least H^2 lambda^2 / 2d by curvature; least at
    H^2 = sqrt(2 d) sigma / lambda, with sigma^2 = phi E.  ridge = (1 - q) / q H^2 / l^2.
    """
    dim, radius = len(x), state.radius
    phi = next_phi(state.phi, state.before, now)
    sigma = math.sqrt(max(phi, LEAST_PHI) * now.error)
    wanted = math.sqrt(np.mean((x - state.x) ** 2)) or radius
    if curvature > 0:
        wanted = math.sqrt(math.sqrt(2 * dim) * sigma / curvature / dim)
    wanted = min(max(wanted, radius / RADIUS_CHANGE), radius * RADIUS_CHANGE)
    ridge = (1 - now.share) / max(now.share, LEAST_Q) * now.length**2 / (LENGTH * math.sqrt(dim)) ** 2
    return replace(
        state,
        x=x,
        radius=min(max(wanted, LEAST_RADIUS), MOST_RADIUS),
        reach=state.reach if now.mode == "pilot" else max(step, state.reach * LINE[0]),
        ridge=max(FLOOR, ridge),
        phi=phi,
        before=now,
    )


def next_phi(phi: float, before: Quality | None, now: Quality) -> float:
    """Noise and ripple are as large at every H, curvature that differs between directions grows as H^4:

    kappa = (E_1 - E_2) / (H_1^4 - H_2^4) from two rounds of one kind,  phi <- mean(phi, 1 - kappa H^4 / E).
    """
    if before is None or before.mode != now.mode or now.error <= 0:
        return phi
    if abs(math.log(now.length / before.length)) <= 0.15:
        return phi
    fourth = now.length**4
    kappa = (before.error - now.error) / (before.length**4 - fourth)
    kappa = min(max(kappa, 0.0), now.error / fourth)
    return (1 - FORGET) * phi + FORGET * (1 - kappa * fourth / now.error)
