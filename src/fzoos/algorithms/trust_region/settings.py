"""Surrogates minimised in a trust region: for few dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf, PayloadPart
from fzoos.algorithms.trust_region import client as region
from fzoos.algorithms.trust_region.client import RegionClient
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.server import RegionServer
from fzoos.messages.message import Message

__all__ = ["FedTrustRegion"]


@dataclass(frozen=True)
class FedTrustRegion(Algorithm):
    """Each client minimises its corrected surrogate in a trust region: two queries a client and round.

    Args:
        projected: whether iterates and queries are clipped to the box.
    """

    version: ClassVar[int] = 4
    shares_seed: ClassVar[bool] = True
    steered: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-6
    told: ClassVar[tuple[str, ...]] = RegionControl.names()
    votes: ClassVar[Mapping[str, slice]] = MappingProxyType({"region": slice(-1, None)})
    refreshes_first = True
    exchanges = 2
    keeps_answers = True

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half."""
        return RegionClient(context)

    def steering(self, dim: int) -> RegionServer:
        """The server half."""
        return RegionServer()

    def keeps_trajectory(self, dim: int) -> bool:
        """True."""
        return True

    def queries(self, dim: int, *, first: bool, refreshed: bool) -> int:
        """d + 1 in a client's first round, then 2."""
        return 1 + (dim if first else 1)

    def planned(self, dim: int, scalars: Mapping[str, float], *, first: bool, refreshed: bool) -> int:
        """What a client will ask, given what it is told."""
        control = RegionControl.of(scalars)
        if control.quiet:
            return 0
        return 1 + (region.first_directions(control, dim) if first else control.directions(1, least=0))

    def largest_cut(self, dim: int) -> int:
        """Queries of the first exchange."""
        return dim

    def payload(self, dim: int) -> Mapping[str, PayloadPart]:
        """A gradient, and three numbers."""
        return {"gradient": PayloadPart((dim,)), "region": _region(region.LOW, region.HIGH)}

    def reply_parts(self, dim: int, request: Message) -> dict[str, PayloadPart]:
        """Exchange 1: the payload; exchange 2: x."""
        if request.kind != "refresh":
            return {"x": PayloadPart((dim,))}
        control = RegionControl.of(request.scalars)
        parts = {"gradient": PayloadPart((dim,)), "region": _region(*region.ranges(control.radius))}
        if control.constrained:
            parts["shift"] = PayloadPart((dim,))
        if control.history:  # it comes with the averages of such replies
            parts["history"] = PayloadPart((control.history, dim))
        return parts


def _region(low: region.RegionNumbers, high: region.RegionNumbers) -> PayloadPart:
    return PayloadPart((len(low),), "numbers", low=low, high=high, neutral=region.PRIVATE)
