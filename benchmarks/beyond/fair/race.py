"""One run within a number of queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchmarks.beyond.fair.entrants import Try
from fzoos import Auto, minimize
from fzoos._util.arrays import FloatArray

ROUNDS = 2_000  # more than any budget allows

Trace = list[tuple[int, float]]  # queries of all clients so far and F - F*, at x_0 and after each round


class Instance(Protocol):
    """What a run needs of a problem on the unit cube."""

    @property
    def objectives(self) -> Sequence[Callable[[FloatArray], Any]]: ...

    @property
    def x0(self) -> FloatArray: ...

    def gap(self, x: FloatArray, /) -> float:
        """F(x) - F*, without noise."""
        ...


def race(instance: Instance, entrant: Try | None, seed: int, most: int, vectorized: bool = True) -> Trace:
    """A run that ends before the round that would need more queries than it has.

    Args:
        instance: what is minimised.
        entrant: who; None: the default, `Auto()`.
        seed: of the run.
        most: queries of all clients together.
        vectorized: whether objectives take batches.
    """
    result = minimize(
        instance.objectives,
        instance.x0,
        bounds=(0.0, 1.0),
        algorithm=Auto() if entrant is None else entrant.algorithm,
        rounds=ROUNDS,
        vectorized=vectorized,
        max_queries=most,
        monitor=instance.gap,
        seed=seed,
    )
    rows = [(record.queries, float(record.monitor or 0.0)) for record in result.history if not record.cut]
    return [(0, float(instance.gap(instance.x0))), *rows]


def within(trace: Trace, queries: float) -> tuple[int, float]:
    """The last entry of a trace within a number of queries."""
    return [point for point in trace if point[0] <= queries][-1]
