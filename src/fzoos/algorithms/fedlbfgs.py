"""FedLBFGS: full gradients from the clients, a quasi-Newton method at the server. The plain baseline, from textbooks.

=============  ========  ===========================================================================================
symbol         shape     meaning
=============  ========  ===========================================================================================
lambda         scalar    length of the differences, in units of the unit cube
sigma          (d,)      their signs, drawn once for all clients and rounds; at a border of the box they point inwards
g_i, g_r       (d,)      client i's gradient at x_{r-1}: all that it sends; sum_i omega_i g_i: all that comes back
A              set       active bounds: coordinates at a bound beyond which F falls. Vectors are 0 there in (4) to (7)
s_k, y_k       (d,)      the way from one x to the next and how g changed along it; the last m of them
B^{-1}         (d, d)    the inverse of the Hessian that BFGS makes of these pairs; it is never formed
Delta          scalar    the longest step, the root of the mean square over the coordinates; Delta_0 in round 1
p              (d,)      the step before it is shortened
=============  ========  ===========================================================================================

Client i, d + 1 queries:

    g_ij     = (f_i(x + lambda sigma_j e_j) - f_i(x)) / (lambda sigma_j),   j = 1, ..., d                            (1)

Everybody, from the mean g of round r:

    A        = {j: x_j = 0 and g_j > 0, or x_j = 1 and g_j < 0}                                                      (2)
    Delta   <- min(Delta, |s| / sqrt(d)) / 2    if (g_{r-1} + g_r).s > 0,    else min(2 Delta, Delta_0)              (3)
    B^{-1}  <- (I - rho s y^T) B^{-1} (I - rho y s^T) + rho s s^T,   rho = 1 / s.y,   for each pair of s.y > 0       (4)
               from the oldest to the newest, beginning with gamma I, gamma = s.y / y.y of the newest                (5)
    p        = -B^{-1} g,    or -Delta sqrt(d) g / |g| where there is no pair                                        (6)
    x       <- P(x + p min(1, Delta sqrt(d) / |p|)),    P: to the box                                                (7)

(3) is all there is in place of a line search, which would need values of F: half of (g_{r-1} + g_r).s is how much F has
changed along s, exactly so for a quadratic. What (1) gets wrong is, for a quadratic, lambda sigma_j / 2 times the
curvature. With the same sigma for all clients only F's curvature counts in g, however much the clients differ; with the
same sigma in all rounds y is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number, check_positive
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf, Part, State
from fzoos.algorithms.replicated import Replica, ReplicatedServerHalf
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.box import clip_to_cube

__all__ = ["FedLBFGS", "two_loops"]

_RIGHT_ANGLE = 1e-8  # cosine of s and y below which rounding decides about s.y > 0


@dataclass(frozen=True)
class FedLBFGS(Algorithm):
    """FedLBFGS: each client sends a full finite-difference gradient, the server takes projected L-BFGS steps.

    One exchange and d + 1 queries a round, d floats each way; x does not travel, as everybody takes the server's step.
    A client that did not take part in the round before gets the state, 8 ((2 m + 1) d + 2) bytes. There are no local
    steps and no optimiser: a round is one gradient and one step.

    Hard to beat where F is smooth and can be computed exactly, however much the clients differ. It fails where
    differences over lambda say little of F at large (ripples, noise), and where a budget is less than a few gradients.

    Args:
        memory: m, the number of pairs.
        difference: lambda, in units of the unit cube. Differences of 1e-3 bear errors of 1e-4 of the values' range or
            so; where F is badly conditioned and computed to all digits, 1e-6 ends nearer to its minimum.
        reach: Delta_0, the first and the longest step, in units of the unit cube and per coordinate.
        projected: whether iterates and queries are clipped to the box.

    References:
        J. Nocedal and S. Wright, "Numerical Optimization", 2nd edition, Springer 2006: section 7.2 (L-BFGS, its
        algorithm 7.4), 8.1 (differences), 16.7 (gradient projection).
        D. Bertsekas, "Projected Newton Methods for Optimization Problems with Simple Constraints", SIAM Journal on
        Control and Optimization, 1982 (the active bounds).

    Deviations:
        No line search, hence no Wolfe conditions: pairs without s.y > 0 are left out, and (3) bounds the steps. A step
        after which F seems to have risen is not taken back: the next one has learnt from it. A slope whose query failed
        is the client's last one in that coordinate, or 0.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedLBFGS, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.full(300, 0.7), bounds=(-1, 1), algorithm=FedLBFGS(), rounds=4, seed=0)
        >>> result.queries, bool(np.max(abs(result.x)) < 0.0011)         # 4 gradients; lambda / 2 is 0.001 in this box
        (1204, True)
    """

    memory: int = 10  # m
    difference: float = 1e-3  # lambda
    reach: float = 0.15  # Delta_0

    def __post_init__(self) -> None:
        check_count("memory (m)", self.memory, low=1)
        check_positive("difference (lambda)", self.difference)
        check_number("difference (lambda)", self.difference, 0.0, 0.5)  # so that one of both signs stays in the box
        check_positive("reach (Delta_0)", self.reach)

    def client(self, context: ClientContext) -> ClientHalf:
        return _Client(context, self)

    def server(self, dim: int) -> ReplicatedServerHalf:
        return _QuasiNewton(dim, self)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return d + 1."""
        return dim + 1


