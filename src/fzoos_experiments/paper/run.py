"""One run of one algorithm on one task: the unit that is computed once and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import Algorithm
from fzoos.algorithms.local_steps import GradientSteps
from fzoos.messages.precision import Precision
from fzoos.minimize import minimize
from fzoos.result import Record
from fzoos_experiments.paper.cosine import cosines
from fzoos_experiments.paper.exact import ExactGradient
from fzoos_experiments.paper.task_spec import TaskSpec, build

__all__ = ["SHOWN", "Progress", "Row", "Run"]

SHOWN = 10
"""Test texts of a prompt whose classes are kept."""

Row = dict[str, float]
"""A measurement: round, queries, bytes_up, bytes_down, and the task's quantities at the server's x."""

Progress = Callable[[int, float], None]
"""Told the round and F after each round."""


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        task: what is minimised.
        algorithm: with its settings.
        rounds: R, the number of rounds.
        seed: the seed of the run.
        image: which image of an attack; -1 for other tasks.
        quantity: what is measured. "F": F after each round; the margin of an attack, which ends when it is negative;
            the accuracy of a prompt on test texts, and the classes that some of them get. "value": F - F* where F* is
            known, the margin of an attack, F otherwise, with the seconds so far.
            "cosine": of the gradient estimates within the last round.
        precision: how finely the numbers in messages travel.
        target: a run that measures "value" ends when that is the target or below; None: it does not.
        name: by which the run is kept, in place of its settings: it is found again when a setting has another name
            than it had. Whoever changes what a name stands for gives it another one.
    """

    task: TaskSpec
    algorithm: Algorithm | ExactGradient
    rounds: int
    seed: int
    image: int = -1
    quantity: Literal["F", "value", "cosine"] = "F"
    precision: Precision = field(default="float64", repr=False)
    target: float | None = field(default=None, repr=False)
    name: str = field(default="", repr=False)

    @property
    def key(self) -> str:
        """What the run is kept by: its name, or all settings that the result depends on."""
        if self.name:
            return self.name
        further = (f for f in fields(self) if not f.repr and getattr(self, f.name) != f.default)
        words = repr(self) + "".join(f", {f.name}={getattr(self, f.name)!r}" for f in further)
        version = self.algorithm.version
        return words if version == 1 else f"{words}, version={version}"

    @property
    def fingerprint(self) -> str:
        """Of the key: changes whenever a setting changes that the result depends on; data have their own digest."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Of the algorithm."""
        return self.algorithm.label

    def __call__(self, progress: Progress) -> list[Row]:
        """Make the run; its measurements, that at x0 first."""
        task = build(self.task)
        if self.image >= 0:
            task = task[self.image]
        if self.quantity == "cosine":
            assert isinstance(self.algorithm, GradientSteps)
            return cosines(task, self.algorithm, self.rounds, self.seed, progress)
        return self._measure(task, progress)

    def _measure(self, task: Any, progress: Progress) -> list[Row]:
        rows: list[Row] = [
            {"round": 0, "queries": 0, "bytes_up": 0, "bytes_down": 0, **self._row(task, np.array(task.x0))}
        ]
        measured: list[Row] = []

        def monitor(x: FloatArray) -> float:
            measured.append(self._row(task, x))
            return self._shown(measured[-1])

        def callback(r: Record) -> bool:
            counts = {"round": r.round, "queries": r.queries, "bytes_up": r.bytes_up, "bytes_down": r.bytes_down}
            rows.append({**counts, **measured[-1]})
            if self.quantity == "value":
                rows[-1]["seconds"] = r.seconds
            progress(r.round, self._shown(measured[-1]))
            return self._is_done(measured[-1])

        if isinstance(self.algorithm, ExactGradient):
            self.algorithm.minimize(task, self.rounds, monitor=monitor, callback=callback)
        else:
            result = minimize(
                task.objectives,
                task.x0,
                bounds=task.bounds,
                algorithm=self.algorithm,
                rounds=self.rounds,
                precision=self.precision,
                vectorized=True,
                monitor=monitor,
                callback=callback,
                seed=self.seed,
            )
            if result.status == "interrupted":
                raise KeyboardInterrupt
        return rows

    def _row(self, task: Any, x: FloatArray) -> Row:
        """What is measured at x."""
        is_attack = hasattr(task, "margin")
        if self.quantity == "value":
            return {"value": float(task.margin(x) if is_attack else task.value(x) - getattr(task, "minimum", 0.0))}
        row = {"F": float(task.value(x))}
        if self.task.is_prompt:
            chosen = {f"answer {k}": float(i) for k, i in enumerate(task.chosen(x, SHOWN))}
            return row | {"accuracy": task.accuracy(x)} | chosen
        return row | {"margin": float(task.margin(x))} if is_attack else row

    def _shown(self, row: Row) -> float:
        return row["value" if self.quantity == "value" else "F"]

    def _is_done(self, row: Row) -> bool:
        if self.quantity == "value":
            return self.target is not None and row["value"] <= self.target
        return row.get("margin", 0.0) < 0  # an image that is attacked stays attacked
