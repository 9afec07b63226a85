"""DeComFL: zeroth-order steps of which only seeds and slopes travel, never x (Li et al. 2025).

=============  ========  ===========================================================================================
symbol         shape     meaning
=============  ========  ===========================================================================================
z_{r,t}        (P, d)    the directions of round r, local step t: everybody draws them from the seed that all share
s_{i,t}        (P,)      client i's slopes along them, (f_i(x + lambda z) - f_i(x)) / lambda: all that it sends
s_t            (P,)      sum_i omega_i s_{i,t}: all that comes back
G(s, z)        (d,)      (1/P) sum_p s_p z_p
=============  ========  ===========================================================================================

    client:     x_{i,t} = x_{i,t-1} - eta G(s_{i,t}, z_{r,t}),   t = 1, ..., T,   from x_{i,0} = x_{r-1}
    everybody:  x_r     = x_{r-1} - eta sum_t G(s_t, z_{r,t})

Since G is linear in s, x_r is the mean of the clients' last x.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import ClientContext, ClientHalf, Part, Parts, State
from fzoos.algorithms.fedzo import FiniteDifferenceAlgorithm
from fzoos.algorithms.local_steps import GradientHalf
from fzoos.algorithms.optimizers import Optimizer
from fzoos.algorithms.replicated import Replica, ReplicatedServerHalf
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.box import clip_to_cube

__all__ = ["DeComFL", "Replay"]


@dataclass(frozen=True)
class DeComFL(FiniteDifferenceAlgorithm):
    """DeComFL: FedZO with directions that all clients share, so that T P slopes a round are all that travels.

    A round costs as many queries as one of FedZO, T (Q + 1), and 8 T Q + 16 bytes up and 8 T Q + 8 down for each
    client, whatever d is. A client that did not take part in the round before gets x (8 d + 8 bytes).

    Args:
        differences: Q (the paper's P, the number of perturbations), lambda (its mu) and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        Z. Li, B. Ying, Z. Liu, C. Dong, H. Yang, "Achieving Dimension-Free Communication in Federated Learning via
        Zeroth-Order Optimization", ICLR 2025 (arXiv 2405.15861).

    Deviations:
        The paper's steps are those of `SGD`. With another optimiser everybody replays its T steps with the averaged
        slopes; x_r is then no longer the mean of the clients' x. Where `projected`, each replayed step is clipped to
        the box. A client that missed rounds is sent x; in the paper, all slopes that it missed. The defaults are
        FedZO's: Q = 20 forward differences that share the value at x, at a distance of lambda = 0.01 in the cube.

    Example:
        >>> import numpy as np
        >>> from fzoos import DeComFL, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(300), bounds=(-1, 1), algorithm=DeComFL(), rounds=3, seed=0)
        >>> result.queries                               # 3 rounds of 10 steps of 20 + 1 queries
        630
        >>> result.bytes_down == 8 * (300 + 1) + 2 * 8 * (10 * 20 + 1)
        True
    """

    def perturbations(self, state: Arrays, seed: int, round: int, t: int) -> FloatArray:
        """z_{r,t}, shape (P, d)."""
        return self.differences.draw(len(state["x"]), np.random.default_rng([seed, round, t]))

    def combine(self, s: FloatArray, z: FloatArray) -> FloatArray:
        """G(s, z), term by term: the same bits on all machines, which no matrix product promises."""
        total: FloatArray = (s[:, None] * z).sum(axis=0)
        return self.differences.factor(z.shape[1]) / len(s) * total

    def client(self, context: ClientContext) -> ClientHalf:
        return _Client(context, self)

    def server(self, dim: int) -> ReplicatedServerHalf:
        return Replay(dim, self)


class _Client(GradientHalf):
    def __init__(self, context: ClientContext, settings: DeComFL) -> None:
        super().__init__(context, settings)
        self._settings, self._replica = settings, Replica(settings.server(context.dim))

    def locate(self, request: Message) -> FloatArray:
        return self._replica.follow(request)["x"]

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        state, draw = self._replica.state, self._settings.perturbations
        self.descent.state = _moments(self._settings.optimizer, state)
        self._perturbations = partial(draw, state, int(request.scalars["seed"]), request.round)
        self._slopes: list[FloatArray] = []  # s_{i,1}, s_{i,2}, ...

    def local_gradient(self, x: FloatArray) -> FloatArray:
        """Return G(s_{i,t}, z_{r,t}), the gradient that this step's slopes and directions give."""
        if not np.all(np.isfinite(x)):
            raise MessageError("the state of the optimizer leads to no point")
        settings, z = self._settings, self._perturbations(1 + len(self._slopes))
        points = settings.differences.points(x, z)
        y = self.context.query(points, "difference", at_server_x=self.context.iterate_is_server_x)
        s = settings.differences.slopes(y)
        good = np.isfinite(s)
        s = np.where(good, s, 0.0) * (len(s) / max(1, int(good.sum())))  # a failed one is left out of the mean
        self._slopes.append(s)
        return settings.combine(s, z)

    def end(self, x: FloatArray) -> Arrays:
        """s_{i,1}, ..., s_{i,T}; the client's own x is forgotten."""
        return {"s": np.concatenate(self._slopes)}

    def state(self) -> StateDict:
        return {**super().state(), **prefixed("replica", self._replica.saved())}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self._replica.restore(part_of("replica", state))


