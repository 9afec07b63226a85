"""A task whose observations scatter."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks.synthetic import Synthetic

__all__ = ["Noisy"]

T = TypeVar("T", bound=Synthetic)


@dataclass(frozen=True)
class Noisy(Generic[T]):
    """A synthetic task, each query of which has fresh Gaussian noise; `value` and `gradient` are without it.

    Every client draws from a generator of its own, so that results do not depend on how many work at the same time.
    Each access to `objectives` begins the noise anew: two runs of the same task see the same.

    Args:
        task: the task whose values get noise.
        share: sigma as a share of F(x_0) - F*.
        seed: the seed of the noise.

    Example:
        >>> from fzoos_experiments.tasks import Noisy, Quadratic
        >>> task = Noisy(Quadratic(dim=4, clients=2), share=0.1)
        >>> f = task.objectives[0]
        >>> bool(f(task.x0[None, :])[0] == f(task.x0[None, :])[0])
        False
    """

    task: T
    share: float = 0.01
    seed: int = 0
    sigma: float = field(init=False, compare=False)
    """Standard deviation of an observation."""

    def __post_init__(self) -> None:
        check_number("share", self.share, 0.0)
        check_count("seed", self.seed)
        object.__setattr__(self, "sigma", self.share * (self.task.value(self.task.x0) - self.task.minimum))

    @property
    def objectives(self) -> tuple[BatchObjective, ...]:
        """The clients' functions, each (n, d) -> (n,)."""
        seeds = np.random.SeedSequence(self.seed).spawn(self.clients)
        pairs = zip(self.task.objectives, seeds, strict=True)
        return tuple(_noisy(f, self.sigma, np.random.default_rng(seed)) for f, seed in pairs)

    @property
    def name(self) -> str:
        """Of the task."""
        return self.task.name

    @property
    def dim(self) -> int:
        """d, the number of variables."""
        return self.task.dim

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return self.task.clients

    @property
    def heterogeneity(self) -> float:
        """C."""
        return self.task.heterogeneity

    @property
    def bounds(self) -> tuple[float, float]:
        """Of the task."""
        return self.task.bounds

    @property
    def x0(self) -> FloatArray:
        """Of the task."""
        return self.task.x0

    @property
    def minimizer(self) -> FloatArray:
        """Of the task."""
        return self.task.minimizer

    @property
    def minimum(self) -> float:
        """Of the task."""
        return self.task.minimum

    def value(self, x: FloatArray) -> float:
        """F at one point, without noise."""
        return self.task.value(x)

    def gradient(self, x: FloatArray) -> FloatArray:
        """The true gradient of F at one point."""
        return self.task.gradient(x)


def _noisy(objective: BatchObjective, sigma: float, rng: np.random.Generator) -> BatchObjective:
    lock = Lock()  # a generator must not be asked by two threads at once

    def observe(z: FloatArray) -> FloatArray:
        with lock:
            noise = rng.standard_normal(len(z))
        return objective(z) + sigma * noise

    return observe
