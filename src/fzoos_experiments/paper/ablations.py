"""Variants of FZooS that measure the value of one of its parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import FZooS
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.messages.message import Message
from fzoos.objectives.ledger import Purpose

__all__ = ["WithoutIterates"]


@dataclass(frozen=True)
class WithoutIterates(FZooS):
    """FZooS that queries neither x_0 nor its local iterates, and learns only from its other queries.

    Args:
        kernel: the kernel; all settings are those of `FZooS`.

    Example:
        >>> from fzoos_experiments.paper.ablations import WithoutIterates
        >>> from fzoos.messages.message import Message
        >>> WithoutIterates().cost(300, Message("update", 2), first=False)       # FZooS makes 55
        45
    """

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half of FZooS, whose queries of a single point other than x_r are dropped."""
        return super().client(_Context(**vars(context)))

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return T fewer for the iterates, and one fewer for x_0."""
        less = self.steps_in(request) + first if request.kind == "update" else 0
        return super().cost(dim, request, first=first) - less


@dataclass(frozen=True)
class _Context(ClientContext):
    def query(self, points: FloatArray, purpose: Purpose, *, at_server_x: bool = False) -> FloatArray:
        if purpose == "iterate":
            return np.empty(0)
        if purpose == "initial":
            return super().query(points[1:], purpose)
        return super().query(points, purpose, at_server_x=at_server_x)
