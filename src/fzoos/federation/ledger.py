"""A journal as the ledger of an evaluator: a query is stored before its value is used, and is not made twice."""

from __future__ import annotations

from collections import deque
from concurrent.futures import CancelledError

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.federation.journal import Journal, JournalError, Query
from fzoos.objectives.evaluator import OnFailure
from fzoos.objectives.ledger import Purpose
from fzoos.objectives.values import is_finite, join_values
from fzoos.result import NotAsked

__all__ = ["OTHER_VERSION", "BudgetError", "SiteLedger"]

OTHER_VERSION = "was written by other settings or another version of the program"


class BudgetError(RuntimeError):
    """The site's budget of queries does not allow what is asked."""


class SiteLedger:
    """A journal as the ledger of an evaluator: one request at a time, its stored queries first."""

    def __init__(self, journal: Journal, on_failure: OnFailure, dim: int) -> None:
        self._journal, self._on_failure, self._dim = journal, on_failure, dim
        self._kept: deque[Query] = deque()
        self._request: int | None = None  # None: everything is in the journal already
        self._budget: int | None = None
        self.stopped = False

    @property
    def count(self) -> int:
        """Queries paid for so far."""
        return self._journal.count

    def replay(self, request: int) -> None:
        """What follows answers a request that was answered before."""
        self._kept, self._request = deque(self._journal.queries(request)), None

    def open(self, request: int, budget: int | None) -> None:
        """What follows answers this request; some of its queries may be there from before a crash."""
        self.replay(request)
        self._request, self._budget = request, budget

    def recall(self, count: int, round: int, step: int) -> tuple[FloatArray, FloatArray]:
        """The next queries in the journal, at most `count`; they must be of this round and step."""
        found = [self._kept.popleft() for _ in range(min(count, len(self._kept)))]
        if any((query.round, query.step) != (round, step) for query in found):
            raise JournalError(f"the journal {self._journal.path} {OTHER_VERSION}: it asked in other steps")
        values = join_values([query.values for query in found]) if found else np.empty(0)
        return np.array([query.x for query in found]).reshape(len(found), self._dim), values

    def check_all_used(self) -> None:
        """Raise unless the request that was answered once more has asked all that the journal has of it."""
        if self._kept:
            raise JournalError(f"the journal {self._journal.path} {OTHER_VERSION}: it has more queries")

    def record(
        self, points: FloatArray, values: FloatArray, round: int, step: int, purpose: Purpose, more: bool = False
    ) -> None:
        """Commit them; those that will be taken for an error are asked again when the request is."""
        assert self._request is not None
        failed = self._on_failure == "raise" and not np.all(is_finite(values))
        error = "NaN or infinity, here or in its batch" if failed else None
        self._journal.record(self._request, points, values, round, step, purpose, error, more and not failed)

    def fail(self, points: FloatArray, error: Exception, round: int, step: int, purpose: Purpose) -> None:
        """Commit them without values, unless nothing was asked at all."""
        assert self._request is not None
        if not isinstance(error.__cause__, NotAsked):
            self._journal.record(self._request, points, None, round, step, purpose, error=str(error))

    def allow(self, count: int) -> None:
        """Raise unless `count` more queries may be made."""
        if self._request is None:
            raise JournalError(f"the journal {self._journal.path} {OTHER_VERSION}: it lacks queries")
        if self.stopped:
            raise CancelledError("the run has ended")
        if self._budget is not None and self._journal.count + count > self._budget:
            raise BudgetError(f"{self._journal.count} of the site's {self._budget} queries are spent")
