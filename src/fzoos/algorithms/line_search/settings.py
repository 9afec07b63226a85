"""A design of queries around x and a search along two lines: for many dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf
from fzoos.algorithms.line_search.client import LINE, DesignStatistics, LineSearchClient
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import design_size
from fzoos.algorithms.line_search.server import LineSearchServer
from fzoos.messages.message import Message

__all__ = ["FedLineSearch"]


@dataclass(frozen=True)
class FedLineSearch(Algorithm):
    """A round is a design of queries around x, from which each client estimates two gradients, and a search along both.

    It needs two variables: along a single direction, slope and curvature of one design cannot be distinguished.

    Args:
        projected: whether iterates and queries are clipped to the box.
    """

    version: ClassVar[int] = 4
    tolerance: ClassVar[float] = 1e-6

    def at(self, dim: int) -> Algorithm:
        if dim < 2:
            raise ValueError(f"FedLineSearch needs dim = 2 or more, got {dim}; FedTrustRegion is for few variables")
        return self

    def client(self, context: ClientContext) -> ClientHalf:
        return LineSearchClient(context)

    def server(self, dim: int) -> LineSearchServer:
        return LineSearchServer(dim, self.projected)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return x and the directions; then six points on the lines, where x may move; in between, two pairs."""
        control, pairs = Control.of(request.scalars), 4
        split = control.mode is Mode.SPLIT  # the pairs are then queried with the design
        if request.kind == "refresh":
            return 1 + design_size(control, dim) + (pairs if split else 0)
        if "statistics" in request.arrays and DesignStatistics(*request.arrays["statistics"]).failed > 0.0:
            return 0  # some client has no value here
        x_missed = int("x" in request.arrays)
        return x_missed + (0 if control.probe else 2 * len(LINE)) + (0 if split else pairs)
