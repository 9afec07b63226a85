"""The optimisers of local steps.

An optimiser is a frozen record of settings; the client stores its state, a tuple of arrays. Learning rates are in units
of the unit cube.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_number, check_positive

__all__ = ["SGD", "Adam", "Optimizer"]


class Optimizer(ABC):
    """Turns gradient estimates into steps."""

    restart: bool = True

    @abstractmethod
    def init(self, dim: int) -> tuple[Any, ...]:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, state: tuple[Any, ...], gradient: FloatArray) -> tuple[tuple[Any, ...], FloatArray]:
        """Return the next state, and the step to be subtracted from x."""

    def scaled(self, largest: float) -> Self:
        """Return the optimiser for gradients of which no entry was larger than this so far."""
        return self


_SMALL = 1e-4  # smaller gradients are a matter of units


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015): x <- x - eta m_hat / (sqrt(v_hat) + eps).

    Args:
        learning_rate: eta, in units of the unit cube.
        beta1: decay of the mean m of the gradient.
        beta2: decay of the mean v of its square.
        eps: added to the denominator; if no entry of a client's gradients was larger than 1e-4 so far, in units of the
            largest one, so that 1e-9 f takes the steps of f.
        restart: whether m and v start from zero in every round, as in the paper, or persist.

    Example:
        >>> import numpy as np
        >>> from fzoos import Adam
        >>> adam = Adam(0.1)
        >>> state, step = adam.step(adam.init(2), np.array([3.0, -0.5]))
        >>> step.round(6)
        array([ 0.1, -0.1])
    """

    learning_rate: float = 0.01  # eta
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    restart: bool = True

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        for name in ("beta1", "beta2"):
            check_number(name, getattr(self, name), 0.0, 1.0)
            if getattr(self, name) == 1.0:
                raise ValueError(f"{name} must be below 1")
        check_positive("eps", self.eps)

    def scaled(self, largest: float) -> Self:
        """Return Adam with eps in units of the largest entry if that is small; eps does not affect larger gradients."""
        return replace(self, eps=self.eps * largest) if self.eps * largest > 0.0 and largest < _SMALL else self

    def init(self, dim: int) -> tuple[Any, ...]:
        """Return the number of steps, m and v."""
        return 0, np.zeros(dim), np.zeros(dim)

    def step(self, state: tuple[Any, ...], gradient: FloatArray) -> tuple[tuple[Any, ...], FloatArray]:
        k, m, v = state
        k += 1
        m = self.beta1 * m + (1.0 - self.beta1) * gradient
        v = self.beta2 * v + (1.0 - self.beta2) * gradient**2
        m_hat, v_hat = m / (1.0 - self.beta1**k), v / (1.0 - self.beta2**k)
        return (k, m, v), self.learning_rate * m_hat / (np.sqrt(v_hat) + self.eps)


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent, x <- x - eta g, without state.

    Args:
        learning_rate: eta, in units of the unit cube.

    Example:
        >>> import numpy as np
        >>> from fzoos import SGD
        >>> SGD(0.5).step((), np.array([2.0]))[1]
        array([1.])
    """

    learning_rate: float = 0.01  # eta

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)

    def init(self, dim: int) -> tuple[Any, ...]:
        return ()

    def step(self, state: tuple[Any, ...], gradient: FloatArray) -> tuple[tuple[Any, ...], FloatArray]:
        return state, self.learning_rate * gradient
