"""Asking a client's objective: the only place where it is called, and where what it answers is counted.

Values come from a ledger on disk, where there is one; from memory, where a run is made again; or from the objective,
here or by a pool. What they mean is the business of `Trajectory`.
"""

from __future__ import annotations

import logging
import traceback
from concurrent.futures import CancelledError
from typing import Any, Literal, Protocol

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.blas import objective_threads
from fzoos.objectives.box import Objective
from fzoos.objectives.constraints import all_finite, is_finite, join_values, read_values
from fzoos.objectives.memory import ValueMemory
from fzoos.objectives.parallel import Answer, PointPool
from fzoos.result import NotAsked, ObjectiveError

__all__ = ["Asking", "Ledger", "OnFailure", "Purpose"]

OnFailure = Literal["raise", "skip"]
Purpose = Literal["initial", "refresh", "iterate", "active", "difference", "value", "query"]
"""What a query is for: the initial design, the server's x and around it, a local iterate, an active query, a finite
difference, F, anything."""

log = logging.getLogger("fzoos")


class Ledger(Protocol):
    """Stores queries on disk, so that a crash does not lose them."""

    @property
    def count(self) -> int:
        """Queries paid for so far, in all processes and whatever came of them."""
        ...

    def recall(self, count: int, round: int, step: int) -> tuple[FloatArray, FloatArray]:
        """The next queries that were made before a restart, at most `count`: points, shape (n, d), and values.

        Values have shape (n,), or (n, 1 + k) where the objective has constraints: f, c_1, ..., c_k.
        """
        ...

    def record(
        self, points: FloatArray, values: FloatArray, round: int, step: int, purpose: Purpose, more: bool = False
    ) -> None:
        """Store queries that have just been made; their values are used only after this returns.

        With `more`, further points of the same batch follow, and none is used before the last of them is stored.
        """
        ...

    def fail(self, points: FloatArray, error: Exception, round: int, step: int, purpose: Purpose) -> None:
        """Store that evaluating these points ended with an error."""
        ...


