"""Local steps: what a client does T times in a round, between two exchanges with the server.

`LocalSteps` holds the settings of the algorithms that have them, and `LocalStepsHalf` is their client's loop. The steps
of `GradientSteps` and `GradientHalf` are an optimiser's, along gradient estimates; those of a search are its own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_type
from fzoos._util.states import StateDict
from fzoos.algorithms.base import Algorithm, ClientContext, ClientHalf
from fzoos.algorithms.optimizers import Adam, Optimizer
from fzoos.messages.message import Arrays, Message

__all__ = ["Descent", "GradientHalf", "GradientSteps", "LocalSteps", "LocalStepsHalf"]


@dataclass(frozen=True)
class LocalSteps(Algorithm):
    """Settings of the algorithms whose clients run local steps between two exchanges.

    Args:
        local_steps: T, the number of local steps of each client in a round.
    """

    local_steps: int = 10  # T

    def __post_init__(self) -> None:
        check_count("local_steps", self.local_steps, low=1)

    def steps_in(self, request: Message) -> int:
        """Return the number of local steps of a round: fewer than T where the budget cuts it."""
        return min(int(request.scalars.get("cut", self.local_steps)), self.local_steps)


@dataclass(frozen=True)
class GradientSteps(LocalSteps):
    """Settings of the algorithms whose local steps are an optimiser's, along gradient estimates.

    Args:
        optimizer: turns gradient estimates into local steps, such as `Adam(0.01)` or `SGD(0.1)`.
    """

    optimizer: Optimizer = Adam(0.01)

    diagnostics: ClassVar[tuple[str, ...]] = ("correction_length",)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_type("optimizer", self.optimizer, Optimizer)


class LocalStepsHalf(ClientHalf):
    """The client half of an algorithm with local steps.

    Args:
        context: what every client half works with.
        settings: the algorithm's settings.
    """

    def __init__(self, context: ClientContext, settings: LocalSteps) -> None:
        super().__init__(context)
        self._steps_in = settings.steps_in
        self.local_steps = settings.local_steps  # T of this round: fewer in a cut one

    def reply(self, x: FloatArray, request: Message) -> Arrays:
        if request.kind == "refresh":
            return self.refresh(x, request)
        self.begin(x, request)
        end = self.run_local_steps(x)
        self.query_constraints(x)
        return self.end(end)

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Return the arrays beside x, computed at the server's x: the first exchange of a `RefreshedServerHalf`."""
        raise TypeError(f"{type(self).__name__} has no refresh exchange")

    def begin(self, x: FloatArray, request: Message) -> None:
        """Begin the local steps of a round at the server's x; the averaged arrays are in the request."""
        self.local_steps = self._steps_in(request)

    def run_local_steps(self, x: FloatArray) -> FloatArray:
        """Run T local steps from x and return where they end."""
        for t in range(1, self.local_steps + 1):
            self.context.evaluator.step = t
            x = self.step(x, t)
            if t < self.local_steps:
                self.explore(x)
        return x

    @abstractmethod
    def step(self, x: FloatArray, t: int) -> FloatArray:
        """Return where local step t from x ends."""

    def explore(self, x: FloatArray) -> None:
        """Make queries that improve the next estimates, after each local step to x but the last."""
        return

    def end(self, x: FloatArray) -> Arrays:
        """Return the arrays of the reply, after the last local step to x."""
        return {"x": x}


class GradientHalf(LocalStepsHalf):
    """The client half of an algorithm whose local steps follow gradient estimates.

    Args:
        context: what every client half works with.
        settings: the algorithm's settings.
    """

    def __init__(self, context: ClientContext, settings: GradientSteps) -> None:
        super().__init__(context, settings)
        self.descent = Descent(settings.optimizer, context.dim)
        self._lengths: list[float] = []

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        self.descent.start_round(len(x))
        self._lengths = []

    def step(self, x: FloatArray, t: int) -> FloatArray:
        """Return x - optimizer(g_hat), projected."""
        return self.context.project(x - self.descent(self.gradient(x, t)))

    def gradient(self, x: FloatArray, t: int) -> FloatArray:
        """Return g_hat = g_local(x) + gamma_t * (correction_global - correction_local) (the paper's eq. 2)."""
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
        """Return g_local(x), the estimate of the client's own gradient."""

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        """Return (gamma_t, correction_global - correction_local), or None where there is none (yet)."""
        return None

    def diagnostics(self) -> dict[str, float]:
        """Return the mean length of the corrections over the local steps."""
        return {"correction_length": float(np.mean(self._lengths))}

    def state(self) -> StateDict:
        moments = {f"moment{k}": part for k, part in enumerate(self.descent.state)}
        return {**super().state(), "largest": self.descent.largest, **moments}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self.descent.largest = state["largest"]
        self.descent.state = tuple(state[f"moment{k}"] for k in range(len(self.descent.state)))


class Descent:
    """A client's optimiser with its state."""

    def __init__(self, optimizer: Optimizer, dim: int) -> None:
        self.optimizer, self.state = optimizer, optimizer.init(dim)
        self.largest = 0.0  # entry of a gradient so far

    def start_round(self, dim: int) -> None:
        """Start from zero, if the optimiser is set to restart in every round."""
        if self.optimizer.restart:
            self.state = self.optimizer.init(dim)

    def __call__(self, gradient: FloatArray) -> FloatArray:
        """Return the step, to be subtracted from x."""
        self.largest = max(self.largest, float(np.max(np.abs(gradient))))
        self.state, step = self.optimizer.scaled(self.largest).step(self.state, gradient)
        return step
