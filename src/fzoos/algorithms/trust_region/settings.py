"""FedTrustRegion: surrogates minimised in a trust region, for few dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf
from fzoos.algorithms.trust_region.client import RegionClient, first_directions
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.server import RegionServer
from fzoos.messages.message import Message

__all__ = ["FedTrustRegion"]


@dataclass(frozen=True)
class FedTrustRegion(Algorithm):
    """Each client minimises its corrected surrogate in a trust region: two queries per client and round.

    Args:
        projected: whether iterates and queries are clipped to the box.
    """

    version: ClassVar[int] = 4
    tolerance: ClassVar[float] = 1e-6

    def client(self, context: ClientContext) -> ClientHalf:
        return RegionClient(context)

    def server(self, dim: int) -> RegionServer:
        return RegionServer(dim)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return d + 1 in a client's first round, then 2; all in the first exchange."""
        control = RegionControl.of(request.scalars)
        if request.kind == "update" or control.quiet:
            return 0
        return 1 + (first_directions(control, dim) if first else control.directions(1, least=0))
