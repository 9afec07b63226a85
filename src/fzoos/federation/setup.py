"""How the parts of a run are put together, the same for `minimize` and for a study."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_number
from fzoos.algorithms.base import Algorithm, ClientContext
from fzoos.federation.client import Client
from fzoos.messages.message import Message
from fzoos.messages.precision import Precision
from fzoos.messages.rounding import Rounding
from fzoos.objectives.box import Box, Objective
from fzoos.objectives.evaluator import Evaluator, OnFailure
from fzoos.objectives.ledger import Ledger
from fzoos.objectives.parallel import ExecutorPool, Parallel, PointPool
from fzoos.objectives.space import NamedObjective
from fzoos.objectives.trajectory import Trajectory

__all__ = ["Seeds", "Setting", "check_weights", "count_participants"]


@dataclass(frozen=True)
class Seeds:
    """Where the randomness of a run comes from, each part apart from the others."""

    server: np.random.SeedSequence
    shared: int  # of the features, the same at all clients
    clients: tuple[np.random.SeedSequence, ...]

    @classmethod
    def of(cls, seed: int | np.random.SeedSequence | None, clients: int) -> Seeds:
        """From one seed; None: from the operating system."""
        if isinstance(seed, np.random.SeedSequence):  # a copy: spawning changes what is spawned next
            root = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)
        else:
            root = np.random.SeedSequence(seed)
        server, shared, *each = root.spawn(2 + clients)
        return cls(server, int(shared.generate_state(1)[0]), tuple(each))


@dataclass(frozen=True)
class Setting:
    """What all clients of a run have in common."""

    box: Box
    algorithm: Algorithm
    clients: int  # N
    vectorized: bool = False  # whether objectives take batches
    on_failure: OnFailure = "raise"  # what a NaN or infinite value does
    precision: Precision = "float64"  # how finely the clients' arrays travel
    # Applied to a reply before it is rounded, given the request and the server's x.
    protect: Callable[[Message, Message, FloatArray], Message] = lambda reply, request, x: reply

    def named(self, objective: Objective) -> Objective:
        """The objective as one of coordinates, where variables have names and it takes them by name."""
        space = getattr(self.box, "space", None)
        if space is None or isinstance(objective, NamedObjective) or getattr(objective, "takes_coordinates", False):
            return objective
        return NamedObjective(objective, space, self.vectorized)

    def client(
        self,
        index: int,
        objective: Objective,
        seed: np.random.SeedSequence,
        ledger: Ledger | None = None,
        pool: PointPool | None = None,
    ) -> Client:
        """A client with its trajectory and its half of the algorithm."""
        if isinstance(objective, Parallel):
            pool, objective = ExecutorPool(objective.executor), objective.objective
        evaluator = Evaluator(
            self.named(objective),
            self.box,
            vectorized=self.vectorized,
            client=index,
            on_failure=self.on_failure,
            ledger=ledger,
            seed=seed,
            pool=pool,
        )
        rng = np.random.default_rng(seed)
        trajectory = Trajectory(self.box.dim, stores=False)  # the client half may need points
        context = ClientContext(evaluator, trajectory, rng, self.box.dim, self.clients, self.algorithm.projected)
        return Client(self.algorithm.client(context), Rounding(self.precision, seed), self.protect)


def check_weights(weights: Any, count: int) -> FloatArray:
    """omega: not negative, summing to one."""
    if weights is None:
        return np.full(count, 1.0 / count)
    try:
        omega = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"weights must be a vector of numbers, got {weights!r}") from None
    if omega.shape != (count,):
        raise ValueError(f"weights has shape {omega.shape} but the number of clients is {count}")
    if not np.all(np.isfinite(omega)) or np.any(omega < 0):
        raise ValueError(f"weights must be finite and not negative, got {omega.tolist()}")
    if not np.any(omega):
        raise ValueError("weights must not all be zero")
    omega = omega / omega.max()  # so that the sum cannot overflow
    normalised: FloatArray = omega / omega.sum()
    return normalised


def count_participants(participation: float | int, count: int) -> int:
    """How many clients take part in a round: a fraction (float) or a number (int)."""
    check_number("participation", participation, 0.0)
    if isinstance(participation, (int, np.integer)):
        if not 1 <= participation <= count:
            raise ValueError(f"participation as a number must be in 1..{count} (the clients), got {participation}")
        return int(participation)
    check_number("participation as a fraction", participation, 0.0, 1.0)
    if participation == 0.0:
        raise ValueError("participation must be above 0")
    return max(1, math.floor(participation * count + 0.5))