class Asking:
    """Calls an objective at points of the user's coordinates, in batches or one by one, and counts.

    Args:
        objective: the user's function.
        vectorized: whether it takes a batch.
        client: the client's index, for error messages.
        on_failure: what an exception and a NaN or infinite value do: end the run, or be recorded as failed.
        ledger: stores queries on disk; None: they are in memory only.
        pool: asks several points at the same time; None: one after the other, here.
    """

    def __init__(
        self,
        objective: Objective,
        vectorized: bool,
        client: int,
        on_failure: OnFailure,
        ledger: Ledger | None,
        pool: PointPool | None,
    ) -> None:
        self._objective, self._vectorized = objective, vectorized
        self._client, self._on_failure = client, on_failure
        self._ledger, self._pool = ledger, pool
        self._memory = ValueMemory(keeps_failures=on_failure == "skip")
        self._constraints: int | None = None  # how many the objective has; None: not known yet
        self.round = self.step = 0  # r and t, for messages and the ledger
        self.count = 0  # every evaluation for the answers that led here, failed ones included
        self.values_asked = 0  # those that were made for F alone, beside them
        self.first_failure = ""  # a traceback, or what was returned
        self.stopped = False  # set from outside when the run has ended: no further query is made

    @property
    def paid(self) -> int:
        """Every query that was ever paid for; a ledger also knows those of requests that were given up."""
        return self.count + self.values_asked if self._ledger is None else self._ledger.count

    @property
    def _has_old_data(self) -> bool:
        """Whether there are values from before that the objective has not given: they have no constraints."""
        return False

    @property
    def _gives_away(self) -> bool:
        """Whether a batch is the objective's, to write into, since it can be made again: see `_as_asked`."""
        return False

    def _as_asked(self, points: FloatArray) -> FloatArray:
        """The points of a batch, or of its end, as they were before the objective was called."""
        return points

    def _ask(self, batches: list[FloatArray], purpose: Purpose) -> list[tuple[FloatArray, FloatArray]]:
        """Batches as they were asked, and their values."""
        with objective_threads():
            if self._pool is not None:
                return self._paid_together(self._pool, batches, purpose)
            last = len(batches) - 1
            return [self._paid(batch, purpose, more=i < last) for i, batch in enumerate(batches)]

    def _paid(self, points: FloatArray, purpose: Purpose, more: bool) -> tuple[FloatArray, FloatArray]:
        """A batch as it was asked, and its values, from the ledger or the objective; NaN marks a failed point."""
        if self.stopped:
            raise CancelledError("the run has ended")
        self.count += len(points)
        asked, y = (points, self._recalled(points)) if self._ledger is None else self._kept(points, purpose, more)
        return asked, self._without_failures(y, asked)

    def _recalled(self, points: FloatArray) -> FloatArray:
        """Values of a batch: those that are remembered, and the rest from the objective."""
        known = self._memory.recall(len(points)) if self._memory.left else np.empty(0)
        if len(known) == len(points):
            return known
        y = self._evaluate(points[len(known) :], copied=not self._gives_away)
        self._memory.note(y)
        return join_values([known, y]) if len(known) else y

    def _without_failures(self, y: FloatArray, points: FloatArray) -> FloatArray:
        """NaN for those that are gone on from; others end the run."""
        if all_finite(y):
            return y.copy()  # the objective may use its array again
        if self._on_failure == "raise":
            raise self._returned(y, points)
        good = is_finite(y)
        return np.where(good if y.ndim == 1 else good[:, None], y, np.nan)

    def _returned(self, y: FloatArray, points: FloatArray) -> ObjectiveError:
        first = int(np.argmin(is_finite(y)))
        return ObjectiveError(f"returned {y[first]}", self._client, self.round, self._as_asked(points)[first])

    def _note(self, failure: str, details: str) -> None:
        """The first failure that is gone on from, in the log and for the result."""
        self.first_failure = f"{details}{failure}"
        log.warning("%s; the point is left out, as all that fail will be", failure)

    def _paid_together(
        self, pool: PointPool, batches: list[FloatArray], purpose: Purpose
    ) -> list[tuple[FloatArray, FloatArray]]:
        """The same of several batches: those that the ledger does not have are asked at the same time."""
        if self.stopped:
            raise CancelledError("the run has ended")
        found: list[tuple[FloatArray, FloatArray]] = []
        for batch in batches:
            if self._ledger is None:
                if not self._memory.left:
                    break
                found.append(self._paid(batch, purpose, more=True))
                continue
            asked, known = self._ledger.recall(len(batch), self.round, self.step)
            if not len(asked):
                break
            self.count += len(batch)
            asked, y = self._with_rest(asked, known, batch, purpose)
            found.append((asked, self._without_failures(y, asked)))
        new = batches[len(found) :]
        answers = pool.ask(self._objective, [self._argument(batch) for batch in new])
        self.count += sum(map(len, new))
        try:
            for i, (batch, answer) in enumerate(zip(new, answers, strict=True)):
                y = self._kept_answer(batch, answer, purpose, more=i + 1 < len(new))
                found.append((batch, self._without_failures(y, batch)))
                if self.stopped:
                    raise CancelledError("the run has ended")
        except BaseException:
            self.count -= answers.cancel() * len(new[0])
            raise
        return found

    def _kept_answer(self, points: FloatArray, answer: Answer, purpose: Purpose, more: bool) -> FloatArray:
        """Values of a batch that was asked by others, in the ledger before they are used."""
        try:
            y = self._interpreted(points, answer)
        except Exception as error:
            if self._ledger is not None:
                self._ledger.fail(points, error, self.round, self.step, purpose)
            raise
        if self._ledger is None:
            self._memory.note(y)
        else:
            self._ledger.record(points, y, self.round, self.step, purpose, more)
        return y

    def _kept(self, points: FloatArray, purpose: Purpose, more: bool) -> tuple[FloatArray, FloatArray]:
        """What the ledger has of a batch, as it is there, and the rest from the objective.

        Recorded points are not compared with those of the batch: these are computed, and another machine computes
        them differently. What was asked and answered is what counts.
        """
        ledger = self._ledger
        assert ledger is not None
        return self._with_rest(*ledger.recall(len(points), self.round, self.step), points, purpose, more)

    def _with_rest(
        self, asked: FloatArray, known: FloatArray, points: FloatArray, purpose: Purpose, more: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """A batch of which the ledger had the beginning."""
        ledger, rest = self._ledger, points[len(asked) :]
        assert ledger is not None
        if len(known):
            self._check_constraints(known)
        if not len(rest):
            return asked, known
        try:
            y = self._evaluate(rest)
        except Exception as error:
            ledger.fail(rest, error, self.round, self.step, purpose)
            raise
        ledger.record(rest, y, self.round, self.step, purpose, more)
        return np.concatenate([asked, rest]), join_values([known, y])

    def _argument(self, points: FloatArray) -> FloatArray:
        """What the objective is called with: a batch (n, d), or a single row; its own copy."""
        return points.copy() if self._vectorized else points[0].copy()

    def _evaluate(self, points: FloatArray, copied: bool = True) -> FloatArray:
        """One call of the objective."""
        try:
            answer = Answer(self._objective(self._argument(points) if copied else points))
        except Exception as error:
            answer = Answer(None, error)
        return self._interpreted(points, answer)

    def _interpreted(self, points: FloatArray, answer: Answer) -> FloatArray:
        """What a call returned or raised as an array of shape (n,): NaN where that is a failure to go on from."""
        error = answer.error
        if error is not None:
            where = self._as_asked(points)[0]
            failure = ObjectiveError(f"raised {type(error).__name__}: {error}", self._client, self.round, where)
            if self._on_failure == "raise" or isinstance(error, NotAsked):
                raise failure from error
            if not self.first_failure:
                own = error.__traceback__.tb_next if error.__traceback__ is not None else None  # without our own line
                self._note(str(failure), "".join(traceback.format_exception(type(error), error, own)))
            return np.full(len(points), np.nan)
        y = self._numbers(answer.value, points)
        if self._on_failure == "skip" and not self.first_failure and not all_finite(y):
            self._note(str(self._returned(y, points)), "")
        return y

    def _numbers(self, value: Any, points: FloatArray) -> FloatArray:
        """What the objective returned, of shape (n,) or (n, 1 + k), or an error that says what was expected."""
        y = read_values(value, points.shape, self._vectorized, f"objective of client {self._client}")
        self._check_constraints(y)  # before it is stored: a wrong answer can be mended and asked again
        return y

    def _check_constraints(self, values: FloatArray) -> None:
        """Raise unless these have as many as all values before; what failed without any says nothing."""
        if values.ndim == 1 and (self._constraints == 0 or not np.any(np.isfinite(values))):
            return
        count = 0 if values.ndim == 1 else values.shape[1] - 1
        if self._constraints is None:
            if count and self._has_old_data:
                raise ValueError(f"client {self._client} has old data without constraints, and an objective with them")
            self._constraints = count
        if count != self._constraints:
            wanted, got = (
                f"f and {k} constraint{'s'[: k > 1]}" if k else "f alone" for k in (self._constraints, count)
            )
            raise ValueError(
                f"the objective of client {self._client} must return {wanted}, as it did before, got {got}"
            )
