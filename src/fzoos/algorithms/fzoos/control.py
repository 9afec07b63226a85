"""What the server of FZooS tells the clients with every request: a handful of numbers, the same for all but the last.

All decisions are the server's: two machines that differ in the last bit would not always decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache

from fzoos.messages.codec import MessageError

__all__ = ["Control", "Mode"]


class Mode(IntEnum):
    """What a round is."""

    SHARED = 1  # a star whose directions all clients ask
    DEALT = 2  # a star whose directions are dealt out among them
    REGION = 3  # a trust region around x, in which surrogates are minimised


@dataclass(frozen=True)
class Control:
    """The numbers.

    Args:
        seed: of the directions, the same for all clients.
        mode: what this round is.
        radius: h, of the star, as a share of the box in each coordinate; Delta of a trust region.
        ridge: of the surrogate of all rounds.
        reach: L, the unit of the lines.
        sweep: number of the orthonormal basis from which directions are taken.
        used: how many of its directions were asked before.
        size: m, directions of this star, of all clients together; 0: as many as there may be.
        pilot: directions of a first, small star, after which nothing moves; 0: it is not the first.
        line: along which line the last move went, 1 or 2; 0: none.
        length: how far.
        turn: which of the participants this client is.
        participants: how many there are.
        share: omega_i, of this client among them.
        constrained: 1 where somebody has constraints.
        cut: queries of the first exchange at most, the one at x among them; 0: all of them.
        quiet: 1: none of them, a gradient is all that is asked for.
        history: of how many rounds before this one the averaged gradients come with an update.

    Example:
        >>> from fzoos.algorithms.fzoos.control import Control, Mode
        >>> told = Control(seed=7, mode=Mode.SHARED, radius=0.1, reach=2.0).scalars()
        >>> Control.of(told).radius
        0.1
    """

    seed: int
    mode: Mode
    radius: float
    ridge: float = 1e-8
    reach: float = 1.0
    sweep: int = 0
    used: int = 0
    size: int = 0
    pilot: int = 0
    line: int = 0
    length: float = 0.0
    turn: int = 0
    participants: int = 1
    share: float = 1.0
    constrained: int = 0
    cut: int = 0
    quiet: int = 0
    history: int = 0

    def directions(self, usual: int, least: int = 1) -> int:
        """How many directions are asked in place of the usual number."""
        return min(usual, max(least, self.cut - 1)) if self.cut else usual

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of all the numbers, as they are called in a message."""
        return tuple(f.name for f in fields(cls))

    def scalars(self) -> dict[str, float]:
        """As they travel: what has its usual value does not."""
        return {
            name: value
            for name, value in vars(self).items()
            if name in ("seed", "mode", "radius") or value != _USUAL[name]
        }

    @classmethod
    def of(cls, scalars: Mapping[str, float]) -> Control:
        """From a request, every number in its range.

        Raises:
            MessageError: a number is missing, or not one that a server may send.
        """
        return _control(tuple(scalars.items()))


_USUAL = {f.name: f.default for f in fields(Control)}


@lru_cache(maxsize=1024)  # the same request is read half a dozen times on its way, and each client has its own
def _control(told: tuple[tuple[str, float], ...]) -> Control:
    try:
        made = Control(**{name: _read(name, value) for name, value in told if name in _USUAL})  # type: ignore[arg-type]
    except TypeError:
        raise MessageError(f"a request of FZooS tells seed, mode and radius; got {', '.join(dict(told))}") from None
    if made.turn >= made.participants:
        raise MessageError(f"turn {made.turn:g} of {made.participants:g} participants")
    return made


_MODES = {float(mode): mode for mode in Mode}
_INTEGERS = {
    "seed",
    "sweep",
    "used",
    "size",
    "pilot",
    "line",
    "turn",
    "participants",
    "constrained",
    "cut",
    "quiet",
    "history",
}
_RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, 2**64),
    "radius": (1e-12, 1.0),
    "ridge": (0.0, 1e12),
    "reach": (0.0, 1e12),
    "sweep": (0, 2**40),
    "used": (0, 2**40),
    "size": (0, 2**40),
    "pilot": (0, 2**40),
    "line": (0, 2),
    "length": (0.0, 1e12),
    "turn": (0, 2**40),
    "participants": (1, 2**40),
    "share": (1e-12, 1.0),
    "constrained": (0, 1),
    "cut": (0, 2**40),
    "quiet": (0, 1),
    "history": (0, 2**10),
}


def _read(name: str, value: float) -> float | Mode:
    if not math.isfinite(value):
        raise MessageError(f"scalar {name!r} is {value}")
    if name == "mode":
        if value not in _MODES:
            raise MessageError(f"there is no mode {value:g}")
        return _MODES[value]
    if name in _INTEGERS:
        if value != int(value):
            raise MessageError(f"scalar {name!r} must be a whole number, got {value}")
        value = int(value)
    low, high = _RANGES[name]
    if not low <= value <= high:
        raise MessageError(f"scalar {name!r} must be in {low:g}..{high:g}, got {value:g}")
    return value
