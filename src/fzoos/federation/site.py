"""A site of a study: a client, its journal and its objective. Bytes in, bytes out, and a crash loses no query.

After a restart the client is restored by replaying the journal: all of its requests are answered again, with the points
and values of the journal, and no query is made. Generator, trajectory and surrogates are then as before, because an
algorithm is deterministic. On the machine that wrote the journal all bits are the same. Another processor, or another
number of threads, rounds differently, and an algorithm that chooses among points may choose others. So points and
generator states are taken from the journal, and only the number of queries, their rounds and steps must fit.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_positive
from fzoos.federation.client import Client
from fzoos.federation.counts import cost_from
from fzoos.federation.journal import Journal, JournalError, Query, Request
from fzoos.federation.privacy import arrays_in_reply, sent
from fzoos.federation.snapshot import Snapshot, SnapshotFile
from fzoos.federation.study import Study
from fzoos.messages.codec import MessageError, decode, encode, encode_failure
from fzoos.messages.message import Message
from fzoos.objectives.box import Objective
from fzoos.objectives.evaluator import OnFailure
from fzoos.objectives.ledger import Purpose
from fzoos.objectives.prior import read_prior
from fzoos.objectives.values import is_finite, join_values
from fzoos.result import ObjectiveError, ValuePending

__all__ = ["BudgetError", "StudySite"]

_OTHER_VERSION = "was written by other settings or another version of the program"

log = logging.getLogger("fzoos")


class BudgetError(RuntimeError):
    """The site's budget does not allow the queries of a request."""