class _Client(ClientHalf):
    def __init__(self, context: ClientContext, settings: FedLBFGS) -> None:
        super().__init__(context)
        self._replica = Replica(settings.server(context.dim))
        self._lambda = settings.difference
        self._gradient = np.zeros(context.dim)

    def locate(self, request: Message) -> FloatArray:
        return self._replica.follow(request)["x"]

    def reply(self, x: FloatArray, request: Message) -> Arrays:
        """Return g_i; sigma is drawn from the shared seed, the same for all clients and rounds."""
        signs = np.random.default_rng(int(request.scalars["seed"])).choice([-1.0, 1.0], len(x))
        self._gradient = self._slopes(x, signs)
        return {"g": self._gradient}

    def _slopes(self, x: FloatArray, signs: FloatArray) -> FloatArray:
        """g_i, Eq. (1). The order is drawn, so that where some queries fail it is not always the same coordinates."""
        if self.context.projected:
            there = x + self._lambda * signs
            signs = np.where((there < 0.0) | (there > 1.0), -signs, signs)
        order = self.context.rng.permutation(len(x))
        points = np.concatenate([x[None, :], x + (self._lambda * np.diag(signs))[order]])
        y = self.context.query(points, "difference", at_server_x=True)
        slopes = np.empty_like(x)
        slopes[order] = (y[1:] - y[0]) / (self._lambda * signs[order])
        return np.where(np.isfinite(slopes), slopes, self._gradient)

    def state(self) -> StateDict:
        return {"gradient": self._gradient, **prefixed("replica", self._replica.saved())}

    def restore(self, state: StateDict) -> None:
        self._gradient = state["gradient"]
        self._replica.restore(part_of("replica", state))


class _QuasiNewton(ReplicatedServerHalf):
    """x_r from x_{r-1} and g_r; the state has the last m points and gradients, of which pairs are the differences.

    Before there are m, the points are x_0 and the gradients 0: pairs with s = 0, which are left out.
    """

    def __init__(self, dim: int, settings: FedLBFGS) -> None:
        super().__init__(dim, {"g": Part((dim,))})
        self._settings = settings

    def start(self, x: FloatArray) -> State:
        """x_0, no pairs, and Delta_0."""
        points = np.tile(x, (self._settings.memory, 1))
        delta = np.array([self._settings.reach])
        return {"x": x, "points": points, "gradients": np.zeros_like(points), "delta": delta}

    def step(self, state: Arrays, mean: Arrays, round: int, seed: int) -> State:
        """x_r, and what it was made of."""
        x, g = state["x"], mean["g"]
        points, gradients = np.vstack([state["points"], x]), np.vstack([state["gradients"], g])
        with np.errstate(all="ignore"):  # a message may hold any number; what comes of it is looked at below
            s, y = np.diff(points, axis=0), np.diff(gradients, axis=0)
            delta = self._longest(float(state["delta"][0]), s[-1], gradients[-2] + g)
            free = ~(_active(x, g) & self._settings.projected)
            longest = delta * np.sqrt(self.dim)
            p = _direction(np.where(free, s, 0.0), np.where(free, y, 0.0), np.where(free, g, 0.0), longest)
            x = x + p * min(1.0, longest / max(_norm(p), np.finfo(float).tiny))  # Eq. (7)
        if not np.all(np.isfinite(x)):
            raise MessageError("the numbers of the last round lead to no point")
        x = clip_to_cube(x) if self._settings.projected else x
        return {"x": x, "points": points[1:], "gradients": gradients[1:], "delta": np.array([delta])}

    def _longest(self, delta: float, s: FloatArray, slope: FloatArray) -> float:
        """Return the longest step delta that is allowed, Eq. (3)."""
        if _dot(slope, s) > 0.0:
            return min(delta, _norm(s) / float(np.sqrt(self.dim))) / 2.0
        return min(2.0 * delta, self._settings.reach)


def _active(x: FloatArray, g: FloatArray) -> NDArray[np.bool_]:
    """A as a mask, Eq. (2)."""
    mask: NDArray[np.bool_] = ((x <= 0.0) & (g > 0.0)) | ((x >= 1.0) & (g < 0.0))
    return mask


def _direction(s: FloatArray, y: FloatArray, g: FloatArray, length: float) -> FloatArray:
    """p, Eq. (6), without the pairs that say nothing of the curvature."""
    good = [_dot(a, b) > _RIGHT_ANGLE * _norm(a) * _norm(b) > 0.0 for a, b in zip(s, y, strict=True)]
    if any(good):
        return -two_loops(s[good], y[good], g)
    steepest = float(np.max(abs(g)))  # |g|^2 may be too small a number where g is not
    return np.zeros_like(g) if steepest == 0.0 else -length * (g / steepest) / _norm(g / steepest)


def two_loops(s: FloatArray, y: FloatArray, g: FloatArray) -> FloatArray:
    """B^{-1} g of Eq. (4) and (5) in 4 m d multiplications (Nocedal and Wright's algorithm 7.4).

    s and y have shape (m, d), the oldest pair first, and all s.y > 0.
    """
    q, alphas = g, []
    for a, b in zip(s[::-1], y[::-1], strict=True):
        alphas.append(_dot(a, q) / _dot(a, b))
        q = q - alphas[-1] * b
    q = _dot(s[-1], y[-1]) / _dot(y[-1], y[-1]) * q
    for a, b, alpha in zip(s, y, reversed(alphas), strict=True):
        q = q + (alpha - _dot(b, q) / _dot(a, b)) * a
    return q


def _dot(a: FloatArray, b: FloatArray) -> float:
    """a.b, term by term: the same bits on all machines, which no matrix product promises."""
    return float(np.sum(a * b))


def _norm(a: FloatArray) -> float:
    return float(np.sqrt(_dot(a, a)))
