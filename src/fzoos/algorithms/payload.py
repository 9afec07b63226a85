"""The arrays that clients send beside x: shape, range, and what differential privacy may do with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

__all__ = ["LARGEST", "PayloadPart"]

LARGEST = 1e100
"""No number of a message is larger: its square, and sums of squares, can still be computed by everybody."""


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