class Replay(ReplicatedServerHalf):
    """x_r: T steps of the optimiser from x_{r-1}, with the averaged slopes.

    If the optimiser is not restarted in each round, its moments are part of the state.
    """

    def __init__(self, dim: int, settings: DeComFL) -> None:
        super().__init__(dim, _slopes(settings.local_steps * settings.differences.count))
        self._settings = settings

    def reply_parts(self, request: Message) -> Parts:
        return _slopes(self._settings.steps_in(request) * self._settings.differences.count)

    def start(self, x: FloatArray) -> State:
        """x_0, and the optimiser's first moments."""
        return {"x": x, **self._entry(self._settings.optimizer.init(self.dim))}

    def step(self, state: Arrays, mean: Arrays, round: int, seed: int) -> State:
        return self.descend(state, self.gradients(state, mean, round, seed))

    def gradients(self, state: Arrays, mean: Arrays, round: int, seed: int) -> list[FloatArray]:
        """G(s_t, z_{r,t}) for t = 1, ..., T."""
        rows = enumerate(mean["s"].reshape(-1, self._settings.differences.count), start=1)
        return [self._settings.combine(s, self._settings.perturbations(state, seed, round, t)) for t, s in rows]

    def descend(self, state: Arrays, gradients: list[FloatArray]) -> State:
        """The optimiser's steps along them, scaled by the largest entry of the round: 1e-9 f takes the steps of f."""
        x, moments = state["x"], _moments(self._settings.optimizer, state)
        optimizer = self._settings.optimizer.scaled(max(float(np.max(np.abs(gradient))) for gradient in gradients))
        for gradient in gradients:
            moments, step = optimizer.step(moments, gradient)
            x = clip_to_cube(x - step) if self._settings.projected else x - step
        if not np.all(np.isfinite(x)):
            raise MessageError("the numbers of the last round lead to no point")
        return {"x": x, **self._entry(moments)}

    def _entry(self, moments: tuple[Any, ...]) -> State:
        """The optimiser's state as an entry of ours, if it lasts longer than a round."""
        if self._settings.optimizer.restart or not moments:
            return {}
        return {"optimizer": np.concatenate([np.ravel(part).astype(np.float64) for part in moments])}


def _slopes(count: int) -> Parts:
    """Declare s_{i,1}, ..., s_{i,T}."""
    return {"s": Part((count,))}


def _moments(optimizer: Optimizer, state: Arrays) -> tuple[Any, ...]:
    """The optimiser's state with which a round begins."""
    fresh = optimizer.init(len(state["x"]))
    if "optimizer" not in state:
        return fresh
    parts = np.split(state["optimizer"], np.cumsum([np.size(part) for part in fresh])[:-1])
    return tuple(
        new.reshape(np.shape(old)) if np.ndim(old) else type(old)(new[0]) for old, new in zip(fresh, parts, strict=True)
    )
