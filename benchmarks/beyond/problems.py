"""What is minimised: a task without its seed, as a row or a column of a table names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fzoos.experiments.task_spec import TaskSpec

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
    def name(self) -> str:
        """Without the level."""
        return f"metric, {self.metric}" if self.kind == "metric" else self.kind

    @property
    def clients(self) -> int:
        """N."""
        return {"metric": 7, "attack": 10}.get(self.kind, 5)

    def __str__(self) -> str:
        letter = "P" if self.kind in ("metric", "attack") else "C"
        noise = f", noise {self.noise:g}" if self.noise else ""
        return f"{self.name}, {letter} = {self.level:g}{noise}"

    def task(self, seed: int, device: str) -> TaskSpec:
        """The task of a run."""
        if self.kind == "metric":
            samples = SMALL if self.toy else self.samples
            return TaskSpec.of(
                "metric", metric=self.metric, portion=self.level, seed=seed, device=device, samples=samples
            )
        if self.kind == "attack":
            images = {"images": IMAGES, "seed": self.models, "quick": self.toy}
            return TaskSpec.of("attack", dataset="mnist", portion=self.level, device=device, **images)
        noise = {"noise": self.noise} if self.noise else {}
        dim = 20 if self.toy else 300
        return TaskSpec.of(self.kind, dim=dim, clients=self.clients, heterogeneity=self.level, seed=seed, **noise)
