"""The half of an algorithm that runs at the server, where x_r is no average of the clients' x.

`Steering` decides where to go, from the averages of both exchanges of a round; `ServerHalf` rebuilds an x that does not
travel, at the server and at all clients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Arrays

__all__ = ["ServerHalf", "State", "Steering"]

State = dict[str, FloatArray]
"""x and what else the next round depends on, the same at the server and all clients."""


class Steering(ABC):
    """The server half of an algorithm whose server decides where to go, from the averages of both exchanges.

    Clients do what they are told by a few numbers with each request: no decision is left to two machines that may
    differ in the last bit.
    """

    @abstractmethod
    def start(self, x: FloatArray) -> State:
        """The state before round 1."""

    @abstractmethod
    def scalars(self, state: State, seed: int, turn: int, participants: int, share: float) -> dict[str, float]:
        """What one participant is told with the requests of the next round.

        Args:
            state: after the last round.
            seed: the one that all share.
            turn: which of the participants it is, from 0.
            participants: how many there are.
            share: omega_i among them.
        """

    @abstractmethod
    def rebuilds(self, state: State) -> bool:
        """Whether participants of the last round can work out x from what they are told."""

    def cut(self, state: State, cut: int) -> State:
        """The state with which a round begins that is cut (`Algorithm.largest_cut`)."""
        return {**state, "cut": np.array([float(cut)])}

    def reported(self, state: State) -> FloatArray:
        """What the run's x is: that of the next round, or one that is known to be better."""
        return state["x"]

    def looked(self, state: State) -> float:
        """How far from x the last round looked in vain, where it does not follow that x is a minimum."""
        return 0.0

    @property
    def keeps_answers(self) -> bool:
        """Whether a client's answer still means something in later rounds: its "gradient" is that of f_i at x."""
        return False

    def failed(self, reply: Arrays) -> bool:
        """Whether a client's answer to the first exchange says that it has no value at x."""
        return False

    def back(self, state: State, x: FloatArray) -> State:
        """The state from which the next round begins at an earlier x, since a client had no value at a later one."""
        return {**state, "x": x}

    @abstractmethod
    def next_state(self, state: State, mean: Arrays, seed: int, participants: int) -> State:
        """The state after a round.

        Args:
            state: the one before it.
            mean: the averages of both exchanges.
            seed: the one that all share.
            participants: how many answered.
        """


class ServerHalf(ABC):
    """The server half of an algorithm whose x does not travel: x_r from x_{r-1} and the averaged replies.

    Every client runs it as well, on the same numbers. So a request brings the averaged replies of the last round, and
    the whole state only to a client that does not have the one before.

    Args:
        dim: d, the number of variables.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def start(self, x: FloatArray) -> State:
        """The state before round 1."""
        return {"x": x}

    @abstractmethod
    def next_state(self, state: State, mean: Arrays, round: int, seed: int) -> State:
        """The state after a round.

        Args:
            state: the one before it.
            mean: the round's averaged replies.
            round: r, the number of the round, from 1.
            seed: the one that all share.
        """
