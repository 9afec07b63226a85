"""Variants of FZooS that measure the value of one of its parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import FZooS
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.objectives.ledger import Purpose

__all__ = ["WithoutIterates"]


@dataclass(frozen=True)
class WithoutIterates(FZooS):
    """FZooS that queries neither x_0 nor its local iterates, and learns only from its other queries.

    Args:
        kernel: the kernel; all settings are those of `FZooS`.

    Example:
        >>> from fzoos_experiments.paper.ablations import WithoutIterates
        >>> WithoutIterates().queries(dim=300, first=False, refreshed=True)       # FZooS makes 106
        96
    """

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half of FZooS, whose queries of a single point other than x_r are dropped."""
        return super().client(_Context(**vars(context)))

    def queries(self, dim: int, *, first: bool, refreshed: bool) -> int:
        """T iterates fewer, and x_0."""
        less = self.local_steps + (1 if first and not refreshed else 0)
        return super().queries(dim, first=first, refreshed=refreshed) - less


@dataclass(frozen=True)
class _Context(ClientContext):
    def query(self, points: FloatArray, purpose: Purpose, *, at_server_x: bool = False) -> FloatArray:
        if purpose == "iterate":
            return np.empty(0)
        if purpose == "initial":
            return super().query(points[1:], purpose)
        return super().query(points, purpose, at_server_x=at_server_x)
