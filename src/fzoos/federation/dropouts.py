"""What is done about clients that do not answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

__all__ = ["Dropouts", "TooFewClients"]


class TooFewClients(RuntimeError):
    """Fewer clients answered than a round needs; `failures` says why the others did not."""

    def __init__(self, kind: str, round: int, answered: int, needed: int, failures: Mapping[int, Exception]) -> None:
        reasons = "; ".join(f"client {i}: {error}" for i, error in sorted(failures.items()))
        super().__init__(f"round {round}: {answered} of {needed} clients answered the {kind} request ({reasons})")
        self.failures = dict(failures)


@dataclass(frozen=True)
class Dropouts:
    """What is done about clients that do not answer.

    Args:
        min_clients: an exchange counts if so many answer.
        timeout: seconds that an exchange is waited for; None: for ever.
        retries: how often an exchange with too few answers is tried again; who has answered answers from memory.
        max_queries: it is tried again only while all clients together can stay within this number.
        lost: clients whose journal may have been lost: their counts may fall.
    """

    min_clients: int
    timeout: float | None = None
    retries: int = 2
    max_queries: int | None = None
    lost: Collection[int] = ()
