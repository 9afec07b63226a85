"""The small problem on which the contract of an algorithm is checked, and what the checks share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.local_steps import GradientSteps, LocalSteps
from fzoos.algorithms.optimizers import Adam, Optimizer
from fzoos.minimize import minimize
from fzoos.objectives.box import Objective
from fzoos.result import Record, Result
from fzoos.testing.quick import queries_of_a_round

__all__ = ["DIM", "TARGETS", "Checks", "Recorder", "bowl", "bowls", "close", "run_checks", "same", "with_steps"]

DIM = 3
TARGETS = (0.2, 0.4, 0.9)


def bowl(target: float) -> Callable[[FloatArray], float]:
    """The mean of (x - target)^2 over the coordinates."""
    return lambda x: float(np.mean((x - target) ** 2))


def bowls(targets: Sequence[float] = TARGETS) -> list[Objective]:
    """One for each client."""
    return [bowl(target) for target in targets]


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Every number within the tolerance; NaN where NaN is expected."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0.0, atol=tolerance)


def same(one: Result, two: Result) -> bool:
    """Whether two runs are equal bit for bit, in everything but the seconds."""
    return _comparable(one) == _comparable(two)


def _comparable(result: Result) -> tuple[Any, ...]:
    records = [replace(record, seconds=0.0, diagnostics={}) for record in result.history]
    diagnostics = [{name: repr(value) for name, value in record.diagnostics.items()} for record in result.history]
    return result.x.tolist(), result.queries_per_client, result.status, records, diagnostics


def with_steps(algorithm: Algorithm, local_steps: int, optimizer: Optimizer = Adam(0.05)) -> Algorithm:
    """The algorithm with so many local steps, if it has any, and with this optimiser, if it uses one."""
    if isinstance(algorithm, GradientSteps):
        return replace(algorithm, local_steps=local_steps, optimizer=optimizer)
    return replace(algorithm, local_steps=local_steps) if isinstance(algorithm, LocalSteps) else algorithm


class Recorder:
    """Objectives that remember every point they were asked for, and the round, in order.

    Args:
        functions: the objectives proper.
    """

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
        """A callback that counts the rounds."""
        self.round = record.round + 1

    def clients(self, round: int) -> set[int]:
        """Who was asked in a round."""
        return {client for client, r, _ in self.points if r == round}

    @property
    def x(self) -> FloatArray:
        """All points, one a row."""
        return np.array([x for _, _, x in self.points])


class Checks:
    """What the parts of the contract share.

    Attributes:
        algorithm: the settings that are checked.
        units: settings that have a unit: the power of the objective's unit, by the setting's name.
    """

    algorithm: Algorithm
    units: Mapping[str, int] = {}

    def run(
        self,
        objectives: Sequence[Objective] | None = None,
        x0: Any = None,
        *,
        algorithm: Algorithm | None = None,
        local_steps: int = 3,
        optimizer: Optimizer = Adam(0.05),
        **changes: Any,
    ) -> Result:
        """A run of `minimize` on the small problem, or on another one."""
        settings: dict[str, Any] = {"bounds": (-1, 1), "rounds": 3, "seed": 0} | changes
        chosen = with_steps(self.algorithm if algorithm is None else algorithm, local_steps, optimizer)
        objectives = bowls() if objectives is None else objectives
        return minimize(objectives, np.zeros(DIM) if x0 is None else x0, algorithm=chosen, **settings)

    def queries_later(self, local_steps: int, round: int = 2) -> int:
        """Queries of a client in a round that is not its first."""
        return queries_of_a_round(with_steps(self.algorithm, local_steps), DIM, round)


def run_checks(checks: object, what: object) -> None:
    """Call every method whose name begins with `test`; the first that fails says its name."""
    for name in [name for name in dir(checks) if name.startswith("test")]:
        try:
            getattr(checks, name)()
        except AssertionError as error:
            raise AssertionError(f"{what} does not pass {name}: {error}") from error
