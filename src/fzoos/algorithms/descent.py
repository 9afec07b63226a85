"""An optimiser at work, at one client or at several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.cores import on_cores
from fzoos._util.panels import panels
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

    Args:
        descents: the clients' own.
        dim: d, the number of variables.

    Example:
        >>> import numpy as np
        >>> from fzoos import Adam
        >>> from fzoos.algorithms.descent import Descent, Descents
        >>> several = Descents([Descent(Adam(0.1), dim=1) for _ in range(2)], dim=1)
        >>> gradients = np.array([[3.0], [-0.5]])
        >>> several.moved(np.zeros((2, 1)), gradients, np.ones((2, 1)), lambda x, out: x).round(6)
        array([[-0.1],
               [ 0.1]])
    """

    def __init__(self, descents: Sequence[Descent], dim: int) -> None:
        self._descents = descents
        # A few clients at a time, so that what is computed of them stays in cache.
        self._panels = list(panels(len(descents), dim))
        joined = [_joined(descents[panel], descents[0].optimizer) for panel in self._panels]
        self._joined = [state for state in joined if state is not None]
        self._is_joined = len(descents) > 1 and len(self._joined) == len(self._panels)

    def moved(
        self,
        x: FloatArray,
        gradients: FloatArray,
        scales: FloatArray,
        project: Callable[[FloatArray, FloatArray], FloatArray],
    ) -> FloatArray:
        """x - s step of each, projected.

        Args:
            x: shape (N, d).
            gradients: shape (N, d).
            scales: s, shape (N, 1).
            project: puts rows, the first argument, back into the box, in place: the second is the same.
        """
        there = np.empty(x.shape)
        self._note_largest(gradients)
        if not self._is_joined:
            for i, descent in enumerate(self._descents):
                there[i] = x[i] - scales[i] * descent(gradients[i])
            return project(there, there)
        optimizer = self._descents[0].optimizer

        def move(number: int) -> None:
            panel = self._panels[number]
            self._joined[number], steps = optimizer.step(self._joined[number], gradients[panel])
            project(np.subtract(x[panel], scales[panel] * steps, out=there[panel]), there[panel])

        on_cores(move, range(len(self._panels)))
        return there

    def _note_largest(self, gradients: FloatArray) -> None:
        if not self._is_joined:
            return
        optimizer, largest = self._descents[0].optimizer, np.empty(len(gradients))

        def look(panel: slice) -> None:
            np.max(np.abs(gradients[panel]), axis=1, out=largest[panel])

        on_cores(look, self._panels)
        for descent, most in zip(self._descents, largest.tolist(), strict=True):
            descent.largest = max(descent.largest, most)
        if any(optimizer.scaled(descent.largest) is not optimizer for descent in self._descents):
            self.close()  # each in its own units

    def close(self) -> None:
        """Let each have its state."""
        if not self._is_joined:
            return
        self._is_joined = False
        for panel, joined in zip(self._panels, self._joined, strict=True):
            for i, descent in enumerate(self._descents[panel]):
                descent.state = tuple(part[i] if isinstance(part, np.ndarray) else part for part in joined)


def _joined(descents: Sequence[Descent], optimizer: Optimizer) -> tuple[Any, ...] | None:
    """The states with an axis more in front; None: each must step by itself."""
    if not optimizer.elementwise or any(d.optimizer is not optimizer for d in descents):
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
