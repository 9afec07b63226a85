"""An optimiser at work, at one client or at several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.optimizers import Optimizer

__all__ = ["Descent", "Descents"]


class Descent:
    """A client's optimiser with its state: what a gradient makes of it.

    Args:
        optimizer: what turns gradient estimates into steps.
        dim: d, the number of variables.

    Example:
        >>> import numpy as np
        >>> from fzoos import SGD
        >>> from fzoos.algorithms.descent import Descent
        >>> Descent(SGD(0.5), dim=1)(np.array([2.0]))              # what is to be subtracted from x
        array([1.])
    """

    def __init__(self, optimizer: Optimizer, dim: int) -> None:
        self.optimizer, self.state = optimizer, optimizer.init(dim)
        self.largest = 0.0  # entry of a gradient so far

    def start_round(self, dim: int) -> None:
        """From zero, where the optimiser is set to."""
        if self.optimizer.restart:
            self.state = self.optimizer.init(dim)

    def __call__(self, gradient: FloatArray) -> FloatArray:
        """The step, to be subtracted from x."""
        self.largest = max(self.largest, float(np.max(np.abs(gradient))))
        self.state, step = self.optimizer.scaled(self.largest).step(self.state, gradient)
        return step


class Descents:
    """Those of several clients, in one step where the optimiser allows it. After `close` each has its state again.

    Example:
        >>> import numpy as np
        >>> from fzoos import Adam
        >>> from fzoos.algorithms.descent import Descent, Descents
        >>> several = Descents([Descent(Adam(0.1), dim=1) for _ in range(2)])
        >>> several(np.array([[3.0], [-0.5]])).round(6)
        array([[ 0.1],
               [-0.1]])
    """

    def __init__(self, descents: Sequence[Descent]) -> None:
        self._descents = descents
        self._joined = _joined(descents)

    def __call__(self, gradients: FloatArray) -> FloatArray:
        """The step of each, shape (N, d)."""
        if self._joined is not None:
            largest = np.max(np.abs(gradients), axis=1).tolist()
            for descent, most in zip(self._descents, largest, strict=True):
                descent.largest = max(descent.largest, most)
            optimizer = self._descents[0].optimizer
            if all(optimizer.scaled(descent.largest) is optimizer for descent in self._descents):
                self._joined, steps = optimizer.step(self._joined, gradients)
                return steps
            self.close()  # each in its own units
        return np.stack([descent(gradient) for descent, gradient in zip(self._descents, gradients, strict=True)])

    def close(self) -> None:
        """Let each have its state."""
        if self._joined is not None:
            for i, descent in enumerate(self._descents):
                descent.state = tuple(part[i] if isinstance(part, np.ndarray) else part for part in self._joined)
            self._joined = None


def _joined(descents: Sequence[Descent]) -> tuple[Any, ...] | None:
    """The states with an axis more in front; None: each must step by itself."""
    optimizer = descents[0].optimizer
    if len(descents) < 2 or not optimizer.elementwise or any(d.optimizer is not optimizer for d in descents):
        return None
    joined: list[Any] = []
    for parts in zip(*(descent.state for descent in descents), strict=True):
        if isinstance(parts[0], np.ndarray):
            joined.append(np.stack(parts))
        elif all(part == parts[0] for part in parts):  # the number of steps, say
            joined.append(parts[0])
        else:
            return None
    return tuple(joined)
