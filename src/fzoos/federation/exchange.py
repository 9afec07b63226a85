"""The one thing an engine does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fzoos.messages.message import Message

__all__ = ["Engine", "Outcome", "Undelivered"]


class Undelivered(ConnectionError):
    """A request never reached its client: nothing was asked for it."""


@dataclass(frozen=True)
class Outcome:
    """What came back of an exchange: for each client that was asked, a reply or the reason why there is none.

    Args:
        replies: by client.
        failures: by client; the bytes in which a site says why it has no answer are a `RemoteFailure`.
        counts: queries so far of clients that failed, where the engine itself knows them.
    """

    replies: dict[int, Message] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)


class Engine(Protocol):
    """Carries requests to clients and brings their replies back."""

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        """Send each client, by index, its request; the replies and failures that came within `timeout` seconds.

        What a client does, or does not do, never raises here.
        """
        ...
