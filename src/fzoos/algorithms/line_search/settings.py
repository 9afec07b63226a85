"""A star of queries around x and a search along two lines: for many dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from fzoos.algorithms.base import LARGEST, Algorithm, ClientContext, ClientHalf, PayloadPart
from fzoos.algorithms.line_search import client as star
from fzoos.algorithms.line_search.client import LINE, StarClient
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import star_size
from fzoos.algorithms.line_search.server import StarServer
from fzoos.messages.message import Message

__all__ = ["FedLineSearch"]


@dataclass(frozen=True)
class FedLineSearch(Algorithm):
    """A round is a star of queries around x, from which clients make two gradients each, and a search along both.

    It needs two variables: along a single direction, slope and curvature of one star cannot be told apart.

    Args:
        projected: whether iterates and queries are clipped to the box.
    """

    version: ClassVar[int] = 4
    shares_seed: ClassVar[bool] = True
    steered: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-6
    told: ClassVar[tuple[str, ...]] = Control.names()
    votes: ClassVar[Mapping[str, slice]] = MappingProxyType({"star": slice(-1, None), "failed": slice(None)})
    refreshes_first = True
    exchanges = 2

    def at(self, dim: int) -> Algorithm:
        """The algorithm itself."""
        if dim < 2:
            raise ValueError(f"FedLineSearch needs dim = 2 or more, got {dim}; FedTrustRegion is for few variables")
        return self

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half."""
        return StarClient(context)

    def steering(self, dim: int) -> StarServer:
        """The server half."""
        return StarServer(dim, self.projected)

    def server_projects(self, dim: int) -> bool:
        """True: x follows from a line."""
        return True

    def keeps_trajectory(self, dim: int) -> bool:
        """Up to 1024 dimensions."""
        return star.looks_back(dim)

    def queries(self, dim: int, *, first: bool, refreshed: bool) -> int:
        """At most."""
        steering = self.steering(dim)
        control = replace(steering.control(steering.start(np.zeros(dim)), 0), pilot=0)
        return max(_count(kind, dim) for kind in (control, replace(control, mode=Mode.DEALT, participants=2)))

    def planned(self, dim: int, scalars: Mapping[str, float], *, first: bool, refreshed: bool) -> int:
        """What a client will ask, given what it is told."""
        return _count(Control.of(scalars), dim)

    def largest_cut(self, dim: int) -> int:
        """Queries of the first exchange; a first, small star is not cut, since x does not move after it."""
        return dim

    def payload(self, dim: int) -> Mapping[str, PayloadPart]:
        """Two gradients, and nine numbers."""
        numbers = _numbers(star.LOW, star.HIGH, star.PRIVATE)
        return {"fresh": PayloadPart((dim,)), "memory": PayloadPart((dim,)), "star": numbers}

    def reply_parts(self, dim: int, request: Message) -> dict[str, PayloadPart]:
        """Exchange 1: the payload; exchange 2: differences of values."""
        control = Control.of(request.scalars)  # whatever is asked: wrong numbers are refused
        if request.kind == "refresh":
            return dict(self.payload(dim))
        return _LINES if control.mode is Mode.DEALT else {"pair": _PAIR, **_LINES}


def _count(control: Control, dim: int) -> int:
    return 1 + star_size(control, dim) + 4 + (0 if control.pilot else 2 * len(LINE))


def _numbers(low: tuple[float, ...], high: tuple[float, ...], neutral: tuple[float, ...]) -> PayloadPart:
    return PayloadPart((len(low),), "numbers", low=low, high=high, neutral=neutral)


_COUNT = 2 * len(LINE)
_PAIR = _numbers((-LARGEST,) * 2, (LARGEST,) * 2, (0.0,) * 2)
_LINES = {"lines": PayloadPart((_COUNT,)), "failed": _numbers((0.0,) * _COUNT, (1.0,) * _COUNT, (0.0,) * _COUNT)}
