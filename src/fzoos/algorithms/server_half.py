"""The half of an algorithm that runs at the server: pure functions of a dict of named arrays.

A round is one or two exchanges. In each of them the server sends a request to every participant and averages the
replies:

    state = half.start(x)                                            once
    for kind in half.exchanges(round.number):                        ("update",) or ("refresh", "update")
        request = half.request(state, kind, recipient, round)        for each participant
        mean    = the average of the replies, whose arrays           half.reply_parts(request) declares
        state   = half.next_state(state, kind, mean, round)

`ServerHalf` is also the default, in which x_r is the mean of the clients' x. An algorithm overrides what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.parts import Part, Parts
from fzoos.algorithms.scalars import RoundScalars, Scalars, SeededScalars
from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["Recipient", "RefreshedServerHalf", "Request", "Round", "ServerHalf", "State", "declared_parts"]

State = dict[str, FloatArray]
"""Named arrays: "x" in the unit cube, and whatever else the next round depends on. A checkpoint stores nothing else."""

Aggregate = Callable[[Sequence[Arrays], FloatArray], dict[str, FloatArray]]
"""Combine the arrays of several clients, given their weights, as the study's `aggregate` says."""

_NONE: Parts = MappingProxyType({})


@dataclass(frozen=True)
class Round:
    """What all participants of a round have in common.

    Args:
        number: r, from 1.
        seed: the seed that all clients share.
        weights: omega of the participants, of any scale.
        cut: the size to which the budget cuts the round; 0: it is whole.
        constrained: whether any client has constraints.
        replied: in `next_state`, the positions of the participants whose replies are in the average.
        received_x: in `next_state`, the server's x as the clients received it, rounded to the precision of messages.
        aggregate: combines the arrays of several clients.
    """

    number: int
    seed: int
    weights: FloatArray
    cut: int = 0
    constrained: bool = False
    replied: tuple[int, ...] = ()
    received_x: FloatArray | None = None
    aggregate: Aggregate | None = None


@dataclass(frozen=True)
class Recipient:
    """One participant, as far as the server distinguishes it from the others.

    Args:
        position: its position among the participants, from 0.
        weight: omega_i, normalised over the participants.
        in_round: whether it has replied to an earlier exchange of this round, and so has x.
        in_last_round: whether it replied in the last round, and so knows what was sent in it.
    """

    position: int
    weight: float
    in_round: bool = False
    in_last_round: bool = False


@dataclass(frozen=True)
class Request:
    """The content of a request.

    Args:
        arrays: the named arrays.
        scalars: the named numbers.
        exact: whether the arrays must arrive unrounded.
    """

    arrays: Arrays = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    exact: bool = False


