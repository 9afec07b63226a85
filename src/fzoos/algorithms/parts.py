"""The declaration of an array that clients send: its shape, its range, and how the server may combine it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["LARGEST", "Part", "Parts"]

LARGEST = 1e100
"""The largest number in a message: its square, and sums of squares, can still be computed by everybody."""


@dataclass(frozen=True)
class Part:
    """One array of a reply. Range checks, privacy, secure sums, rounding and asynchronous rounds read nothing else.

    Args:
        shape: the shape of the array.
        privacy: "clip": it is shortened to the study's clip and gets noise, like x; "numbers": single numbers, each
            left out, or with noise as wide as its range; "refuse": noise would leave nothing of it, so that a study
            with differential privacy does not begin.
        instead: for "refuse", the settings that do without it, as they stand in a study's file.
        low: the smallest number that an honest client sends, for all entries or for each; a reply with a smaller one
            is refused.
        high: the largest. Ranges are checked for each reply, before any average: otherwise a single huge number of one
            client would decide the average. Noise for privacy widens the range.
        neutral: for "numbers", the value that is sent in place of each entry that is left out, the same for all
            clients; NaN: the entry is sent, and `low` and `high` are its range.
        indicators: the entries that are 0 or 1 and decide as soon as their average is not 0; robust aggregates count
            clients for them.
        stacked: whether the server half receives the clients' arrays, stacked along a new first axis, in place of their
            average. Secure sums and robust aggregates are then impossible.
        late: what an array is worth that arrives in a later round (asynchronous rounds). "keep": it counts until the
            client's next one arrives, less and less; "once": it counts in the round in which it arrives; "drop": it
            does not count; "refuse": such rounds are impossible. x is moved by as much as the server's x has moved.

    Example:
        >>> from fzoos.algorithms.base import Part
        >>> Part((300,)).privacy
        'clip'
        >>> Part((1,), "refuse", "fit = false").instead
        'fit = false'
        >>> Part((2,), low=0.0).low                   # squares, for example
        0.0
    """

    shape: tuple[int, ...]
    privacy: Literal["clip", "numbers", "refuse"] = "clip"
    instead: str = ""
    low: float | tuple[float, ...] = -LARGEST
    high: float | tuple[float, ...] = LARGEST
    neutral: tuple[float, ...] = ()
    indicators: slice | None = None
    stacked: bool = False
    late: Literal["keep", "once", "drop", "refuse"] = "refuse"

    @property
    def is_released(self) -> bool:
        """Whether the array depends on the client's data under differential privacy."""
        return self.privacy != "numbers" or any(math.isnan(number) for number in self.neutral)


Parts = Mapping[str, Part]
"""The arrays of a message, by name."""