class StudySite:
    """A site of a study.

    Args:
        study: the study's settings.
        client: the site's index in `study.sites`.
        objective: the site's objective, (d,) -> float, or (n, d) -> (n,) if the study is vectorised.
        journal: path of the site's journal.
        max_queries: the site's own budget, in addition to the study's.
        max_epsilon: the site's own limit of epsilon, for studies with differential privacy: it refuses requests beyond
            it, whatever the server's account says.
        prior: old data of the site, as for `minimize`; it stays here, and must be the same after a restart.
        wait: seconds to wait for another process that uses the journal.
        snapshots: whether the client's state is stored beside the journal after every reply, so that a restart costs
            the same after 5 and after 500 replies: for engines that start a process for every message. A site with a
            prior has no snapshots, because its journal does not contain the old data either.
        site_seed: seed of the site's queries, to repeat a run: with the study's own seed at all sites, it is the run of
            `minimize`. Whoever knows it can compute the site's values from its replies. None: a secret one, which is
            drawn for a new journal and never leaves it.

    Example:
        >>> import numpy as np, tempfile
        >>> from pathlib import Path
        >>> from fzoos.messages.codec import decode, encode
        >>> from fzoos.messages.message import Message
        >>> from fzoos.federation.site import StudySite
        >>> from fzoos.federation.study import Study
        >>> study = Study("demo", x0=(0.0, 0.0), bounds=(-1.0, 1.0), sites=("a",), algorithm={"name": "fedzo"})
        >>> path = Path(tempfile.mkdtemp()) / "a.journal"
        >>> request = encode(Message("update", 1, {"x": np.array([0.5, 0.5])}), study.id)
        >>> with StudySite(study, 0, lambda x: float(x @ x), path) as site:
        ...     reply = site.answer(request)
        ...     reply == site.answer(request), site.queries        # from the journal the second time
        (True, 210)
    """

    def __init__(
        self,
        study: Study,
        client: int,
        objective: Objective,
        journal: str | Path,
        *,
        max_queries: int | None = None,
        max_epsilon: float | None = None,
        prior: Any = None,
        wait: float = 0.0,
        site_seed: int | None = None,
        snapshots: bool = False,
    ) -> None:
        self._study, self._index, self._objective = study, client, objective
        self._max_epsilon = _checked(max_epsilon, study)
        budgets = [n for n in (max_queries, study.max_queries_per_client) if n is not None]
        self._budget = min(budgets, default=None)
        if site_seed is not None:
            check_count("site_seed", site_seed)
        self._prior = read_prior(prior, study.box)
        has_snapshots = snapshots and not len(self._prior[1])
        self._snapshots = SnapshotFile(Path(journal), study.id, study.sites[client]) if has_snapshots else None
        self._last = self._snapshots.read() if self._snapshots is not None else None
        # For its own limit of epsilon the site counts its replies in all rows.
        since = None if self._last is None or self._last.is_long_ago or max_epsilon is not None else self._last.mark
        self._journal = Journal(journal, study.id, study.sites[client], wait, site_seed, since)
        self._read = self._journal.rows if self._last is None or self._journal.since is None else self._last.read
        self._lock = threading.Lock()
        self._client: Client | None = None  # None: to be restored
        self._ledger = _SiteLedger(self._journal, study.on_failure, study.dim)

    @property
    def queries(self) -> int:
        """The number of queries so far, in all processes."""
        return self._journal.count

    def answer(self, data: bytes) -> bytes:
        """The reply to a request, both as bytes; if there is none, the reason as bytes."""
        try:
            request = decode(data, self._study.id)
            self._study.check(request)
            return self._reply(data, request)
        except Exception as error:
            log.warning("site %s has no reply: %s", self._study.sites[self._index], error)
            with suppress(OSError):  # a full disk has been reported
                self._journal.flush()  # before the server learns the number of queries
            return encode_failure(_public(error), self._study.id, self.queries)

    def handle(self, request: Message) -> Message:
        """The reply as a message, for an engine in this process; raises if there is none."""
        self._study.check(request)
        return decode(self._reply(encode(request, self._study.id), request), self._study.id)

    def _reply(self, data: bytes, request: Message) -> bytes:
        with self._lock:
            known = self._journal.find(data)
            if known is not None and known.reply is not None:
                return known.reply
            self._check_budget(request, known)
            self._check_privacy(request)
            client = self._client or self._restore()
            self._client = None  # a request that fails leaves it in an intermediate state
            id = self._enter(data, client)
            self._ledger.open(id, self._budget)
            answer = client.handle(request)
            if self._study.privacy_settings is not None and "infeasible" in answer.scalars:
                raise ValueError("constraints exclude differential privacy: replies say whether x meets them")
            reply = encode(answer, self._study.id)
            self._journal.reply(id, reply, client.context.rng.bit_generator.state)
            self._client = client
            self._store_snapshot()
            return reply

    def _enter(self, data: bytes, client: Client) -> int:
        """Store a request; an earlier one without a reply is given up, but not its queries."""
        last = self._journal.last
        if last is None or last.replied:
            return self._journal.announce(data)
        if last.body == data:
            return last.id
        self._adopt(client, last)
        self._journal.reply(last.id, None, {})
        return self._journal.announce(data)

    def _restore(self) -> Client:
        """The client as it was after its last reply."""
        client, after = self._from_snapshot()
        for entry in self._journal.requests(after):
            if entry.reply is not None:
                self._ledger.replay(entry.id)
                client.answer(decode(entry.body, self._study.id))
                self._ledger.check_all_used()
                self._restore_generator(client, entry)
            elif entry.replied:
                self._adopt(client, entry)
        return client

    def _from_snapshot(self) -> tuple[Client, int]:
        """The client of the last snapshot, or a new one, and the id of its last request."""
        last, self._last = self._last, None
        client = self._new()
        if last is None or self._snapshots is None:
            return client, 0
        if not self._journal.has_been_at(last.mark):
            self._snapshots.ignore("it belongs to another journal")
            return client, 0
        try:
            client.restore(last.state)
        except Exception as error:  # of a file that anybody may have written
            self._snapshots.ignore(f"it does not fit the client ({type(error).__name__}: {error})")
            return self._new(), 0
        return client, last.mark["requests"][0]

    def _new(self) -> Client:
        """A client before its first request."""
        client = self._study.client(self._index, self._objective, self._ledger, self._journal.seed)
        if len(self._prior[1]):
            client.adopt(*self._prior)
        return client

    def _store_snapshot(self) -> None:
        """Write a snapshot; if that fails, the reply is in the journal all the same."""
        if self._snapshots is None or self._client is None:
            return
        try:
            self._snapshots.write(Snapshot(self._journal.mark, self._read, self._client.state()))
        except (OSError, ValueError, TypeError) as error:
            log.warning("site %s continues without a snapshot: %s", self._study.sites[self._index], error)

    def _restore_generator(self, client: Client, answered: Request) -> None:
        """Set the random generator to its state after this request."""
        try:
            client.context.rng.bit_generator.state = answered.generator
        except (TypeError, ValueError, KeyError):
            raise JournalError(f"the journal {self._journal.path} {_OTHER_VERSION}: it has another generator") from None

    def _adopt(self, client: Client, given_up: Request) -> None:
        """Add the queries of a request that has no reply to the trajectory."""
        queries = self._journal.queries(given_up.id)
        if queries:
            client.adopt(np.stack([query.x for query in queries]), join_values([query.values for query in queries]))

    def _check_budget(self, request: Message, known: Request | None) -> None:
        """Refuse a round that the budget does not allow before its first query."""
        if self._budget is None:
            return
        half = self._study.half
        if request.kind == "value" or request.kind in half.exchanges(request.round)[1:]:
            return  # decided at the round's first request
        first = self._journal.generator is None
        cost = cost_from(self._study.algorithm_settings, half, request, first=first) + self._study.share_values
        if known is not None and not known.replied:  # some were made before a crash
            cost -= len(self._journal.queries(known.id))
        if self.queries + cost > self._budget:
            raise BudgetError(
                f"round {request.round} needs {cost} queries; {self.queries} of the site's {self._budget} are spent"
            )

    def _check_privacy(self, request: Message) -> None:
        """Refuse a request whose reply would take epsilon beyond the site's limit; all replies so far count."""
        privacy = self._study.privacy_settings
        if self._max_epsilon is None or privacy is None:
            return
        study = self._study
        before = sent(self._journal, study)
        more = arrays_in_reply(study.half, request)
        epsilon = privacy.epsilon(before + more)
        if epsilon > self._max_epsilon:
            raise BudgetError(
                f"round {request.round} would take epsilon to {epsilon:.3g}; the site's own limit is "
                f"{self._max_epsilon:g}, of which {privacy.epsilon(before):.3g} is spent"
            )

    def stop(self) -> None:
        """Make no further query; a request under way ends at the next one (called from another thread)."""
        self._ledger.stopped = True

    def abort(self) -> None:
        """Stop, and end a program at once: it may never return."""
        self.stop()
        getattr(self._objective, "close", lambda: None)()

    def close(self) -> None:
        """End the objective, if it is a program, and close the journal."""
        getattr(self._objective, "close", lambda: None)()
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _checked(max_epsilon: float | None, study: Study) -> float | None:
    if max_epsilon is None:
        return None
    check_positive("max_epsilon", max_epsilon)
    if study.privacy_settings is None:
        raise ValueError("max_epsilon needs a study with privacy; this one has none")
    study.privacy_settings.epsilon(0)  # the accountant must be installed here, too
    return max_epsilon


