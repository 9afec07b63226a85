"""One run of one algorithm on one task: the unit that is computed once and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import Algorithm
from fzoos.experiments.cosine import cosines
from fzoos.minimize import minimize
from fzoos.result import Record
from fzoos.tasks import TASKS
from fzoos.tasks.data import data_digest
from fzoos.tasks.display import Shown

__all__ = ["Progress", "Row", "Run", "TaskSpec", "build"]

Row = dict[str, float]
"""A measurement: round, queries, bytes_up, bytes_down, and the task's quantities at the server's x."""

Progress = Callable[[int, float], None]
"""Told the round and F after each round."""


@dataclass(frozen=True)
class TaskSpec:
    """A task by name and settings; `build` makes it. Light, so that a figure can be described without any data.

    Args:
        name: the name of a synthetic task, "attack" or "metric".
        settings: the task's arguments as (name, value) pairs.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **settings: Any) -> TaskSpec:
        """From keyword arguments."""
        return cls(name, tuple(sorted(settings.items())))

    @property
    def dataset(self) -> str | None:
        """The name of the data that it is made of, if any."""
        name: str | None = "covtype" if self.name == "metric" else dict(self.settings).get("dataset")
        return name

    @property
    def data(self) -> str | None:
        """A digest of its data, if there are any and they are at hand."""
        return None if self.dataset is None else data_digest(self.dataset)

    @property
    def models(self) -> TaskSpec:
        """A task that has the same models: the metric's classifier is one for all portions and seeds."""
        if self.name != "metric":
            return self
        return TaskSpec(self.name, tuple(pair for pair in self.settings if pair[0] not in ("portion", "seed")))


def build(spec: TaskSpec, progress: Shown = False) -> Any:
    """The task itself, its models trained; the last two are kept.

    Args:
        spec: what to build. A quick attack has small models, trained on few images.
        progress: show the training of its models, on standard output or on the console given.
    """
    return _build(_Wanted(spec, spec.data, progress))


@dataclass(frozen=True)
class _Wanted:
    """A task that was made of other data is another task; where its training is shown makes no difference."""

    spec: TaskSpec
    data: str | None
    progress: Shown = field(compare=False)


@lru_cache(maxsize=2)
def _build(wanted: _Wanted) -> Any:
    spec, progress = wanted.spec, wanted.progress
    settings = dict(spec.settings)
    if spec.name == "attack":
        from fzoos.tasks.attack import DATASETS, Attacks

        if settings.pop("quick"):
            settings["recipe"] = DATASETS[settings["dataset"]].quick
        return Attacks(**settings, progress=progress)
    if spec.name == "metric":
        from fzoos.tasks.metric import Metric

        task = Metric(**settings, progress=progress)
        _ = task.classifier  # trained now, not at the first query
        return task
    return TASKS[spec.name](**settings)


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        task: what is minimised.
        algorithm: with its settings.
        rounds: R, the number of rounds.
        local_steps: T, the number of local steps in a round.
        seed: the seed of the run.
        image: which image of an attack; -1 for other tasks.
        quantity: "F": measurements after each round; "cosine": of the gradient estimates within the last round.
    """

    task: TaskSpec
    algorithm: Algorithm
    rounds: int
    local_steps: int
    seed: int
    image: int = -1
    quantity: str = "F"

    @property
    def fingerprint(self) -> str:
        """Changes whenever a setting changes that the result depends on; data have a digest of their own."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    def __call__(self, progress: Progress) -> list[Row]:
        """Make the run; its measurements, that at x0 first."""
        task = build(self.task)
        if self.quantity == "cosine":
            return cosines(task, self.algorithm, self.rounds, self.local_steps, self.seed, progress)
        return self._measure(task if self.image < 0 else task[self.image], progress)

    def _measure(self, task: Any, progress: Progress) -> list[Row]:
        is_attack = hasattr(task, "margin")

        def quantities(x: FloatArray) -> Row:
            row = {"F": float(task.value(x))}
            return row | {"margin": float(task.margin(x))} if is_attack else row

        rows: list[Row] = [{"round": 0, "queries": 0, "bytes_up": 0, "bytes_down": 0, **quantities(np.array(task.x0))}]
        seen: list[Row] = []

        def monitor(x: FloatArray) -> float:
            seen.append(quantities(x))
            return seen[-1]["F"]

        def callback(r: Record) -> bool:
            counts = {"round": r.round, "queries": r.queries, "bytes_up": r.bytes_up, "bytes_down": r.bytes_down}
            rows.append({**counts, **seen[-1]})
            progress(r.round, seen[-1]["F"])
            return is_attack and seen[-1]["margin"] < 0  # an image that is attacked stays attacked

        result = minimize(
            task.objectives,
            task.x0,
            bounds=task.bounds,
            algorithm=self.algorithm,
            rounds=self.rounds,
            local_steps=self.local_steps,
            vectorized=True,
            monitor=monitor,
            callback=callback,
            seed=self.seed,
        )
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return rows
