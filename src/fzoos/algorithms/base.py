"""What an algorithm is: a frozen record of settings, and the half of it that runs at a client.

The loop around it (T local steps, projection, averaging) is shared: `federation/client.py` and `federation/server.py`.
An algorithm whose x does not travel has a server half too: how x_r follows from x_{r-1} and the averaged replies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.renamed import keep_old_attributes, old_name
from fzoos.algorithms.optimizers import Optimizer
from fzoos.algorithms.protocol import Protocol
from fzoos.messages.message import Arrays, Message
from fzoos.objectives.trajectory import Purpose, Trajectory

__all__ = [
    "LARGEST",
    "Algorithm",
    "ClientContext",
    "ClientHalf",
    "PayloadPart",
    "ServerHalf",
    "State",
    "SteeredHalf",
    "Steering",
]

keep_old_attributes(__name__)

LARGEST = 1e100
"""No number of a message is larger: its square, and sums of squares, can still be computed by everybody."""

State = dict[str, FloatArray]
"""x and what else the next round depends on, the same at the server and all clients."""


@dataclass(frozen=True)
class PayloadPart:
    """One array that clients send beside x: its range, and what differential privacy may do with it.

    Args:
        shape: the shape of the array.
        privacy: "clip": it leaves a site shortened to the study's clip and with noise on it, like x; "numbers": single
            numbers, each left out, or with noise as wide as its range; "refuse": noise would leave nothing of it, so
            that a study with differential privacy does not begin.
        instead: for what is refused, which settings do without it, as they stand in a study's file.
        neutral: of "numbers", what is sent in place of those that are left out, the same by all; NaN: it is not left
            out, and `low` and `high` are its range.
        carried: whether its average goes out again with the next refresh request.
        low: the smallest number that an honest client sends, of all or of each; a reply with a smaller one is refused.
        high: the largest. A range is checked for each reply, before any average: one number of one client that is out
            of all proportion would otherwise decide what all of them do. Noise for privacy may leave it.

    Example:
        >>> from fzoos.algorithms.base import PayloadPart
        >>> PayloadPart((300,)).privacy
        'clip'
        >>> PayloadPart((1,), "refuse", "fit = false").instead
        'fit = false'
        >>> PayloadPart((2,), low=0.0).low                   # squares, say
        0.0
    """

    shape: tuple[int, ...]
    privacy: Literal["clip", "numbers", "refuse"] = "clip"
    instead: str = ""
    carried: bool = False
    low: float | tuple[float, ...] = -LARGEST
    high: float | tuple[float, ...] = LARGEST
    neutral: tuple[float, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether anything of a site leaves with it under differential privacy."""
        return self.privacy != "numbers" or any(math.isnan(number) for number in self.neutral)


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

    def project(self, x: FloatArray) -> FloatArray:
        """x clipped to the unit cube, if the algorithm is set to project."""
        return self.trajectory.box.project(x) if self.projected else x

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
        local_steps: T, the number of local steps in a round.
        optimizer: the clients' optimiser; where it is not restarted each round, its moments are part of the state.
    """

    def __init__(self, dim: int, local_steps: int, optimizer: Optimizer) -> None:
        self.dim, self.local_steps, self.optimizer = dim, local_steps, optimizer

    def start(self, x: FloatArray) -> State:
        """The state before round 1."""
        return {"x": x, **self.optimizer_entry(self.optimizer.init(self.dim))}

    @abstractmethod
    def next_state(self, state: State, mean: Arrays, round: int, seed: int) -> State:
        """The state after a round.

        Args:
            state: the one before it.
            mean: the round's averaged replies.
            round: r, the number of the round, from 1.
            seed: the one that all share.
        """

    def optimizer_entry(self, moments: tuple[Any, ...]) -> State:
        """The optimiser's state as an entry of ours, if it lasts longer than a round."""
        if self.optimizer.restart or not moments:
            return {}
        return {"optimizer": np.concatenate([np.ravel(part).astype(np.float64) for part in moments])}

    def moments(self, state: Arrays) -> tuple[Any, ...]:
        """The optimiser's state with which a round begins."""
        fresh = self.optimizer.init(self.dim)
        if "optimizer" not in state:
            return fresh
        parts = np.split(state["optimizer"], np.cumsum([np.size(part) for part in fresh])[:-1])
        return tuple(
            new.reshape(np.shape(old)) if np.ndim(old) else type(old)(new[0])
            for old, new in zip(fresh, parts, strict=True)
        )