def _public(error: Exception) -> str:
    """What the server may learn of an error: the objective's own words stay at the site."""
    if isinstance(error, (MessageError, BudgetError)):
        return str(error)
    if isinstance(error, JournalError):
        return "the site cannot use its journal; its own log says why"
    if isinstance(error, ObjectiveError):
        if isinstance(error.__cause__, ValuePending):
            return str(error.__cause__)
        return f"the objective failed in round {error.round}"
    return f"{type(error).__name__} at the site"


class _SiteLedger:
    """The journal as the ledger of the site's evaluator: the queries of one request at a time, stored ones first.

    A query is stored before its value is used, and is not made twice.
    """

    def __init__(self, journal: Journal, on_failure: OnFailure, dim: int) -> None:
        self._journal, self._on_failure, self._dim = journal, on_failure, dim
        self._stored: deque[Query] = deque()
        self._request: int | None = None  # None: all of its queries are in the journal
        self._budget: int | None = None
        self.stopped = False  # set from another thread when the run has ended

    @property
    def count(self) -> int:
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
            raise JournalError(f"the journal {self._journal.path} {_OTHER_VERSION}: it made queries in other steps")
        values = join_values([query.values for query in found]) if found else np.empty(0)
        return np.array([query.x for query in found]).reshape(len(found), self._dim), values

    def check_all_used(self) -> None:
        """Raise unless a replayed request has made all queries that the journal has of it."""
        if self._stored:
            raise JournalError(f"the journal {self._journal.path} {_OTHER_VERSION}: it has more queries")

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
            raise JournalError(f"the journal {self._journal.path} {_OTHER_VERSION}: it lacks queries")
        if self.stopped:
            raise CancelledError("the run has ended")
        if self._budget is not None and self._journal.count + count > self._budget:
            raise BudgetError(f"{self._journal.count} of the site's {self._budget} queries are spent")
