"""The half of an algorithm that runs at a client, and what it works with.

The loop around it is shared: `federation/client.py`. Local steps are in `local_steps.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.ledger import Purpose
from fzoos.objectives.trajectory import Trajectory

__all__ = ["ClientContext", "ClientHalf", "SteeredHalf"]


@dataclass(frozen=True)
class ClientContext:
    """What a client half works with.

    Args:
        evaluator: evaluates the client's objective, and counts.
        trajectory: the points that the client has queried, and their values.
        rng: the client's own random generator.
        dim: d, the number of variables.
        clients: N, the number of clients.
        projected: whether iterates and queries are clipped to the cube.
        largest_matrix: numbers in the largest matrix of a local step, for the choice of BLAS threads.
    """

    evaluator: Evaluator
    trajectory: Trajectory
    rng: np.random.Generator
    dim: int
    clients: int
    projected: bool
    largest_matrix: int = 0

    def project(self, x: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """x clipped to the unit cube, if the algorithm is set to project."""
        return self.evaluator.box.project(x, out) if self.projected else x

    @property
    def iterate_is_server_x(self) -> bool:
        """Whether the current iterate is the server's x: there was no local step in this round yet."""
        return self.evaluator.step < 2

    def begin_round(self, x: FloatArray) -> bool:
        """Begin a round at the server's x; whether the client has constraints, as far as is known."""
        self.evaluator.begin_round(x)
        if self.trajectory.lagrangian is None:
            return False
        self.trajectory.lagrangian.at_server_x = None
        return True

    def query(self, points: FloatArray, purpose: Purpose, *, at_server_x: bool = False) -> FloatArray:
        """Query points, which are projected first, and add them to the trajectory.

        Args:
            points: shape (n, d).
            purpose: what the query is for.
            at_server_x: whether the first point is the server's x of this round.

        Returns:
            What is observed there, shape (n,); NaN marks a failed point.
        """
        x, values = self.evaluator.evaluate(self.project(points), purpose, at_server_x=at_server_x)
        return self.trajectory.add(x, values, at_server_x)

    def query_inside(
        self, points: FloatArray, purpose: Purpose = "query", *, spread: bool = True, at_server_x: bool = False
    ) -> FloatArray:
        """Query points that are projected already, as `query` does; for `spread` see `Evaluator.evaluate`."""
        x, values = self.evaluator.evaluate(points, purpose, spread=spread, at_server_x=at_server_x)
        return self.trajectory.add(x, values, at_server_x)


class ClientHalf:
    """The client half of an algorithm: what it does with the requests of a round."""

    def __init__(self, context: ClientContext) -> None:
        self.context = context

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """First exchange of a round (two-exchange algorithms only): renew the payload at the server's x."""
        raise TypeError(f"{type(self).__name__} has no refresh exchange")

    def begin(self, x: FloatArray, request: Message) -> None:
        """Start of a round, with the server's x and the averaged payload in the request."""
        return

    def run_round(self, x: FloatArray) -> FloatArray:
        """What the client does in a round, from the server's x: the x with which it ends."""
        return x

    def end(self, x: FloatArray) -> Arrays:
        """After that, at the x with which the round ended: the payload that travels with it."""
        return {}

    def rest(self) -> None:
        """Others take part for a while: give back what can be computed again from the trajectory."""
        return

    def diagnostics(self) -> dict[str, float]:
        """What the client reports of its round besides x; without corrections their length is 0."""
        return {"correction_length": 0.0}

    def state(self) -> StateDict:
        """Named arrays and numbers that later requests depend on, beside the trajectory and the random generator."""
        return {}

    def restore(self, state: StateDict) -> None:
        """Replace all by what `state` returned, after the trajectory was restored; what is not in it stays as it is."""
        return


class SteeredHalf(ClientHalf, ABC):
    """The client half of an algorithm whose server decides where to go: see `Steering`. There are no local steps."""

    def rebuild(self, request: Message) -> FloatArray:
        """The server's x, for a first request that does not bring it, from what this client had in the last round."""
        raise TypeError(f"{type(self).__name__} must be told x")

    @abstractmethod
    def answer(self, x: FloatArray, request: Message) -> Arrays:
        """Second exchange of a round, with the server's x and the averages of the first in the request."""
