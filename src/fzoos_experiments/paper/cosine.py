"""How well gradient estimates point: the cosine between g_hat and grad F at each local step of a round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fzoos.algorithms.local_steps import GradientSteps
from fzoos.minimize import minimize
from fzoos_experiments.paper.observe import Estimate, observed

__all__ = ["cosines"]


def cosines(
    task: Any, algorithm: GradientSteps, rounds: int, seed: int, progress: Callable[[int, float], None]
) -> list[dict[str, float]]:
    """Mean over clients of cos(g_hat, grad F) at each local step of the last round, and the queries made by then."""
    values: dict[int, list[float]] = {}
    lower, upper = task.bounds

    def observe(estimate: Estimate) -> None:
        if estimate.round == rounds:
            # The cube scales all coordinates alike, so that the angle is the same in it.
            truth = task.gradient(lower + estimate.x * (upper - lower))
            norms = float(np.linalg.norm(estimate.gradient) * np.linalg.norm(truth))
            values.setdefault(estimate.step, []).append(float(estimate.gradient @ truth) / norms if norms > 0 else 0.0)

    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=observed(algorithm, observe),
        rounds=rounds,
        vectorized=True,
        monitor=task.value,
        callback=lambda record: progress(record.round, record.monitor or 0.0),
        seed=seed,
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt
    first, both = (
        replace(algorithm, local_steps=steps).queries(task.dim, first=False, refreshed=algorithm.exchanges == 2)
        for steps in (1, 2)
    )
    return [
        {
            "step": t,
            "queries": len(task.objectives) * (first + (t - 1) * (both - first)),
            "cosine": float(np.mean(values[t])),
        }
        for t in sorted(values)
    ]