@dataclass(frozen=True)
class Algorithm(ABC):
    """Settings shared by all algorithms.

    Args:
        projected: whether iterates and queries are clipped to the box; without it an objective may be asked outside.
    """

    projected: bool = True

    name: ClassVar[str]  # on the command line and in a study's file: the class's name in lower case
    label: ClassVar[str]  # in tables and legends: the class's name
    version: ClassVar[int] = 1  # goes up when the same settings mean other numbers: old studies are then other studies
    descends: ClassVar[bool] = True  # whether local steps are the optimiser's; those of a search are its own
    shares_seed: ClassVar[bool] = False  # whether requests carry the seed that all clients share
    reported: ClassVar[tuple[str, ...]] = ("correction_length", "uncertainty")  # what diagnostics may be called
    presets: ClassVar[tuple[str, ...]] = ()  # class methods that make settings for a purpose: a study's `preset`
    combines_replies: ClassVar[bool] = False  # whether x_r is no average of the replies: see `combine_replies`
    rebuilds: ClassVar[bool] = False  # whether x follows from the averaged payloads and does not travel: see `server`
    steered: ClassVar[bool] = False  # whether the server decides where to go: see `steering`
    told: ClassVar[tuple[str, ...]] = ()  # what the numbers may be called that a steering server sends
    tolerance: ClassVar[float] = 0.0  # a run ends after three moves below it, in units of the box; 0: it does not

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name, cls.label = cls.__name__.lower(), cls.__name__

    @classmethod
    def with_settings(cls, settings: Collection[str], preset: str | None) -> type[Algorithm]:
        """The class that has these settings, by their names in a study's file."""
        return cls

    @classmethod
    def installed(cls) -> bool:
        """Whether the packages are there that the algorithm needs beyond fzoos's own."""
        return True

    @property
    def refreshes_first(self) -> bool:
        """Whether the first round begins with a refresh as well."""
        return False

    @property
    def asks_x(self) -> bool:
        """Whether clients ask the server's x in each round after the first; if not, constraints cost one more query."""
        return True

    @property
    def carried(self) -> tuple[str, ...]:
        """Payload entries that go out again with the next refresh request."""
        return tuple(name for name, part in self.parts(dim=1, local_steps=1).items() if part.carried)

    @property
    def exchanges(self) -> int:
        """Exchanges per round: 2 if payloads are refreshed at the server's x before the local steps, else 1."""
        return 1

    @property
    def protocol(self) -> Protocol:
        """What the members above mean for each round; everybody else asks it, and no algorithm overrides it."""
        return Protocol(self.exchanges, self.refreshes_first, self.rebuilds)

    def largest_matrix(self, dim: int) -> int:
        """Numbers in the largest matrix that a local step multiplies with: small ones are faster on one thread."""
        return 0

    @property
    def in_step(self) -> bool:
        """Whether clients in one process compute together what all of them compute: see `fzoos._util.together`."""
        return False

    @abstractmethod
    def client(self, context: ClientContext) -> ClientHalf:
        """The client half."""

    def keeps_trajectory(self, dim: int) -> bool:
        """Whether clients look back at their queries."""
        return False

    @abstractmethod
    def queries(self, dim: int, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """Queries of one client in one round.

        Args:
            dim: d, the number of variables.
            local_steps: T, the number of local steps in a round.
            first: whether it is the client's first round.
            refreshed: whether the round begins with a refresh exchange.
        """

    def planned(self, dim: int, local_steps: int, scalars: Mapping[str, float], *, first: bool, refreshed: bool) -> int:
        """The same, given the numbers that come with the request, where they matter; "cut" does."""
        return self.queries(dim, int(scalars.get("cut", local_steps)), first=first, refreshed=refreshed)

    def largest_cut(self, dim: int, local_steps: int) -> int:
        """A round can be cut to 1, 2, ..., or so much, where a budget leaves less than a whole one; 0: it cannot be.

        What that means is the algorithm's: here, local steps. It comes with the requests as "cut".
        """
        return local_steps - 1

    def payload(self, dim: int) -> Mapping[str, PayloadPart | tuple[int, ...]]:
        """The arrays that clients send beside x, and that come back averaged; a plain shape stands for a part of it."""
        return {}

    @property
    def per_step(self) -> Mapping[str, int]:
        """More of them, with so many numbers for each local step."""
        return {}

    def parts(self, dim: int, local_steps: int) -> dict[str, PayloadPart]:
        """All of the payload.

        Example:
            >>> from fzoos import FZooS
            >>> [name for name, part in FZooS().parts(dim=5, local_steps=10).items() if part.privacy == "refuse"]
            []
        """
        sent = {**self.payload(dim), **{name: (local_steps * n,) for name, n in self.per_step.items()}}
        return {name: part if isinstance(part, PayloadPart) else PayloadPart(part) for name, part in sent.items()}

    def shapes(self, dim: int, local_steps: int) -> dict[str, tuple[int, ...]]:
        """All of the payload, names and shapes."""
        return {name: part.shape for name, part in self.parts(dim, local_steps).items()}

    def reply_parts(self, dim: int, local_steps: int, request: Message) -> dict[str, PayloadPart]:
        """What the reply to a request brings, x included."""
        x = {"x": PayloadPart((dim,))} if self.protocol.returns_x(request.kind) else {}
        return {**x, **(self.parts(dim, local_steps) if self.protocol.returns_payload(request.kind) else {})}

    def server(self, dim: int, local_steps: int, optimizer: Optimizer) -> ServerHalf | None:
        """The server half, where the algorithm `rebuilds` x."""
        return None

    @property
    def keeps_answers(self) -> bool:
        """Whether a client's answer still means something in later rounds, at another x: for asynchronous rounds."""
        return False

    def server_projects(self, dim: int) -> bool:
        """Whether the server clips x, too, and not the clients alone."""
        return self.rebuilds

    def steering(self, dim: int) -> Steering | None:
        """The server half, where the algorithm is `steered`."""
        return None

    def combine_replies(self, kept: State, replies: Sequence[Arrays], weights: FloatArray) -> State:
        """x_r as "x", what goes out, named like the payload's, and what only the server keeps, for `combines_replies`.

        Args:
            kept: what this returned in the round before; in the first round x alone.
            replies: the arrays of those who answered, in the order of the clients.
            weights: omega of these clients, of any scale.
        """
        raise TypeError(f"{self.label} does not combine replies")
