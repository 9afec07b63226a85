"""The half of an algorithm that runs at a client, and what it works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.ledger import Purpose
from fzoos.objectives.trajectory import Trajectory

__all__ = ["ClientContext", "ClientHalf"]


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
    """

    evaluator: Evaluator
    trajectory: Trajectory
    rng: np.random.Generator
    dim: int
    clients: int
    projected: bool

    def project(self, x: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Clip x to the unit cube, if the algorithm is set to project."""
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


class ClientHalf(ABC):
    """The client half of an algorithm: it answers the requests of the server half.

    An algorithm whose surrogates are conditioned on the client's queries calls `context.trajectory.store_points()`.

    Args:
        context: what it works with.
    """

    largest_matrix = 0  # numbers in the largest matrix that it multiplies with: small ones are faster on one thread

    def __init__(self, context: ClientContext) -> None:
        self.context = context
        self._located: FloatArray | None = None  # the server's
        self._located_round = 0  # the round of which it is
        self._constraints_due = False

    def locate(self, request: Message) -> FloatArray:
        """Return the server's x in the round of a request, which need not contain it.

        Raises:
            MessageError: it cannot be known.
        """
        if "x" in request.arrays:
            self._located = request.arrays["x"]
        elif self._located is None or self._located_round != request.round:
            self._located = self.compute_x(request)
        self._located_round = request.round
        return self._located

    def compute_x(self, request: Message) -> FloatArray:
        """Return the server's x for the first request of a round, if that does not contain it."""
        raise MessageError(f"an {request.kind} without x, and no refresh of its round that brought it")

    @abstractmethod
    def reply(self, x: FloatArray, request: Message) -> Arrays:
        """Return the arrays that `ServerHalf.reply_parts` declares for this request; x is the server's."""

    def begin_round(self, x: FloatArray) -> None:
        """Begin a round at the server's x, where constraints are evaluated."""
        self._constraints_due = self.context.begin_round(x)

    def query_constraints(self, x: FloatArray) -> None:
        """Query the server's x if that has not been done in this round and there are constraints."""
        due, self._constraints_due = self._constraints_due, False
        if due and self.context.trajectory.violation is None:
            self.context.query(x[None], "refresh", at_server_x=True)

    def release(self) -> None:
        """Release what can be computed again from the trajectory: other clients take part for a while."""
        return

    def diagnostics(self) -> dict[str, float]:
        """Return numbers that the last reply of a round reports: see `Algorithm.diagnostics`."""
        return {}

    def state(self) -> StateDict:
        """Return arrays and numbers that later requests depend on, beside the trajectory and the random generator."""
        return {"server_x": self._located, "server_round": self._located_round}

    def restore(self, state: StateDict) -> None:
        """Replace all by what `state` returned, after the trajectory was restored."""
        self._located, self._located_round = state.get("server_x"), state["server_round"]
