"""The small problem on which algorithms are checked, and helpers of the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.local_steps import GradientSteps, LocalSteps
from fzoos.algorithms.optimizers import Adam, Optimizer
from fzoos.objectives.box import Objective
from fzoos.result import Record, Result

__all__ = ["DIM", "TARGETS", "Recorder", "bowl", "bowls", "close", "run_checks", "same", "with_steps"]

DIM = 3
TARGETS = (0.2, 0.4, 0.9)


def bowl(target: float) -> Callable[[FloatArray], float]:
    """Return the function whose value is the mean of (x - target)^2 over the coordinates."""
    return lambda x: float(np.mean((x - target) ** 2))


def bowls(targets: Sequence[float] = TARGETS) -> list[Objective]:
    """Return one bowl per target, for one client each."""
    return [bowl(target) for target in targets]


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Check that every number is within the tolerance, and NaN where NaN is expected."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0.0, atol=tolerance)


def same(one: Result, two: Result) -> bool:
    """Return whether two runs are equal bit for bit, in everything but the seconds."""
    return _comparable(one) == _comparable(two)


def _comparable(result: Result) -> tuple[Any, ...]:
    records = [replace(record, seconds=0.0, diagnostics={}) for record in result.history]
    diagnostics = [{name: repr(value) for name, value in record.diagnostics.items()} for record in result.history]
    return result.x.tolist(), result.queries_per_client, result.status, records, diagnostics


def with_steps(algorithm: Algorithm, local_steps: int, optimizer: Optimizer = Adam(0.05)) -> Algorithm:
    """Return the algorithm with this number of local steps, if it has any, and this optimiser, if it uses one."""
    if isinstance(algorithm, GradientSteps):
        return replace(algorithm, local_steps=local_steps, optimizer=optimizer)
    return replace(algorithm, local_steps=local_steps) if isinstance(algorithm, LocalSteps) else algorithm


class Recorder:
    """Objectives that record every point at which they are queried, and the round, in order."""

    def __init__(self, functions: Sequence[Objective]) -> None:
        self.round = 1
        self.points: list[tuple[int, int, FloatArray]] = []  # client, round, x
        self.objectives = [self._wrap(i, f) for i, f in enumerate(functions)]

    def _wrap(self, client: int, f: Objective) -> Objective:
        def objective(x: FloatArray) -> Any:
            self.points.append((client, self.round, x.copy()))
            return f(x)

        return objective

    def next_round(self, record: Record) -> None:
        """Count the rounds; a callback."""
        self.round = record.round + 1

    def clients(self, round: int) -> set[int]:
        """Return the clients that were queried in a round."""
        return {client for client, r, _ in self.points if r == round}

    @property
    def x(self) -> FloatArray:
        """All points, one per row."""
        return np.array([x for _, _, x in self.points])


def run_checks(checks: object, what: object) -> None:
    """Call every method whose name begins with `test`; the error of the first that fails names it."""
    for name in [name for name in dir(checks) if name.startswith("test")]:
        try:
            getattr(checks, name)()
        except AssertionError as error:
            raise AssertionError(f"{what} does not pass {name}: {error}") from error
