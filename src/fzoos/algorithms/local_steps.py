"""Local steps: what a client does T times in a round, between two exchanges with the server.

`LocalSteps` are the settings of the algorithms that have them, and `LocalStepsHalf` is their client's loop. The steps
of `GradientSteps` and `GradientHalf` are an optimiser's, along gradient estimates; those of a search are its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_type
from fzoos._util.states import StateDict
from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf
from fzoos.algorithms.descent import Descent
from fzoos.algorithms.optimizers import Adam, Optimizer
from fzoos.messages.message import Message

__all__ = ["GradientHalf", "GradientSteps", "LocalSteps", "LocalStepsHalf"]


@dataclass(frozen=True)
class LocalSteps(Algorithm):
    """Settings of the algorithms whose clients run local steps between two exchanges.

    Args:
        local_steps: T, the number of local steps of each client in a round.
    """

    local_steps: int = 10  # T

    def __post_init__(self) -> None:
        check_count("local_steps", self.local_steps, low=1)

    def in_round(self, scalars: Mapping[str, float]) -> Self:
        """A cut round has fewer local steps.

        Example:
            >>> from fzoos import FedZO
            >>> FedZO(local_steps=10).in_round({"cut": 3}).local_steps
            3
        """
        return replace(self, local_steps=int(scalars["cut"])) if "cut" in scalars else self

    def largest_cut(self, dim: int) -> int:
        """T - 1."""
        return self.local_steps - 1


@dataclass(frozen=True)
class GradientSteps(LocalSteps):
    """Settings of the algorithms whose local steps are an optimiser's, along gradient estimates.

    Args:
        optimizer: turns gradient estimates into local steps, such as `Adam(0.01)` or `SGD(0.1)`.
    """

    optimizer: Optimizer = Adam(0.01)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type("optimizer", self.optimizer, Optimizer)


class LocalStepsHalf(ClientHalf, ABC):
    """The client half of an algorithm with local steps.

    Args:
        context: what every client half works with.
        settings: the algorithm's.
    """

    def __init__(self, context: ClientContext, settings: LocalSteps) -> None:
        super().__init__(context)
        self._steps_of = settings.in_round
        self.local_steps = settings.local_steps  # T of this round: fewer in a cut one

    def begin(self, x: FloatArray, request: Message) -> None:
        """Start of a round's local steps, with the server's x and the averaged payload in the request."""
        self.local_steps = self._steps_of(request.scalars).local_steps

    def run_round(self, x: FloatArray) -> FloatArray:
        """T local steps from x: where they end."""
        for t in range(1, self.local_steps + 1):
            self.context.evaluator.step = t
            x = self.step(x, t)
            if t < self.local_steps:
                self.explore(x)
        return x

    @abstractmethod
    def step(self, x: FloatArray, t: int) -> FloatArray:
        """Local step t from x: where it ends."""

    def explore(self, x: FloatArray) -> None:
        """After a local step to x, but the last: queries that improve the next estimates."""
        return


class GradientHalf(LocalStepsHalf):
    """The client half of an algorithm whose local steps follow gradient estimates: the estimate, and the payload.

    Args:
        context: what every client half works with.
        settings: the algorithm's.
    """

    def __init__(self, context: ClientContext, settings: GradientSteps) -> None:
        super().__init__(context, settings)
        self.descent = Descent(settings.optimizer, context.dim)
        self._lengths: list[float] = []

    def begin(self, x: FloatArray, request: Message) -> None:
        """Start of a round's local steps, with the server's x and the averaged payload in the request."""
        super().begin(x, request)
        self.descent.start_round(len(x))
        self._lengths = []

    def step(self, x: FloatArray, t: int) -> FloatArray:
        """x - optimizer(g_hat), projected."""
        return self.context.project(x - self.descent(self.gradient(x, t)))

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

    def diagnostics(self) -> dict[str, float]:
        """The mean length of the corrections over the local steps."""
        return {"correction_length": float(np.mean(self._lengths))}

    def state(self) -> StateDict:
        moments = {f"moment{k}": part for k, part in enumerate(self.descent.state)}
        return {**super().state(), "largest": self.descent.largest, **moments}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self.descent.largest = state["largest"]
        self.descent.state = tuple(state[f"moment{k}"] for k in range(len(self.descent.state)))
