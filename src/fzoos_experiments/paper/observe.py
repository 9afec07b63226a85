"""Gradient estimates of a real run, observed at every local step of every client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.local_steps import GradientHalf, GradientSteps

__all__ = ["Estimate", "observed"]


@dataclass(frozen=True)
class Estimate:
    """A client's gradient estimate at one local step: g_hat = local + gamma * vector (the paper's eq. 2).

    Args:
        context: the client's context, with its trajectory up to now.
        round: r, from 1.
        step: t, from 1.
        x: the iterate, in the unit cube.
        gradient: g_hat.
        local: the client's estimate of its own gradient.
        correction: gamma_t and the correction vector; None while there is none.
    """

    context: ClientContext
    round: int
    step: int
    x: FloatArray
    gradient: FloatArray
    local: FloatArray
    correction: tuple[float, FloatArray] | None


def observed(algorithm: GradientSteps, observer: Callable[[Estimate], None]) -> GradientSteps:
    """The same algorithm, whose gradient estimates are shown to an observer; its runs are the same bit for bit.

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
    """The client half, each of whose estimates is shown with its two parts."""
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
