"""The numbers that the server of the line search sends with every request: the same for all but the last three.

All decisions are the server's: two machines that differ in the last bit would not always decide alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fzoos.algorithms.scalars import Scalars, number, whole
from fzoos.messages.codec import MessageError

__all__ = ["Control", "Mode"]


class Mode(IntEnum):
    """Which client queries which directions of a design."""

    SHARED = 1  # all clients query the same
    SPLIT = 2  # each client queries some of them


@dataclass(frozen=True)
class Control(Scalars):
    """The numbers of a request."""

    seed: int = whole(0, 2**64)  # of the directions, the same for all clients
    mode: Mode = whole(1, 2)  # noqa: RUF009  # which client queries which directions
    radius: float = number(1e-12, 1.0)  # h, of the design, as a fraction of the box in each coordinate
    ridge: float = number(0.0, 1e12, default=1e-8)  # of the surrogate of all rounds
    step_size: float = number(0.0, 1e12, default=1.0)  # L, the unit of the lines
    basis: int = whole(default=0)  # the number of the orthonormal basis of the directions
    used: int = whole(default=0)  # the number of its directions that were queried before
    size: int = whole(default=0)  # m, the number of directions in this design over all clients; 0: as many as possible
    probe: int = whole(default=0)  # the number of directions in a first, small design, after which x stays; else 0
    line: int = whole(0, 2, default=0)  # the line of the last move, 1 or 2; 0: none
    length: float = number(0.0, 1e12, default=0.0)  # the length of the last move
    cut: int = whole(default=0)  # the largest number of queries in the first exchange, x included; 0: no limit
    client_index: int = whole(default=0)  # the index of this client among the participants
    participants: int = whole(1, default=1)  # the number of participants
    weight: float = number(1e-12, 1.0, default=1.0)  # omega_i, of this client among the participants

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", Mode(self.mode))
        if self.client_index >= self.participants:
            raise MessageError(f"client {self.client_index} of {self.participants} participants")

    def directions(self, usual: int, least: int = 1) -> int:
        """Return how many directions are queried instead of the usual number."""
        return min(usual, max(least, self.cut - 1)) if self.cut else usual
