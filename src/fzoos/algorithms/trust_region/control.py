"""The numbers that the server of the trust region sends with every request."""

from __future__ import annotations

from dataclasses import dataclass

from fzoos.algorithms.scalars import Scalars, number, whole

__all__ = ["RegionControl"]


@dataclass(frozen=True)
class RegionControl(Scalars):
    """The numbers.

    Args:
        seed: the seed that all share.
        radius: Delta, half the width of the region, as a share of the box.
        constrained: 1 where somebody has constraints.
        share: omega_i, of this client among the participants.
        cut: queries of the first exchange at most, the one at x among them; 0: all of them.
        quiet: 1: none of them, a gradient is all that is asked for.
        history: of how many rounds before this one the averaged gradients come with an update.
    """

    seed: int = whole(0, 2**64)
    radius: float = number(1e-12, 1.0)
    constrained: int = whole(0, 1, default=0)
    share: float = number(1e-12, 1.0, default=1.0)
    cut: int = whole(default=0)
    quiet: int = whole(0, 1, default=0)
    history: int = whole(0, 2**10, default=0)

    def directions(self, usual: int, least: int = 1) -> int:
        """How many directions are asked in place of the usual number."""
        return min(usual, max(least, self.cut - 1)) if self.cut else usual
