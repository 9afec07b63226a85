"""The best possible local steps: the loop of `minimize` with the true gradient of F instead of an estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.optimizers import Adam, Optimizer
from fzoos.result import Record

__all__ = ["ExactGradient"]


@dataclass(frozen=True)
class ExactGradient:
    """Local steps along the true gradient of F, which no federated algorithm has.

    All clients would take the same steps, so one client is simulated, without queries and messages.

    Args:
        local_steps: T, the number of local steps in a round.
        optimizer: computes local steps from gradients.
    """

    local_steps: int = 10  # T
    optimizer: Optimizer = Adam(0.01)

    label: ClassVar[str] = "exact gradient"
    version: ClassVar[int] = 1

    def minimize(
        self,
        task: Any,
        rounds: int,
        *,
        monitor: Callable[[FloatArray], float],
        callback: Callable[[Record], bool],
    ) -> FloatArray:
        """Run and return the last x.

        Args:
            task: a task with the gradient of F as `gradient`.
            rounds: R, the largest number of rounds.
            monitor: evaluated at x after each round.
            callback: called with the record of each round; the run ends if it returns True.
        """
        low, high = task.bounds
        width = high - low
        started = time.perf_counter()
        x: FloatArray = (task.x0 - low) / width
        for r in range(1, rounds + 1):
            state, before = self.optimizer.init(len(x)), x
            for _ in range(self.local_steps):
                gradient: FloatArray = task.gradient(low + width * x) * width  # in the unit cube
                state, step = self.optimizer.step(state, gradient)
                x = np.clip(x - step, 0.0, 1.0)
            seconds, moved = time.perf_counter() - started, float(np.linalg.norm(width * (x - before)))
            if callback(Record(r, 0, 0, 0, seconds, moved, monitor(low + width * x))):
                break
        last: FloatArray = low + width * x
        return last
