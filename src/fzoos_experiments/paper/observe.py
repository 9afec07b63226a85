"""The gradient estimates of a run at every local step of every client, and their cosines to the true gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.local_steps import GradientHalf, GradientSteps
from fzoos.minimize import minimize
from fzoos.testing.quick import queries_of_a_round

__all__ = ["Estimate", "cosines", "observed"]


@dataclass(frozen=True)
class Estimate:
    """A client's gradient estimate at one local step: g_hat = local + gamma * vector (the paper's eq. 2).

    Args:
        context: the client's context, with its current trajectory.
        round: r, from 1.
        step: t, from 1.
        x: the iterate, in the unit cube.
        gradient: g_hat.
        local: the client's estimate of its own gradient.
        correction: gamma_t and the correction vector; None before the first correction.
    """

    context: ClientContext
    round: int
    step: int
    x: FloatArray
    gradient: FloatArray
    local: FloatArray
    correction: tuple[float, FloatArray] | None


def observed(algorithm: GradientSteps, observer: Callable[[Estimate], None]) -> GradientSteps:
    """The same algorithm, bit for bit, that calls an observer with each gradient estimate.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> from fzoos_experiments.paper.observe import observed
        >>> steps = []
        >>> algorithm = observed(FedZO(local_steps=3), lambda estimate: steps.append((estimate.round, estimate.step)))
        >>> result = minimize(np.sum, np.full(2, 0.5), bounds=(0, 1), algorithm=algorithm, rounds=1)
        >>> steps
        [(1, 1), (1, 2), (1, 3)]
    """
    if not isinstance(algorithm, GradientSteps):
        raise TypeError(f"{algorithm.label} has no local steps whose gradients could be observed")

    def client(self: GradientSteps, context: ClientContext) -> ClientHalf:
        half = algorithm.client(context)
        assert isinstance(half, GradientHalf)
        return _observe(half, observer)

    kind: Any = type(algorithm)
    subclass: Any = type(kind)(kind.__name__, (kind,), {"client": client, "__module__": kind.__module__})
    same: GradientSteps = subclass(**{field.name: getattr(algorithm, field.name) for field in fields(algorithm)})
    return same


def _observe(half: GradientHalf, observer: Callable[[Estimate], None]) -> GradientHalf:
    """Make a client half call the observer with each estimate and its parts."""
    local_gradient, correction, gradient = half.local_gradient, half.correction, half.gradient
    seen: dict[str, Any] = {}

    def observed_local_gradient(x: FloatArray) -> FloatArray:
        seen["local"] = local_gradient(x)
        return seen["local"]  # type: ignore[no-any-return]

    def observed_correction(x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        seen["correction"] = correction(x, t)
        return seen["correction"]  # type: ignore[no-any-return]

    def observed_gradient(x: FloatArray, t: int) -> FloatArray:
        estimate = gradient(x, t)
        observer(Estimate(half.context, half.context.evaluator.round, t, x, estimate, **seen))
        return estimate

    half.local_gradient = observed_local_gradient  # type: ignore[method-assign]
    half.correction = observed_correction  # type: ignore[method-assign]
    half.gradient = observed_gradient  # type: ignore[method-assign]
    return half


def cosines(
    task: Any, algorithm: GradientSteps, rounds: int, seed: int, progress: Callable[[int, float], None]
) -> list[dict[str, float]]:
    """The mean over clients of cos(g_hat, grad F) at each local step of the last round, with the queries so far."""
    values: dict[int, list[float]] = {}
    lower, upper = task.bounds

    def observe(estimate: Estimate) -> None:
        if estimate.round == rounds:
            # Angles are the same in the unit cube, which scales all coordinates equally.
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
        rng=seed,
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt
    first, both = (queries_of_a_round(replace(algorithm, local_steps=steps), task.dim, 2) for steps in (1, 2))
    return [
        {
            "step": t,
            "queries": len(task.objectives) * (first + (t - 1) * (both - first)),
            "cosine": float(np.mean(values[t])),
        }
        for t in sorted(values)
    ]
