"""The default algorithm: chosen by the number of variables."""

from __future__ import annotations

from dataclasses import dataclass

from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf
from fzoos.algorithms.line_search import FedLineSearch
from fzoos.algorithms.trust_region import FedTrustRegion

__all__ = ["Auto"]

_FEW = 50  # up to here a design with every direction is affordable, and its surrogate is fast to minimise


@dataclass(frozen=True)
class Auto(Algorithm):
    """`FedTrustRegion` up to 50 dimensions, `FedLineSearch` beyond; neither has settings that need tuning.

    A result, a stored run, a table and a legend have the name of the algorithm that ran.

    Args:
        projected: whether iterates and queries are clipped to the box.

    Example:
        >>> from fzoos import Auto
        >>> Auto().at(dim=20).label, Auto().at(dim=300).label
        ('FedTrustRegion', 'FedLineSearch')
    """

    def at(self, dim: int) -> Algorithm:
        """The algorithm for this many variables."""
        return (FedTrustRegion if dim <= _FEW else FedLineSearch)(self.projected)

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half of the chosen algorithm."""
        return self.at(context.dim).client(context)

    def queries(self, dim: int, *, first: bool, refreshed: bool) -> int:
        """The queries of the chosen algorithm."""
        return self.at(dim).queries(dim, first=first, refreshed=refreshed)
