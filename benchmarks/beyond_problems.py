"""What is minimised: a record that names a task, and the task itself, built where a run is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from rich.console import Console

from fzoos._util.arrays import FloatArray
from fzoos.tasks import TASKS, Noisy, Quadratic

IMAGES = 15
SMALL = 30_000  # rows of Covertype where a part has to be cheap


@dataclass(frozen=True)
class Problem:
    """A task without its seed.

    Args:
        kind: of the task.
        level: C of the synthetic functions; P, the share of the classes, of the metric and the attack.
        metric: which one.
        noise: of an observation, as a share of F(x0) - F*.
        samples: rows of Covertype; None: all.
        models: the attack's seed, of the models and of the draw of images; a run's own seed is the image.
        toy: small enough to try the program.
    """

    kind: Literal["quadratic", "ackley", "levy", "metric", "attack"]
    level: float
    metric: str = ""
    noise: float = 0.0
    samples: int | None = None
    models: int = 0
    toy: bool = False

    @property
    def models_of(self) -> Problem:
        """The same for all problems that share their models."""
        if self.kind == "metric":
            return replace(self, level=0.3, metric="precision")
        return self if self.kind == "attack" else Problem("quadratic", 0.0)

    @property
    def name(self) -> str:
        """Without the level."""
        return f"metric, {self.metric}" if self.kind == "metric" else self.kind

    def __str__(self) -> str:
        letter = "P" if self.kind in ("metric", "attack") else "C"
        noise = f", noise {self.noise:g}" if self.noise else ""
        return f"{self.name}, {letter} = {self.level:g}{noise}"


@dataclass(frozen=True)
class Built:
    """A task as a run needs it; `value` is what tables show: F - F*, F, or the margin."""

    task: Any
    value: Callable[[FloatArray], float]

    @property
    def clients(self) -> int:
        """N."""
        objectives: Sequence[object] = self.task.objectives
        return len(objectives)


def build(problem: Problem, seed: int, device: str = "cpu") -> Built:
    """The task of a run."""
    if problem.kind == "metric":
        task = _metric(problem, seed, device)
        return Built(task, task.value)
    if problem.kind == "attack":
        task = _attacks(problem, device)[seed]
        return Built(task, task.margin)
    dim = 20 if problem.toy else 300
    if problem.noise:
        noisy = Noisy(Quadratic(dim, 5, problem.level, seed), problem.noise, seed)
        return Built(noisy, lambda x: noisy.value(x) - noisy.minimum)
    synthetic = TASKS[problem.kind](dim, 5, problem.level, seed)
    return Built(synthetic, lambda x: synthetic.value(x) - synthetic.minimum)


def train(problem: Problem, device: str) -> None:
    """Train the models that a problem needs, unless they are in the cache, and show it on standard error."""
    shown = Console(stderr=True)
    if problem.kind == "metric":
        _ = _metric(problem, 0, device, shown).classifier
    elif problem.kind == "attack":
        _attacks(problem, device, shown)


def _metric(problem: Problem, seed: int, device: str, shown: bool | Console = False) -> Any:
    from fzoos.tasks.metric import Metric

    samples = SMALL if problem.toy else problem.samples
    data = _covertype()
    return Metric(problem.metric, problem.level, seed, device=device, samples=samples, data=data, progress=shown)


@lru_cache(1)
def _covertype() -> Any:
    from fzoos.tasks.data import load_covtype

    return load_covtype()


@lru_cache(2)
def _attacks(problem: Problem, device: str, shown: bool | Console = False) -> Any:
    from fzoos.tasks.attack import DATASETS, Attacks

    recipe = DATASETS["mnist"].quick if problem.toy else None
    settings: dict[str, Any] = {"images": IMAGES, "seed": problem.models, "device": device, "recipe": recipe}
    return Attacks("mnist", problem.level, **settings, progress=shown)
