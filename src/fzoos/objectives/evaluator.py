"""A client's evaluator: the only place where its objective is called, and where evaluations are counted and journaled.

Values come from the ledger, if it has them from before; otherwise from the objective, in this process or through a
pool. What they mean is the business of `Trajectory`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.blas import objective_threads
from fzoos._util.states import StateDict, generator_state, restore_generator
from fzoos.objectives.box import Box, Objective
from fzoos.objectives.ledger import Ledger, MemoryLedger, Purpose
from fzoos.objectives.parallel import PointPool, Returned
from fzoos.objectives.values import all_finite, is_finite, join_values, read_values
from fzoos.result import ObjectiveError, ValuePending

__all__ = ["Evaluator", "OnFailure"]

OnFailure = Literal["raise", "skip"]

_SAME = 1e-12  # of the cube: where clients compute the server's x, another machine may round the last bits differently

log = logging.getLogger("fzoos")


@dataclass(eq=False)
class Evaluator:
    """Evaluates a client's objective at points of the unit cube, counts, and journals.

    Attributes:
        round: r, for messages and the ledger.
        step: t, the local step, for the ledger; 0 before the first.
        has_queried: whether the algorithm has made a query.
        failed: evaluations that failed.
        first_failure: the traceback of the first failure, or what was returned.
        stopped: set from another thread when the run has ended: no further evaluation is made.
    """

    objective: Objective  # (d,) -> float or vectorised (n, d) -> (n,), in the user's coordinates
    box: Box
    _: KW_ONLY
    vectorized: bool = False  # whether the objective takes a batch; otherwise it is called point by point
    client: int = 0  # the index, for error messages
    # What an exception and a NaN or infinite value do: end the run, or be recorded as failed. The first one is logged.
    on_failure: OnFailure = "raise"
    # Stores evaluations on disk, and returns them after a restart; None: values are in memory only.
    ledger: InitVar[Ledger | None] = None
    seed: InitVar[np.random.SeedSequence | None] = None  # of the rounding, where not all points can be evaluated
    pool: PointPool | None = None  # evaluates several points at the same time; None: one after the other, here

    def __post_init__(self, ledger: Ledger | None, seed: np.random.SeedSequence | None) -> None:
        self._memory = MemoryLedger(stores_failures=self.on_failure == "skip")
        self._ledger: Ledger = self._memory if ledger is None else ledger
        self._evaluated_instead = getattr(self.objective, "evaluated_instead", None)
        # An objective may write into its batch; it gets a copy where its points are used afterwards.
        self._copies = ledger is not None or self.pool is not None or self._evaluated_instead is not None
        self._rounding = _rounding_generator(seed)
        self._constraints: int | None = None  # how many the objective has; None: not known yet
        self._evaluations = 0
        self._shared: tuple[FloatArray, float] | None = None  # the server's x whose F was measured last, and f there
        self._at_server_x: float | None = None  # f at the server's x of this round, where it is known from that
        self.round = self.step = 0
        self.has_queried = False
        self.failed = 0
        self.first_failure = ""
        self.stopped = False

    @property
    def count(self) -> int:
        """Every evaluation so far; a ledger on disk also counts those of requests that were given up."""
        count = self._ledger.count
        return self._evaluations if count is None else count

    @property
    def values(self) -> FloatArray:
        """Values of all evaluations in their order, where there is no ledger on disk: see `MemoryLedger`."""
        return self._memory.values

    def replay(self, values: FloatArray, unanswered: int = 0) -> None:
        """Take the values of the first evaluations from an earlier run, in which `unanswered` more have no value."""
        self._memory.replay(values)
        self._evaluations += unanswered

    def begin_round(self, x: FloatArray) -> None:
        """Begin a round at the server's x: if F was measured there, its first query needs no evaluation."""
        shared, self._shared = self._shared, None
        known = shared is not None and not self.box.is_discrete and bool(np.max(np.abs(shared[0] - x)) <= _SAME)
        self._at_server_x = shared[1] if shared is not None and known else None

    def evaluate(
        self, x: FloatArray, purpose: Purpose = "query", *, spread: bool = True, at_server_x: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Evaluate the rows of x, shape (n, d), in one call if the objective takes batches.

        Args:
            x: points of the unit cube.
            purpose: what the evaluation is for; the ledger stores it.
            spread: whether draws are spread evenly over the rows, where points are rounded; otherwise each row is
                rounded independently.
            at_server_x: whether the first row is the server's x of this round.

        Returns:
            The points as they were evaluated, and their values: f, shape (n,), or f and constraints, shape (n, 1 + k).
            NaN marks a failed point.
        """
        if not len(x):
            return x, np.empty(0)
        if self.box.is_discrete and purpose != "value":
            x = self._rounded(x, alike=purpose == "difference", spread=spread)
        x, points, parts = self._known(x, at_server_x)
        self.has_queried = self.has_queried or purpose != "value"
        start = sum(map(len, parts))
        if start < len(x):
            size = len(x) - start if self.vectorized else 1
            batches = [slice(first, first + size) for first in range(start, len(x), size)]
            with objective_threads():
                if self.pool is not None:
                    parts += self._evaluate_in_pool(self.pool, x, points, batches, purpose)
                    batches = []
                for batch in batches:
                    self._begin(size)
                    try:
                        returned = Returned(self.objective(self._argument(points[batch])))
                    except Exception as error:
                        returned = Returned(None, error)
                    parts.append(self._record(x[batch], points[batch], returned, purpose, batch.stop < len(x)))
        values = parts[0] if len(parts) == 1 else join_values(parts)
        return self._substituted(x, points), values

    def value(self, x: FloatArray) -> float:
        """Evaluate f at x, shape (d,), to measure F; NaN: it failed."""
        x = self.box.round_nearest(x)
        there, values = self.evaluate(x[None], "value")
        f = float(values.flat[0])
        moved = values.ndim == 2 or np.any(there != x)  # constraints are queried again there
        self._shared = None if moved else (x, f)
        return f

    def accept(self, values: FloatArray) -> FloatArray:
        """Check values that come from the ledger, and count the failed ones, which get NaN throughout."""
        self._check_constraints(values)
        return self._without_failures(values)

    def _rounded(self, x: FloatArray, alike: bool, spread: bool) -> FloatArray:
        """Return the points that are evaluated in place of the rows of x."""
        parts = [x] if spread else [x[i : i + 1] for i in range(len(x))]
        return np.concatenate([self.box.round_randomly(part, self._rounding, alike) for part in parts])

    def _known(self, x: FloatArray, at_server_x: bool) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """Return x, the points in the user's coordinates, and values of the first rows, which need no evaluation."""
        points = self.box.from_cube(x)
        reused, self._at_server_x = self._at_server_x if at_server_x else None, None
        parts = [] if reused is None else [np.array([reused])]
        first = len(parts)
        recorded, values = self._ledger.recall(len(x) - first, self.round, self.step)
        if not len(values):
            return x, points, parts
        self._evaluations += len(values)
        if recorded is not None:  # another machine may have rounded or chosen differently
            known = slice(first, first + len(values))
            other = np.any(recorded != points[known], axis=1)
            points[known], x = recorded, x.copy()
            x[known] = np.where(other[:, None], self.box.scale(recorded), x[known])
        return x, points, [*parts, self.accept(values)]

    def _begin(self, count: int) -> None:
        """Count a call that is about to be made, if it may be made."""
        if self.stopped:
            raise CancelledError("the run has ended")
        self._ledger.allow(count)
        self._evaluations += count

    def _argument(self, points: FloatArray) -> FloatArray:
        """Return the argument of the objective: a batch, shape (n, d), or a single point, shape (d,)."""
        if not self.vectorized:
            row: FloatArray = points[0].copy()
            return row
        return points.copy() if self._copies else points

    def _evaluate_in_pool(
        self, pool: PointPool, x: FloatArray, points: FloatArray, batches: Sequence[slice], purpose: Purpose
    ) -> list[FloatArray]:
        """Return the values of all batches, which are evaluated at the same time."""
        size = batches[0].stop - batches[0].start
        self._begin(size * len(batches))
        pending = pool.submit(self.objective, [self._argument(points[batch]) for batch in batches])
        parts = []
        try:
            for batch, returned in zip(batches, pending, strict=True):
                parts.append(self._record(x[batch], points[batch], returned, purpose, batch.stop < len(x)))
                if self.stopped:
                    raise CancelledError("the run has ended")
        except BaseException:
            self._evaluations -= pending.cancel() * size  # these are never made
            raise
        return parts

    def _record(
        self, x: FloatArray, points: FloatArray, returned: Returned, purpose: Purpose, more: bool
    ) -> FloatArray:
        """Store what a call returned or raised, and return the values, NaN where a failure is tolerated."""
        try:
            values = self._values_of(x, returned)
        except Exception as error:
            self._ledger.fail(points, error, self.round, self.step, purpose)
            raise
        self._ledger.record(points, values, self.round, self.step, purpose, more)
        if self.on_failure == "raise" and not all_finite(values):
            raise self._returned(values, x)
        return self._without_failures(values)

    def _without_failures(self, values: FloatArray) -> FloatArray:
        """Count failed points, and return the values with NaN for f and all constraints of each."""
        if all_finite(values):
            return values
        good = is_finite(values)
        self.failed += int(np.sum(~good))
        return np.where(good if values.ndim == 1 else good[:, None], values, np.nan)

    def _values_of(self, x: FloatArray, returned: Returned) -> FloatArray:
        """Return what a call returned or raised as an array of shape (n,) or (n, 1 + k)."""
        error = returned.error
        if error is None:
            values = read_values(returned.value, x.shape, self.vectorized, f"objective of client {self.client}")
            self._check_constraints(values)  # before they are stored: the objective can be corrected
            if self.on_failure == "skip" and not self.first_failure and not all_finite(values):
                self._note_failure(str(self._returned(values, x)), "")
            return values
        failure = self._error(f"raised {type(error).__name__}: {error}", x[0])
        if self.on_failure == "raise" or isinstance(error, ValuePending):
            raise failure from error
        if not self.first_failure:
            own = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without our own line
            self._note_failure(str(failure), "".join(traceback.format_exception(type(error), error, own)))
        return np.full(len(x), np.nan)

    def _returned(self, values: FloatArray, x: FloatArray) -> ObjectiveError:
        first = int(np.argmin(is_finite(values)))
        return self._error(f"returned {values[first]}", x[first])

    def _error(self, what: str, x: FloatArray) -> ObjectiveError:
        """Make an error at x, whose coordinates are computed again: the objective may have changed its argument."""
        return ObjectiveError(what, self.client, self.round, self.box.from_cube(x[None])[0])

    def _note_failure(self, failure: str, details: str) -> None:
        """Log the first failure that is tolerated."""
        self.first_failure = f"{details}{failure}"
        log.warning("%s; the point is left out, as all that fail will be", failure)

    def _substituted(self, x: FloatArray, points: FloatArray) -> FloatArray:
        """Return x with the points that people evaluated in place of others."""
        moved: dict[int, FloatArray] = {} if self._evaluated_instead is None else self._evaluated_instead(points)
        x = x.copy() if moved else x
        for row, point in moved.items():
            x[row] = self.box.to_cube(point)
        return x

    def _check_constraints(self, values: FloatArray) -> None:
        """Raise unless values have the same number of constraints as all before; failed ones need not have any."""
        if values.ndim == 1 and (self._constraints == 0 or not np.any(np.isfinite(values))):
            return
        count = 0 if values.ndim == 1 else values.shape[1] - 1
        if self._constraints is None:
            self._constraints = count
        if count != self._constraints:
            wanted, got = (
                f"f and {k} constraint{'s'[: k > 1]}" if k else "f alone" for k in (self._constraints, count)
            )
            raise ValueError(
                f"the objective of client {self.client} must return {wanted}, as before (old data included), got {got}"
            )

    def state(self) -> StateDict:
        """Return the counts, and what the next evaluations depend on, as named arrays and numbers.

        The ledger, the first failure and whether the evaluator is stopped are not part of it.
        """
        shared_x, shared_value = (None, None) if self._shared is None else self._shared
        return {
            "round": self.round,
            "step": self.step,
            "has_queried": self.has_queried,
            "failed": self.failed,
            "evaluations": self._evaluations,
            "constraints": self._constraints,
            "rounding": generator_state(self._rounding),
            "shared_x": shared_x,
            "shared_value": shared_value,
            "at_server_x": self._at_server_x,
        }

    def restore(self, state: StateDict) -> None:
        """Replace these by what `state` returned."""
        self.round, self.step = int(state["round"]), int(state["step"])
        self.has_queried, self.failed = bool(state["has_queried"]), int(state["failed"])
        self._evaluations, self._constraints = int(state["evaluations"]), state.get("constraints")
        restore_generator(self._rounding, state["rounding"])
        shared_x = state.get("shared_x")
        self._shared = None if shared_x is None else (shared_x, float(state["shared_value"]))
        self._at_server_x = state.get("at_server_x")


def _rounding_generator(seed: np.random.SeedSequence | None) -> np.random.Generator:
    """A generator of its own, so that all other random numbers of a run are those of a run without rounding."""
    if seed is None:
        return np.random.default_rng(0)
    key = (*seed.spawn_key, *b"asked")
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))
