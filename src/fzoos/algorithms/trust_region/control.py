"""The numbers that the server of the trust region sends with every request."""

from __future__ import annotations

from dataclasses import dataclass

from fzoos.algorithms.scalars import Scalars, number, whole

__all__ = ["RegionControl"]


@dataclass(frozen=True)
class RegionControl(Scalars):
    """The numbers of a request.

    Args:
        seed: the seed that all weight.
        radius: Delta, half the width of the region, as a fraction of the box.
        constrained: 1 if any client has constraints.
        weight: omega_i, of this client among the participants.
        cut: the largest number of queries in the first exchange, x included; 0: no limit.
        quiet: 1 if a gradient is requested without queries.
        history: the number of earlier rounds whose averaged gradients come with an update.
    """

    seed: int = whole(0, 2**64)
    radius: float = number(1e-12, 1.0)
    constrained: int = whole(0, 1, default=0)
    weight: float = number(1e-12, 1.0, default=1.0)
    cut: int = whole(default=0)
    quiet: int = whole(0, 1, default=0)
    history: int = whole(0, 2**10, default=0)

    def directions(self, usual: int, least: int = 1) -> int:
        """Return how many directions are queried instead of the usual number."""
        return min(usual, max(least, self.cut - 1)) if self.cut else usual
