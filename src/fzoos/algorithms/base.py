"""What an algorithm is: a frozen record of settings, and the half of it that runs at a client.

The loop around it (T local steps, projection, averaging) is shared: `federation/client.py` and `federation/server.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fzoos.arrays import FloatArray
from fzoos.federation.message import Arrays, Message
from fzoos.trajectory import Trajectory

__all__ = ["Algorithm", "ClientHalf", "Site"]


@dataclass(frozen=True)
class Site:
    """What a client half works with.

    Args:
        trajectory: evaluates the client's objective and counts.
        rng: the client's own random generator.
        dim: d.
        clients: N.
        local_steps: T.
        projected: whether iterates and queries are clipped to the cube.
    """

    trajectory: Trajectory
    rng: np.random.Generator
    dim: int
    clients: int
    local_steps: int
    projected: bool

    def project(self, x: FloatArray) -> FloatArray:
        """x clipped to the unit cube, if the algorithm is set to project."""
        return np.clip(x, 0.0, 1.0) if self.projected else x


class ClientHalf(ABC):
    """The client half of an algorithm: gradient estimate and payload."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lengths: list[float] = []

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """First exchange of a round (two-exchange algorithms only): renew the payload at the server's x."""
        raise TypeError(f"{type(self).__name__} has no refresh exchange")

    def begin(self, x: FloatArray, request: Message) -> None:
        """Start of a round's local steps, with the server's x and the averaged payload in the request."""
        self._lengths = []

    def step(self, x: FloatArray, t: int, descend: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Local step t from x: x - descend(g_hat), where `descend` is the client's optimiser; a search has its own."""
        return self.site.project(x - descend(self.gradient(x, t)))

    def gradient(self, x: FloatArray, t: int) -> FloatArray:
        """g_hat = g_local(x) + gamma_t * (correction_global - correction_local) (the paper's eq. 2)."""
        local = self.local_gradient(x)
        correction = self.correction(x, t)
        if correction is None:
            self._lengths.append(0.0)
            return local
        gamma, vector = correction
        self._lengths.append(gamma)
        return local + gamma * vector

    @abstractmethod
    def local_gradient(self, x: FloatArray) -> FloatArray:
        """g_local(x), the estimate of the client's own gradient."""

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        """(gamma_t, correction_global - correction_local), or None where there is none (yet)."""
        return None

    def explore(self, x: FloatArray) -> None:
        """After a local step to x, but the last: queries that improve the next estimates."""
        return

    def end(self, x: FloatArray) -> Arrays:
        """After the last local step, at x: the payload that travels with x (one-exchange algorithms)."""
        return {}

    def diagnostics(self) -> dict[str, float]:
        """What the client tells of its round besides x: means over the local steps."""
        return {"correction_length": float(np.mean(self._lengths))}


@dataclass(frozen=True)
class Algorithm(ABC):
    """Settings shared by all algorithms.

    Args:
        projected: whether iterates and queries are clipped to the box; without it an objective may be asked outside.
    """

    projected: bool = True

    name: ClassVar[str]
    label: ClassVar[str]  # for tables and legends
    keeps_trajectory: ClassVar[bool] = False  # whether clients look back at their queries
    shares_seed: ClassVar[bool] = False  # whether requests carry the seed that all clients share
    told: ClassVar[tuple[str, ...]] = ("correction_length", "uncertainty")  # what diagnostics may be called
    carried: ClassVar[tuple[str, ...]] = ()  # payload entries that go out again with the next refresh request

    @property
    def refreshes_first(self) -> bool:
        """Whether the first round begins with a refresh as well."""
        return False

    @property
    def exchanges(self) -> int:
        """Exchanges per round: 2 if payloads are refreshed at the server's x before the local steps, else 1."""
        return 1

    @abstractmethod
    def client(self, site: Site) -> ClientHalf:
        """The client half."""

    @abstractmethod
    def queries(self, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """Queries of one client in one round.

        Args:
            local_steps: T.
            first: whether it is the client's first round.
            refreshed: whether the round begins with a refresh exchange.
        """

    def payload(self, dim: int) -> Mapping[str, tuple[int, ...]]:
        """The arrays that clients send beside x, and that come back averaged: names and shapes."""
        return {}
