"""One run of one algorithm on one task: the unit that is computed once and stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import Algorithm
from fzoos.algorithms.local_steps import GradientSteps
from fzoos.minimize import minimize
from fzoos.result import Record
from fzoos_experiments.paper.exact import ExactGradient
from fzoos_experiments.paper.observe import cosines
from fzoos_experiments.paper.task_spec import TaskSpec, build

__all__ = ["SHOWN", "Progress", "Row", "Run"]

SHOWN = 10
"""The number of a prompt's test texts whose predicted classes are stored."""

Row = dict[str, float]
"""A measurement: round, queries, bytes_up, bytes_down, and the quantities of the task at the server's x."""

Progress = Callable[[int, float], None]
"""Receives the round and F after each round."""


@dataclass(frozen=True)
class Run:
    """A run of an algorithm on a task.

    Args:
        task: the task.
        algorithm: the algorithm with its settings.
        rounds: R, the number of rounds.
        seed: the seed of the run.
        image: the image of an attack; -1 for other tasks.
        quantity: "F": F after each round; for an attack also the margin, and the run ends when it is negative; for a
            prompt also the accuracy and the predicted classes of some test texts. "cosine": the cosines of the gradient
            estimates to grad F within the last round.
    """

    task: TaskSpec
    algorithm: Algorithm | ExactGradient
    rounds: int
    seed: int
    image: int = -1
    quantity: Literal["F", "cosine"] = "F"

    @property
    def key(self) -> str:
        """All settings that the result depends on."""
        version = self.algorithm.version
        return repr(self) if version == 1 else f"{self!r}, version={version}"

    @property
    def fingerprint(self) -> str:
        """A digest of the key."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

    def __call__(self, progress: Progress) -> list[Row]:
        """Make the run and return its measurements, beginning with x0."""
        task = build(self.task)
        if self.image >= 0:
            task = task[self.image]
        if self.quantity == "cosine":
            assert isinstance(self.algorithm, GradientSteps)
            return cosines(task, self.algorithm, self.rounds, self.seed, progress)
        rows = [{"round": 0, "queries": 0, "bytes_up": 0, "bytes_down": 0, **self._row(task, np.array(task.x0))}]
        measured: Row = {}

        def monitor(x: FloatArray) -> float:
            measured.update(self._row(task, x))
            return measured["F"]

        def callback(r: Record) -> bool:
            counts = {"round": r.round, "queries": r.queries, "bytes_up": r.bytes_up, "bytes_down": r.bytes_down}
            rows.append({**counts, **measured})
            progress(r.round, measured["F"])
            return measured.get("margin", 0.0) < 0  # the attack has succeeded

        if isinstance(self.algorithm, ExactGradient):
            self.algorithm.minimize(task, self.rounds, monitor=monitor, callback=callback)
            return rows
        result = minimize(
            task.objectives,
            task.x0,
            bounds=task.bounds,
            algorithm=self.algorithm,
            rounds=self.rounds,
            vectorized=True,
            monitor=monitor,
            callback=callback,
            rng=self.seed,
        )
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return rows

    def _row(self, task: Any, x: FloatArray) -> Row:
        """The quantities of the task at x."""
        row = {"F": float(task.value(x))}
        if self.task.is_prompt:
            chosen = {f"answer {k}": float(i) for k, i in enumerate(task.chosen(x, SHOWN))}
            return row | {"accuracy": task.accuracy(x)} | chosen
        return row | {"margin": float(task.margin(x))} if hasattr(task, "margin") else row
