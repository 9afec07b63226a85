"""The best that local steps can do: `minimize`'s loop with the true gradient of F in place of an estimate."""

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
    """Local steps along the true gradient of F, which no algorithm has.

    All clients would do the same, so that one is enough; nothing is asked and nothing is sent.

    Args:
        local_steps: T, the number of local steps in a round.
        optimizer: turns gradients into local steps.
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
        """The last x.

        Args:
            task: with `gradient`, that of F.
            rounds: R, at most.
            monitor: measures x after each round.
            callback: called with each round's record; true ends the run.
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
