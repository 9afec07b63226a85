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
from fzoos.result import ValuePending

__all__ = ["OTHER_VERSION", "BudgetError", "SiteLedger"]

OTHER_VERSION = "was written by other settings or another version of the program"


class BudgetError(RuntimeError):
    """The site's budget does not allow the queries of a request."""


class SiteLedger:
    """The ledger of a site's evaluator: the queries of one request at a time, those in the journal first.

    Args:
        journal: the site's journal.
        on_failure: what failed values do.
        dim: d, the number of variables.

    Attributes:
        stopped: set from another thread when the run has ended: no further query is made.
    """

    def __init__(self, journal: Journal, on_failure: OnFailure, dim: int) -> None:
        self._journal, self._on_failure, self._dim = journal, on_failure, dim
        self._stored: deque[Query] = deque()
        self._request: int | None = None  # None: all of its queries are in the journal
        self._budget: int | None = None
        self.stopped = False

    @property
    def count(self) -> int:
        """The number of queries so far."""
        return self._journal.count

    def replay(self, request: int) -> None:
        """Begin a request that was answered before."""
        self._stored, self._request = deque(self._journal.queries(request)), None

    def open(self, request: int, budget: int | None) -> None:
        """Begin a request; some of its queries may be in the journal from before a crash."""
        self.replay(request)
        self._request, self._budget = request, budget

    def recall(self, count: int, round: int, step: int) -> tuple[FloatArray, FloatArray]:
        """The next queries in the journal, at most `count`; they must be of this round and step."""
        found = [self._stored.popleft() for _ in range(min(count, len(self._stored)))]
        if any((query.round, query.step) != (round, step) for query in found):
            raise JournalError(f"the journal {self._journal.path} {OTHER_VERSION}: it made queries in other steps")
        values = join_values([query.values for query in found]) if found else np.empty(0)
        return np.array([query.x for query in found]).reshape(len(found), self._dim), values

    def check_all_used(self) -> None:
        """Raise unless a replayed request has made all queries that the journal has of it."""
        if self._stored:
            raise JournalError(f"the journal {self._journal.path} {OTHER_VERSION}: it has more queries")

    def record(
        self, points: FloatArray, values: FloatArray, round: int, step: int, purpose: Purpose, more: bool = False
    ) -> None:
        """Store queries; those whose values end the run are made again with the request."""
        assert self._request is not None
        failed = self._on_failure == "raise" and not np.all(is_finite(values))
        error = "NaN or infinity, here or in its batch" if failed else None
        self._journal.record(self._request, points, values, round, step, purpose, error, more and not failed)

    def fail(self, points: FloatArray, error: Exception, round: int, step: int, purpose: Purpose) -> None:
        """Store queries without values, unless no query was made."""
        assert self._request is not None
        if not isinstance(error.__cause__, ValuePending):
            self._journal.record(self._request, points, None, round, step, purpose, error=str(error))

    def allow(self, count: int) -> None:
        """Raise unless `count` more queries may be made."""
        if self._request is None:
            raise JournalError(f"the journal {self._journal.path} {OTHER_VERSION}: it lacks queries")
        if self.stopped:
            raise CancelledError("the run has ended")
        if self._budget is not None and self._journal.count + count > self._budget:
            raise BudgetError(f"{self._journal.count} of the site's {self._budget} queries are spent")
