"""What the server and an engine agree on: requests out, replies or failures back, and when an exchange is over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from fzoos.messages.message import Message

__all__ = ["AsynchronousEngine", "Dropouts", "Engine", "Gathering", "Outcome", "TooFewClients", "Undelivered"]

_GRACE = 0.25  # of the time that enough answers have taken


class Undelivered(ConnectionError):
    """A request never reached its client: it cost nothing."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an exchange: for each client that got a request, a reply or the reason why there is none."""

    replies: dict[int, Message] = field(default_factory=dict)
    # The bytes in which a site says why it has no reply are a `RemoteFailure`.
    failures: dict[int, Exception] = field(default_factory=dict)
    # Queries so far of clients that failed, where the engine itself knows them.
    counts: dict[int, int] = field(default_factory=dict)


class TooFewClients(RuntimeError):
    """Fewer clients replied than a round needs; `failures` says why the others did not."""

    def __init__(self, kind: str, round: int, answered: int, needed: int, failures: Mapping[int, Exception]) -> None:
        reasons = "; ".join(f"client {i}: {error}" for i, error in sorted(failures.items()))
        super().__init__(f"round {round}: {answered} of {needed} clients answered the {kind} request ({reasons})")
        self.failures = dict(failures)


@dataclass(frozen=True)
class Dropouts:
    """What is done about clients that do not answer."""

    min_clients: int  # an exchange counts if at least this number replies
    timeout: float | None = None  # seconds that an exchange is waited for; None: without limit
    # How often an exchange with too few replies is repeated; clients that have replied repeat their stored replies.
    retries: int = 2
    max_queries: int | None = None  # of all clients together: within it, an exchange may be repeated
    lost: Collection[int] = ()  # clients whose journal may have been lost: their counts may fall


class Engine(Protocol):
    """Carries requests to clients and brings their replies back."""

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        """Send each client, by index, its request; the replies and failures that came within `timeout` seconds.

        What a client does, or does not do, never raises here.
        """
        ...


@runtime_checkable
class AsynchronousEngine(Engine, Protocol):
    """An engine whose requests may outlast the exchange in which they were sent."""

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        """Send requests to clients of which none has another one under way, and wait for `enough` replies.

        Replies to earlier requests count like those to these; `Gathering` says when it is over. What has not come stays
        under way, for `timeout` seconds from when it was sent.
        """
        ...


class Gathering:
    """When an engine has waited long enough for answers of which some may stay out.

    It is over when enough have come and those of this exchange's own requests that are about to come have had a little
    longer: clients that are as fast as each other would otherwise take turns in being left out. It is over, too, when
    so much has failed that there cannot be enough.

    Args:
        awaited: clients that are sent a request in this exchange.
        enough: how many replies are enough.
        clock: seconds since any moment.

    Example:
        >>> from fzoos.federation.exchange import Gathering, Outcome
        >>> now = 0.0
        >>> gathering, replies = Gathering([0, 1, 2], enough=2, clock=lambda: now), {0: ..., 1: ...}
        >>> gathering.left(Outcome(), under_way=[0, 1, 2, 3])                           # for as long as it takes
        inf
        >>> now = 8.0
        >>> gathering.left(Outcome(replies), under_way=[2, 3]), gathering.left(Outcome(replies), under_way=[3])
        (2.0, 0.0)
    """

    def __init__(self, awaited: Collection[int], enough: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._awaited, self._enough, self._clock = frozenset(awaited), enough, clock
        self._start, self._end = clock(), math.inf

    def left(self, outcome: Outcome, under_way: Collection[int]) -> float:
        """Seconds that are still waited for one more answer; 0: it is over."""
        came = len(outcome.replies)
        if came + len(under_way) < self._enough or not under_way:
            return 0.0
        if came < self._enough:
            return math.inf
        if self._awaited.isdisjoint(under_way):
            return 0.0
        now = self._clock()
        self._end = min(self._end, now + _GRACE * (now - self._start))
        return max(self._end - now, 0.0)
