"""The half of an algorithm that runs at a client, and what it works with.

The loop around it (T local steps, projection) is shared: `federation/client.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.renamed import old_name
from fzoos.algorithms.descent import Descent
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.trajectory import Purpose, Trajectory

__all__ = ["ClientContext", "ClientHalf", "SteeredHalf"]


@dataclass(frozen=True)
class ClientContext:
    """What a client half works with.

    Args:
        trajectory: evaluates the client's objective and counts.
        rng: the client's own random generator.
        dim: d, the number of variables.
        clients: N, the number of clients.
        local_steps: T, the number of local steps in a round.
        projected: whether iterates and queries are clipped to the cube.
        largest_matrix: numbers in the largest matrix of a local step, for the choice of BLAS threads.
    """

    trajectory: Trajectory
    rng: np.random.Generator
    dim: int
    clients: int
    local_steps: int
    projected: bool
    largest_matrix: int = 0

    def project(self, x: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """x clipped to the unit cube, if the algorithm is set to project."""
        return self.trajectory.box.project(x, out) if self.projected else x

    def query(self, points: FloatArray, purpose: Purpose) -> FloatArray:
        """Observations at the points, projected, shape (n, d) -> (n,): NaN marks a failed one."""
        return self.trajectory.query(self.project(points), purpose)


class ClientHalf(ABC):
    """The client half of an algorithm: gradient estimate and payload."""

    def __init__(self, context: ClientContext) -> None:
        self.context = context
        self._lengths: list[float] = []

    @property
    def site(self) -> ClientContext:
        """The context, by its name of the last release."""
        old_name("ClientHalf.site", "ClientHalf.context")
        return self.context

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """First exchange of a round (two-exchange algorithms only): renew the payload at the server's x."""
        raise TypeError(f"{type(self).__name__} has no refresh exchange")

    def begin(self, x: FloatArray, request: Message) -> None:
        """Start of a round's local steps, with the server's x and the averaged payload in the request."""
        self._lengths = []

    def walk(self, x: FloatArray, steps: int, descent: Descent) -> FloatArray:
        """T local steps from x, with the client's optimiser: where they end."""
        for t in range(1, steps + 1):
            self.context.trajectory.step = t
            x = self.step(x, t, descent)
            if t < steps:
                self.explore(x)
        return x

    def step(self, x: FloatArray, t: int, descend: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Local step t from x: x - descend(g_hat), where `descend` is the client's optimiser.

        A search that has no gradient overrides it, leaves `descend` alone and says so by `descends = False`.
        """
        return self.context.project(x - descend(self.gradient(x, t)))

    def gradient(self, x: FloatArray, t: int) -> FloatArray:
        """g_hat = g_local(x) + gamma_t * (correction_global - correction_local) (the paper's eq. 2)."""
        local = self.local_gradient(x)
        correction = self.correction(x, t)
        if correction is None:
            self._lengths.append(0.0)
            return local
        gamma, vector = correction
        self._lengths.append(gamma)
        return local + gamma * vector

    @abstractmethod
    def local_gradient(self, x: FloatArray) -> FloatArray:
        """g_local(x), the estimate of the client's own gradient."""

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        """(gamma_t, correction_global - correction_local), or None where there is none (yet)."""
        return None

    def explore(self, x: FloatArray) -> None:
        """After a local step to x, but the last: queries that improve the next estimates."""
        return

    def end(self, x: FloatArray) -> Arrays:
        """After the last local step, at x: the payload that travels with x (one-exchange algorithms)."""
        return {}

    def rest(self) -> None:
        """Others take part for a while: give back what can be computed again from the trajectory."""
        return

    def diagnostics(self) -> dict[str, float]:
        """What the client reports of its round besides x: means over the local steps."""
        return {"correction_length": float(np.mean(self._lengths))}


class SteeredHalf(ClientHalf):
    """The client half of an algorithm whose server decides where to go: see `Steering`. There are no local steps."""

    def rebuild(self, request: Message) -> FloatArray:
        """The server's x, for a first request that does not bring it, from what this client had in the last round."""
        raise TypeError(f"{type(self).__name__} must be told x")

    @abstractmethod
    def answer(self, x: FloatArray, request: Message) -> Arrays:
        """Second exchange of a round, with the server's x and the averages of the first in the request."""

    def diagnostics(self) -> dict[str, float]:
        """No correction has a length here."""
        return {"correction_length": 0.0}
