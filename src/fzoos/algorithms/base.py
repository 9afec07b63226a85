"""What an algorithm is: a frozen record of settings that makes the halves which run at clients and at the server.

The loop around them (projection, averaging) is shared: `federation/client.py`, `federation/server.py`. Whoever writes
an algorithm finds all that it is made of here: the halves of `client_half.py` and `server_half.py`, and the payload's
parts of `payload.py`; and in `local_steps.py` what algorithms with local steps have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.client_half import ClientContext, ClientHalf, SteeredHalf
from fzoos.algorithms.payload import LARGEST, PayloadPart
from fzoos.algorithms.protocol import Protocol
from fzoos.algorithms.server_half import ServerHalf, State, Steering
from fzoos.messages.message import Arrays, Message

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
    shares_seed: ClassVar[bool] = False  # whether requests carry the seed that all clients share
    reported: ClassVar[tuple[str, ...]] = ("correction_length",)  # what diagnostics may be called
    combines_replies: ClassVar[bool] = False  # whether x_r is no average of the replies: see `combine_replies`
    rebuilds: ClassVar[bool] = False  # whether x follows from the averaged payloads and does not travel: see `server`
    steered: ClassVar[bool] = False  # whether the server decides where to go: see `steering`
    told: ClassVar[tuple[str, ...]] = ()  # what the numbers may be called that a steering server sends
    votes: ClassVar[Mapping[str, slice]] = MappingProxyType({})  # of the payload, what says yes or no: see `aggregate`
    tolerance: ClassVar[float] = 0.0  # a run ends after three moves below it, in units of the box; 0: it does not

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name, cls.label = cls.__name__.lower(), cls.__name__

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
        return tuple(name for name, part in self.parts(dim=1).items() if part.carried)

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

    def at(self, dim: int) -> Algorithm:
        """The algorithm itself; one that chooses among others overrides it."""
        return self

    @abstractmethod
    def client(self, context: ClientContext) -> ClientHalf:
        """The client half."""

    def keeps_trajectory(self, dim: int) -> bool:
        """Whether clients look back at their queries."""
        return False

    @abstractmethod
    def queries(self, dim: int, *, first: bool, refreshed: bool) -> int:
        """Queries of one client in one round.

        Args:
            dim: d, the number of variables.
            first: whether it is the client's first round.
            refreshed: whether the round begins with a refresh exchange.
        """

    def in_round(self, scalars: Mapping[str, float]) -> Self:
        """The settings of one round, given the numbers that come with its requests: those of a cut round may differ."""
        return self

    def planned(self, dim: int, scalars: Mapping[str, float], *, first: bool, refreshed: bool) -> int:
        """The queries of one round, given the numbers that come with the request."""
        return self.in_round(scalars).queries(dim, first=first, refreshed=refreshed)

    def largest_cut(self, dim: int) -> int:
        """A round can be cut to 1, 2, ..., or so much, where a budget leaves less than a whole one; 0: it cannot be.

        What that means is the algorithm's. It comes with the requests as "cut".
        """
        return 0

    def payload(self, dim: int) -> Mapping[str, PayloadPart | tuple[int, ...]]:
        """The arrays that clients send beside x, and that come back averaged; a plain shape stands for a part of it."""
        return {}

    def parts(self, dim: int) -> dict[str, PayloadPart]:
        """All of the payload.

        Example:
            >>> from fzoos import FZooS
            >>> [name for name, part in FZooS().parts(dim=5).items() if part.privacy == "refuse"]
            []
        """
        sent = self.payload(dim).items()
        return {name: part if isinstance(part, PayloadPart) else PayloadPart(part) for name, part in sent}

    def shapes(self, dim: int) -> dict[str, tuple[int, ...]]:
        """All of the payload, names and shapes."""
        return {name: part.shape for name, part in self.parts(dim).items()}

    def reply_parts(self, dim: int, request: Message) -> dict[str, PayloadPart]:
        """What the reply to a request brings, x included."""
        x = {"x": PayloadPart((dim,))} if self.protocol.returns_x(request.kind) else {}
        payload = self.protocol.returns_payload(request.kind)
        return {**x, **(self.in_round(request.scalars).parts(dim) if payload else {})}

    def server(self, dim: int) -> ServerHalf | None:
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
