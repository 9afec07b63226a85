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
    """Who asks which directions of a star."""

    SHARED = 1  # all clients ask the same
    DEALT = 2  # they are dealt out among them


@dataclass(frozen=True)
class Control(Scalars):
    """The numbers.

    Args:
        seed: of the directions, the same for all clients.
        mode: who asks which directions.
        radius: h, of the star, as a share of the box in each coordinate.
        ridge: of the surrogate of all rounds.
        reach: L, the unit of the lines.
        sweep: number of the orthonormal basis from which directions are taken.
        used: how many of its directions were asked before.
        size: m, directions of this star, of all clients together; 0: as many as there may be.
        pilot: directions of a first, small star, after which nothing moves; 0: it is not the first.
        line: along which line the last move went, 1 or 2; 0: none.
        length: how far.
        cut: queries of the first exchange at most, the one at x among them; 0: all of them.
        turn: which of the participants this client is.
        participants: how many there are.
        share: omega_i, of this client among them.
    """

    seed: int = whole(0, 2**64)
    mode: Mode = whole(1, 2)  # noqa: RUF009  (a field)
    radius: float = number(1e-12, 1.0)
    ridge: float = number(0.0, 1e12, default=1e-8)
    reach: float = number(0.0, 1e12, default=1.0)
    sweep: int = whole(default=0)
    used: int = whole(default=0)
    size: int = whole(default=0)
    pilot: int = whole(default=0)
    line: int = whole(0, 2, default=0)
    length: float = number(0.0, 1e12, default=0.0)
    cut: int = whole(default=0)
    turn: int = whole(default=0)
    participants: int = whole(1, default=1)
    share: float = number(1e-12, 1.0, default=1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", Mode(self.mode))
        if self.turn >= self.participants:
            raise MessageError(f"turn {self.turn} of {self.participants} participants")

    def directions(self, usual: int, least: int = 1) -> int:
        """How many directions are asked in place of the usual number."""
        return min(usual, max(least, self.cut - 1)) if self.cut else usual
