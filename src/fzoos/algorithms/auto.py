"""The default algorithm: chosen by the number of variables."""

from __future__ import annotations

from dataclasses import dataclass

from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf, ServerHalf
from fzoos.algorithms.line_search import FedLineSearch
from fzoos.algorithms.trust_region import FedTrustRegion
from fzoos.messages.message import Message

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
        """Return the algorithm for this number of variables."""
        return (FedTrustRegion if dim <= _FEW else FedLineSearch)(self.projected)

    def client(self, context: ClientContext) -> ClientHalf:
        return self.at(context.dim).client(context)

    def server(self, dim: int) -> ServerHalf:
        return self.at(dim).server(dim)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        return self.at(dim).cost(dim, request, first=first)
