"""How well gradient estimates point: the cosine between g_hat and grad F at each local step of a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import Algorithm
from fzoos.algorithms.base import ClientContext, ClientHalf, PayloadPart, ServerHalf
from fzoos.algorithms.optimizers import Optimizer
from fzoos.minimize import minimize

__all__ = ["Observed", "cosines"]

Observer = Callable[[int, int, FloatArray, FloatArray], None]  # round, t, x in the cube, g_hat


@dataclass(frozen=True)
class Observed(Algorithm):
    """Another algorithm, unchanged, whose gradient estimates are shown to an observer.

    Args:
        inner: the algorithm whose estimates are compared.
        observer: called with the round, the local step t, x (in the unit cube) and g_hat.
    """

    inner: Algorithm = field(kw_only=True)
    observer: Observer = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.inner.steered:
            raise TypeError(f"{self.inner.label} has no local steps whose gradients could be observed")
        for attribute in ("projected", "descends", "shares_seed", "rebuilds", "reported"):
            object.__setattr__(self, attribute, getattr(self.inner, attribute))

    @property
    def carried(self) -> tuple[str, ...]:
        """The inner algorithm's."""
        return self.inner.carried

    @property
    def refreshes_first(self) -> bool:
        """The inner algorithm's."""
        return self.inner.refreshes_first

    @property
    def exchanges(self) -> int:
        """The inner algorithm's."""
        return self.inner.exchanges

    def keeps_trajectory(self, dim: int) -> bool:
        """The inner algorithm's."""
        return self.inner.keeps_trajectory(dim)

    def queries(self, dim: int, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """The inner algorithm's."""
        return self.inner.queries(dim, local_steps, first=first, refreshed=refreshed)

    def payload(self, dim: int) -> Mapping[str, PayloadPart | tuple[int, ...]]:
        """The inner algorithm's."""
        return self.inner.payload(dim)

    @property
    def per_step(self) -> Mapping[str, int]:
        """The inner algorithm's."""
        return self.inner.per_step

    def server(self, dim: int, local_steps: int, optimizer: Optimizer) -> ServerHalf | None:
        """The inner algorithm's."""
        return self.inner.server(dim, local_steps, optimizer)

    def client(self, context: ClientContext) -> ClientHalf:
        """The inner algorithm's client half, observed."""
        half = self.inner.client(context)
        estimate = half.gradient

        def observed(x: FloatArray, t: int) -> FloatArray:
            gradient = estimate(x, t)
            self.observer(context.trajectory.round, t, x, gradient)
            return gradient

        half.gradient = observed  # type: ignore[method-assign]
        return half


def cosines(
    task: Any, algorithm: Algorithm, rounds: int, local_steps: int, seed: int, progress: Callable[[int, float], None]
) -> list[dict[str, float]]:
    """Mean over clients of cos(g_hat, grad F) at each local step of the last round, and the queries made by then."""
    values: dict[int, list[float]] = {}
    lower, upper = task.bounds

    def observe(round: int, t: int, x: FloatArray, estimate: FloatArray) -> None:
        if round == rounds:
            # The cube scales all coordinates alike, so that the angle is the same in it.
            truth = task.gradient(lower + x * (upper - lower))
            norms = float(np.linalg.norm(estimate) * np.linalg.norm(truth))
            values.setdefault(t, []).append(float(estimate @ truth) / norms if norms > 0 else 0.0)

    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=Observed(inner=algorithm, observer=observe),
        rounds=rounds,
        local_steps=local_steps,
        vectorized=True,
        monitor=task.value,
        callback=lambda record: progress(record.round, record.monitor or 0.0),
        seed=seed,
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt
    first = algorithm.queries(task.dim, 1, first=False, refreshed=algorithm.exchanges == 2)
    both = algorithm.queries(task.dim, 2, first=False, refreshed=algorithm.exchanges == 2)
    return [
        {
            "step": t,
            "queries": len(task.objectives) * (first + (t - 1) * (both - first)),
            "cosine": float(np.mean(values[t])),
        }
        for t in sorted(values)
    ]