class ServerHalf:
    """The server half of an algorithm. By default x_r and all other arrays are the means of the clients'.

    Args:
        dim: d, the number of variables.
        parts: the arrays that clients send beside x; their averages are sent with the next request.
        scalars: the record of the numbers that are sent with each request.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.base import Part, Recipient, Round, ServerHalf
        >>> half = ServerHalf(2, {"c": Part((2,))})
        >>> round = Round(1, seed=0, weights=np.ones(3))
        >>> state = half.next_state(half.start(np.zeros(2)), "update", {"x": np.ones(2), "c": np.full(2, 3.0)}, round)
        >>> half.request(state, "update", Recipient(0, 1 / 3), round).arrays
        {'x': array([1., 1.]), 'c': array([3., 3.])}
    """

    def __init__(self, dim: int, parts: Parts = _NONE, scalars: type[RoundScalars] = RoundScalars) -> None:
        self.dim = dim
        self.scalars: type[Scalars] = scalars
        self.parts: dict[str, Part] = {"x": Part((dim,), late="keep"), **parts}

    def start(self, x: FloatArray) -> State:
        """Return the state before round 1."""
        return {"x": x}

    def exchanges(self, round: int) -> tuple[Kind, ...]:
        """Return the kinds of a round's exchanges in their order; the last one is "update"."""
        return ("update",)

    def request(self, state: State, kind: Kind, recipient: Recipient, round: Round) -> Request:
        """Return what one participant is sent."""
        return Request({name: state[name] for name in self.parts if name in state}, self.round_scalars(round))

    def round_scalars(self, round: Round) -> dict[str, float]:
        """Return the numbers that are the same for all participants."""
        scalars: dict[str, float] = {"seed": round.seed} if issubclass(self.scalars, SeededScalars) else {}
        return scalars | ({"cut": round.cut} if round.cut else {})

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        """Return the state after an exchange, from the averaged replies.

        Averages of a round's first exchange are rounded as clients will receive them, but for x. Arrays that are
        declared as `stacked` are not averaged.
        """
        return {**state, **mean}

    def reported_x(self, state: State) -> FloatArray:
        """Return the x of the run: that of the next round, or one that is known to be better."""
        return state["x"]

    def moved(self, state: State, before: FloatArray) -> float:
        """Return how far x is from `before`, the largest change of a coordinate. A run converges when it is small."""
        return float(np.max(np.abs(state["x"] - before), initial=0.0))

    def reply_parts(self, request: Message) -> Parts:
        """Return the declarations of all arrays of the reply: sites know the request, and not the server's state."""
        return self.parts

    def request_parts(self, request: Message) -> Parts:
        """Return the declarations of all arrays that this request must contain."""
        return {name: part for name, part in self.parts.items() if name == "x" or name in request.arrays}

    def receive(self, state: State, request: Message, reply: Message | None, position: int, round: Round) -> State:
        """Return the state after a single reply in asynchronous rounds, which may answer a request of an earlier round.

        The reply is None if the request has failed. `position` is that of the client among the participants, and
        `round` the round in which the reply arrives.
        """
        return state

    def waits_for_all(self, state: State, kind: Kind, pending: Sequence[int], round: Round) -> bool:
        """Return whether an exchange of asynchronous rounds must wait for all clients.

        `pending` are the rounds of the requests that have no reply yet.
        """
        return False


class RefreshedServerHalf(ServerHalf):
    """The server half of an algorithm whose clients compute the arrays beside x at the server's x, in a first exchange.

    Round 1 consists of the second exchange alone. The paper of FZooS puts the first exchange at the end of a round. At
    the start of the next one it is the same computation, but it costs nothing after the last round, and under partial
    participation the averages come from the clients that are about to use them.
    """

    def __init__(self, dim: int, parts: Parts = _NONE, scalars: type[RoundScalars] = RoundScalars) -> None:
        super().__init__(dim, parts, scalars)
        self._x = {"x": Part((dim,), late="once")}
        self._beside_x = {name: part for name, part in self.parts.items() if name != "x"}

    def exchanges(self, round: int) -> tuple[Kind, ...]:
        return ("update",) if round == 1 else ("refresh", "update")

    def request(self, state: State, kind: Kind, recipient: Recipient, round: Round) -> Request:
        names = ["x"] * (not recipient.in_round) + list(self._beside_x) * (kind == "update")
        return Request({name: state[name] for name in names if name in state}, self.round_scalars(round))

    def reply_parts(self, request: Message) -> Parts:
        return self._beside_x if request.kind == "refresh" else self._x

    def request_parts(self, request: Message) -> Parts:
        if request.kind == "refresh":
            return self._x
        return {name: part for name, part in self.parts.items() if name in request.arrays}


def declared_parts(half: ServerHalf) -> dict[str, Part]:
    """Return the declarations of all arrays that replies may contain, by the requests of the first two rounds."""
    found: dict[str, Part] = {}
    state = half.start(np.full(half.dim, 0.5))
    for number in (1, 2):
        for kind in half.exchanges(number):
            round = Round(number, 0, np.ones(2))
            request = half.request(state, kind, Recipient(0, 0.5), round)
            found |= half.reply_parts(Message(kind, number, request.arrays, request.scalars))
    return found
