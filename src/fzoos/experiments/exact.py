"""The best that local steps can do: `minimize`'s loop with the true gradient of F in place of an estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.optimizers import Optimizer
from fzoos.result import Record

__all__ = ["exact_gradient"]


def exact_gradient(
    task: Any,
    rounds: int,
    local_steps: int,
    optimizer: Optimizer,
    *,
    monitor: Callable[[FloatArray], float],
    callback: Callable[[Record], bool],
) -> FloatArray:
    """The last x. All clients would do the same, so that one is enough; nothing is asked and nothing is sent.

    Args:
        task: with `gradient`, that of F.
        rounds: R, at most.
        local_steps: T, the number of local steps in a round.
        optimizer: what turns gradients into local steps.
        monitor: measures x after each round.
        callback: called with each round's record; true ends the run.
    """
    low, high = task.bounds
    width = high - low
    started = time.perf_counter()
    x: FloatArray = (task.x0 - low) / width
    for r in range(1, rounds + 1):
        state, before = optimizer.init(len(x)), x
        for _ in range(local_steps):
            gradient: FloatArray = task.gradient(low + width * x) * width  # in the unit cube
            state, step = optimizer.step(state, gradient)
            x = np.clip(x - step, 0.0, 1.0)
        seconds, moved = time.perf_counter() - started, float(np.linalg.norm(width * (x - before)))
        if callback(Record(r, 0, 0, 0, seconds, moved, monitor(low + width * x))):
            break
    last: FloatArray = low + width * x
    return last
