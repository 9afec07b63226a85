"""Algorithms that do not send x: the server and every client compute x_r from x_{r-1} and the averaged replies.

A request contains the averaged replies of the last round. A client that did not take part in it gets the whole state
instead, exactly: from then on it computes the same numbers as everybody else.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.parts import Part, Parts
from fzoos.algorithms.scalars import SeededScalars
from fzoos.algorithms.server_half import Recipient, Request, Round, ServerHalf, State
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["Replica", "ReplicatedServerHalf"]


class ReplicatedServerHalf(ServerHalf):
    """The server half; the last averaged replies are part of its state."""

    def __init__(self, dim: int, parts: Parts) -> None:
        super().__init__(dim, {}, SeededScalars)
        self.parts = dict(parts)

    @abstractmethod
    def step(self, state: Arrays, mean: Arrays, round: int, seed: int) -> State:
        """Return the state after round r from its averaged replies: everybody computes it from the same numbers."""

    def request(self, state: State, kind: Kind, recipient: Recipient, round: Round) -> Request:
        mean = {name: state[name] for name in self.parts if name in state}
        if recipient.in_last_round and mean:
            return Request(mean, self.round_scalars(round))
        whole = {name: array for name, array in state.items() if name not in mean}
        return Request(whole, self.round_scalars(round), exact=True)

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        return {**self.step(state, mean, round.number, round.seed), **mean}

    def request_parts(self, request: Message) -> Parts:
        if "x" not in request.arrays:
            return self.parts
        return {name: Part(array.shape) for name, array in self.start(np.zeros(self.dim)).items()}


class Replica:
    """A client's copy of the state."""

    def __init__(self, server: ReplicatedServerHalf) -> None:
        self._server = server
        self.state: State = {}
        self._round = 0

    def follow(self, request: Message) -> State:
        """Return the state with which the round of a request begins."""
        r = request.round
        if "x" in request.arrays:
            self.state = dict(request.arrays)
        elif self.state and self._round == r - 1:
            self.state = self._server.step(self.state, request.arrays, r - 1, int(request.scalars["seed"]))
        elif self._round != r:
            raise MessageError(f"an update of round {r} without x, and none of round {r - 1} to compute it from")
        self._round = r
        return self.state

    def saved(self) -> StateDict:
        """Return arrays and numbers that `restore` reads."""
        return {"round": self._round, **prefixed("of", self.state)}

    def restore(self, state: StateDict) -> None:
        """Replace all by what `saved` returned."""
        self._round, self.state = state["round"], part_of("of", state)
