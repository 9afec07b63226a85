"""The local steps of several clients of FZooS at once: arrays have an axis of clients in front.

=========  ==========  ==========================================================
symbol     shape       meaning
=========  ==========  ==========================================================
x          (N, d)      the clients' iterates
gamma_t    (N, 1)      their correction lengths
s          (N, 1)      their step scales
=========  ==========  ==========================================================

What a client does by itself is `FZooSClient.step` and `explore`. Here the same parts do it for all, so that a step is a
fixed number of operations and of copies to and from the device; only objectives are asked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray, to_device, to_host
from fzoos._util.together import GoOn
from fzoos.algorithms.descent import Descent, Descents
from fzoos.algorithms.fixed_fzoos.correction import Correction
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.queries import Exploring

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos.client import FZooSClient

__all__ = ["Walker", "walk"]


@dataclass
class Walker:
    """A client at the start of its local steps.

    Args:
        half: its half of the algorithm.
        x: where it is.
        descent: its optimiser.
        steps: T.
    """

    half: FZooSClient
    x: FloatArray
    descent: Descent
    steps: int


def walk(walkers: Sequence[Walker], go_on: GoOn) -> Sequence[FloatArray]:
    """T local steps of all, who have the same settings and a correction or not: where they end."""
    steps, left = walkers[0].steps, list(range(len(walkers)))
    crew = _Crew(walkers, steps - 1)

    def tell(number: int, error: Exception) -> bool:
        return go_on(left[number], error)

    try:
        for t in range(1, steps + 1):
            crew.step(t)
            if t == steps:
                break
            failed = crew.explore(tell)
            if failed is None:
                return []
            if failed:  # the others go on without them
                crew.close()
                left = [walker for i, walker in enumerate(left) if i not in failed]
                if not left:
                    break
                crew = _Crew([walkers[i] for i in left], steps - 1 - t)
        crew.close()
    finally:
        crew.stop()
    return [walker.x for walker in walkers]


class _Crew:
    """Clients that walk at once, and explore so many times."""

    def __init__(self, walkers: Sequence[Walker], times: int) -> None:
        self._walkers, self._halves = walkers, [walker.half for walker in walkers]
        self._x = np.stack([walker.x for walker in walkers])
        self._surrogates = Model.several([half.model for half in self._halves])
        known = self._halves[0].corrections.known
        self._vectors = Correction.several([half.corrections for half in self._halves]) if known else None
        self._device = self._halves[0].device
        self._scales = to_device(np.array([[half.step_scale] for half in self._halves]), self._device)
        self._descents = Descents([walker.descent for walker in walkers], self._device)
        self._there = to_device(self._x, self._device)  # x on the device
        self._exploring = Exploring([half.queries for half in self._halves], self._surrogates, times)

    def step(self, t: int) -> None:
        """x - s descend(grad mu_i(x) + gamma_t correction(x)), within the box."""
        for half in self._halves:
            half.context.trajectory.step = t
        self._surrogates.condition(self._x, self._exploring.latest)
        gradient, gamma = self._surrogates.grad_mean(self._there), np.zeros((len(self._x), 1))
        if self._vectors is not None:
            gamma = np.array([[half.length_at(x, t)] for half, x in zip(self._halves, self._x, strict=True)])
            gradient += to_device(gamma, self._device) * self._vectors(self._there)
        for half, length in zip(self._halves, gamma[:, 0].tolist(), strict=True):
            half.note_length(length)
        moved = self._there - self._scales * self._descents(gradient)
        self._there = self._halves[0].context.project(moved)
        self._x = to_host(self._there)

    def explore(self, go_on: GoOn) -> list[int] | None:
        """Active queries around the new iterates: who failed, or None if the others do not go on."""
        return self._exploring.around(self._x, self._there, go_on)

    def close(self) -> None:
        """Let each client have what is its own."""
        self.stop()
        self._surrogates.close()
        self._descents.close()
        for walker, x in zip(self._walkers, self._x, strict=True):
            walker.x = x.copy()

    def stop(self) -> None:
        """Leave the clients' generators where they are to go on."""
        self._exploring.close()
