"""The client's loop, the same for every algorithm: request in, T local steps, reply out."""

from __future__ import annotations

import numpy as np

from fzoos.algorithms.base import ClientHalf
from fzoos.arrays import FloatArray
from fzoos.federation.codec import MessageError
from fzoos.federation.message import Message
from fzoos.optimizers import Optimizer

__all__ = ["Client"]


class Client:
    """One party: its trajectory, its half of the algorithm, its optimiser.

    Args:
        half: the algorithm's client half.
        optimizer: what turns gradient estimates into steps.
    """

    def __init__(self, half: ClientHalf, optimizer: Optimizer) -> None:
        self._half, self._optimizer = half, optimizer
        self._optimizer_state = optimizer.init(half.site.dim)
        self.x: FloatArray | None = None  # the server's x of this round
        self._x_round = 0

    @property
    def queries(self) -> int:
        """Queries made so far."""
        return self._half.site.trajectory.count

    @property
    def generator(self) -> np.random.Generator:
        """The client's random generator."""
        return self._half.site.rng

    def adopt(self, x: FloatArray, y: FloatArray) -> None:
        """Take note of queries that were paid for in a request that was never answered."""
        self._half.site.trajectory.adopt(x, y)

    def stop(self) -> None:
        """Make no further query; an answer under way ends at the next one (called from another thread)."""
        self._half.site.trajectory.stopped = True

    def handle(self, request: Message) -> Message:
        """Answer one request of the server."""
        trajectory = self._half.site.trajectory
        trajectory.round, trajectory.step = request.round, 0
        if request.kind == "refresh":
            self.x, self._x_round = request.arrays["x"], request.round
            payload = self._half.refresh(self.x, request)
            return Message("payload", request.round, payload, {"queries": self.queries})
        if "x" in request.arrays:
            self.x = request.arrays["x"]
        elif self._x_round != request.round:
            raise MessageError("an update without x, and no refresh of its round that brought it")
        assert self.x is not None
        return self._update(self.x, request)

    def _update(self, x: FloatArray, request: Message) -> Message:
        """x <- x - optimiser(g_local + gamma_t * correction), T times (the paper's eq. 2)."""
        half, steps = self._half, self._half.site.local_steps
        if self._optimizer.restart:
            self._optimizer_state = self._optimizer.init(len(x))
        half.begin(x, request)
        for t in range(1, steps + 1):
            half.site.trajectory.step = t
            x = half.step(x, t, self._descend)
            if t < steps:
                half.explore(x)
        payload = half.end(x)
        return Message("iterate", request.round, {"x": x, **payload}, {"queries": self.queries, **half.diagnostics()})

    def _descend(self, gradient: FloatArray) -> FloatArray:
        self._optimizer_state, step = self._optimizer.step(self._optimizer_state, gradient)
        return step
