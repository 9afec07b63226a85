"""Which messages a round of an algorithm consists of: asked by the server, the sites and the checks of both."""

from __future__ import annotations

from dataclasses import dataclass

from fzoos.messages.message import Kind

__all__ = ["Protocol"]


@dataclass(frozen=True)
class Protocol:
    """The exchanges of a round and what they bring. `Algorithm.protocol` makes it from an algorithm's own members.

    Args:
        exchanges: 2 if payloads are refreshed at the server's x before the local steps, else 1.
        refreshes_first: whether the first round begins with a refresh as well.
        rebuilds: whether x follows from the averaged payloads and does not travel.

    Example:
        >>> from fzoos import FedTrustRegion, FedZO, FZooS
        >>> [algorithm.protocol.refreshes(1) for algorithm in (FedZO(), FZooS(), FedTrustRegion())]
        [False, False, True]
        >>> [algorithm.protocol.refreshes(2) for algorithm in (FedZO(), FZooS(), FedTrustRegion())]
        [False, True, True]
    """

    exchanges: int = 1
    refreshes_first: bool = False
    rebuilds: bool = False

    def refreshes(self, round: int) -> bool:
        """Whether this round begins with a refresh."""
        return self.exchanges == 2 and (round > 1 or self.refreshes_first)

    def requests(self, kind: Kind) -> bool:
        """Whether a server sends such a request in any round."""
        return kind in ("update", self._opening)

    def requires_x(self, kind: Kind) -> bool:
        """Whether such a request always brings x; an update need not after a refresh that brought it."""
        return kind == self._opening and not self.rebuilds

    def returns_x(self, kind: Kind) -> bool:
        """Whether x is in the reply to such a request."""
        return kind == "update" and not self.rebuilds

    def returns_payload(self, kind: Kind) -> bool:
        """Whether the payload is in the reply to such a request."""
        return kind == self._opening

    @property
    def _opening(self) -> Kind:
        """The request with which rounds begin, all but perhaps the first."""
        return "refresh" if self.exchanges == 2 else "update"
