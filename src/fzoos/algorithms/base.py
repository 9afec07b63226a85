"""What an algorithm is: a frozen record of settings that makes the halves which run at clients and at the server.

An author of an algorithm finds everything here: the halves (`client_half.py`, `server_half.py`), the declaration of
what they send (`parts.py`); and in `local_steps.py` the base classes of algorithms with local steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from fzoos.algorithms.client_half import ClientContext, ClientHalf
from fzoos.algorithms.parts import LARGEST, Part, Parts
from fzoos.algorithms.scalars import RoundScalars, Scalars, SeededScalars
from fzoos.algorithms.server_half import (
    Recipient,
    RefreshedServerHalf,
    Request,
    Round,
    ServerHalf,
    State,
    declared_parts,
)
from fzoos.messages.message import Message

__all__ = [
    "LARGEST",
    "Algorithm",
    "ClientContext",
    "ClientHalf",
    "Part",
    "Parts",
    "Recipient",
    "RefreshedServerHalf",
    "Request",
    "Round",
    "RoundScalars",
    "Scalars",
    "SeededScalars",
    "ServerHalf",
    "State",
    "declared_parts",
]


@dataclass(frozen=True)
class Algorithm(ABC):
    """Settings shared by all algorithms.

    Args:
        projected: whether iterates and queries are clipped to the box; without it an objective may be queried outside.
    """

    projected: bool = True

    name: ClassVar[str]  # on the command line and in a study's file: the class's name in lower case
    label: ClassVar[str]  # in tables and legends: the class's name
    version: ClassVar[int] = 1  # goes up when the same settings give other numbers: old studies are then other studies
    diagnostics: ClassVar[tuple[str, ...]] = ()  # names of the numbers that a reply may report
    tolerance: ClassVar[float] = 0.0  # a run converges after three moves below it, in units of the box; 0: never

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name, cls.label = cls.__name__.lower(), cls.__name__

    def at(self, dim: int) -> Algorithm:
        """Return the algorithm for this number of variables; `Auto` chooses it."""
        return self

    @abstractmethod
    def client(self, context: ClientContext) -> ClientHalf:
        """Make the client half."""

    def server(self, dim: int) -> ServerHalf:
        """Make the server half; by default x_r is the mean of the clients' x, and nothing else is sent."""
        return ServerHalf(dim)

    @abstractmethod
    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return how many queries a client makes to answer a request.

        It must be exact: budgets depend on it. Without arrays, as when a round is planned, it may be an upper bound.

        Args:
            dim: d, the number of variables.
            request: the request.
            first: whether it is the client's first.
        """
