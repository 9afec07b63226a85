"""An optimiser and its state."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.optimizers import Optimizer

__all__ = ["Descent"]


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
