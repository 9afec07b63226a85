"""An optimiser at work, at one client or at several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fzoos._util.arrays import Array, FloatArray, is_array, namespace, stack_for_device, to_device, to_numpy
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
    """Those of several clients, in one step where the optimiser allows it, on the device.

    After `close` each has its state again.

    Args:
        descents: the clients' own.
        device: None for NumPy, or a PyTorch device.

    Example:
        >>> import numpy as np
        >>> from fzoos import Adam
        >>> from fzoos.algorithms.descent import Descent, Descents
        >>> several = Descents([Descent(Adam(0.1), dim=1) for _ in range(2)])
        >>> several(np.array([[3.0], [-0.5]])).round(6)
        array([[ 0.1],
               [-0.1]])
    """

    def __init__(self, descents: Sequence[Descent], device: str | None = None) -> None:
        self._descents, self._device = descents, device
        self._joined = _joined(descents, device)

    def __call__(self, gradients: Array) -> Array:
        """The step of each, on the device, where the gradients are, shape (N, d)."""
        if self._joined is not None:
            xp = namespace(gradients)
            largest = to_numpy(xp.max(xp.abs(gradients), axis=1)).tolist()
            for descent, most in zip(self._descents, largest, strict=True):
                descent.largest = max(descent.largest, most)
            optimizer = self._descents[0].optimizer
            if all(optimizer.scaled(descent.largest) is optimizer for descent in self._descents):
                self._joined, steps = optimizer.step(self._joined, gradients)
                return steps
            self.close()  # each in its own units
        here = to_numpy(gradients)
        return to_device(np.stack([own(row) for own, row in zip(self._descents, here, strict=True)]), self._device)

    def close(self) -> None:
        """Let each have its state."""
        if self._joined is not None:
            joined = [to_numpy(part) if is_array(part) else part for part in self._joined]
            for i, descent in enumerate(self._descents):
                descent.state = tuple(part[i] if is_array(part) else part for part in joined)
            self._joined = None


def _joined(descents: Sequence[Descent], device: str | None) -> tuple[Any, ...] | None:
    """The states with an axis more in front, on the device; None: each must step by itself."""
    optimizer = descents[0].optimizer
    if len(descents) < 2 or not optimizer.elementwise or any(d.optimizer is not optimizer for d in descents):
        return None
    if device is not None and not optimizer.on_device:
        return None
    joined: list[Any] = []
    for parts in zip(*(descent.state for descent in descents), strict=True):
        if isinstance(parts[0], np.ndarray):
            joined.append(to_device(stack_for_device(parts, device), device))
        elif all(part == parts[0] for part in parts):  # the number of steps, say
            joined.append(parts[0])
        else:
            return None
    return tuple(joined)
