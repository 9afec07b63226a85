"""How many queries clients have made, by what they report and by what they can have been sent.

A budget relies on counts that clients report. So a client's count is bounded by the requests that it got:

- since its last reply a client has not made more queries than this request costs, once, and those requests before it
  that failed without a count;
- a count never falls, and a request that was answered has cost what the algorithm says: a smaller count is a lie, or
  belongs to a journal that was lost or is older than the server's record of it.

Requests without a reply may have cost queries all the same. A client that reports why it failed reports its count,
too. If it is silent, the count is not known until the next reply, and until then the rest of a round is planned for
each attempt (`ServerState.unknown`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fzoos.algorithms.base import Algorithm, ServerHalf
from fzoos.federation.server_state import ServerState
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message

__all__ = ["CountTooSmall", "QueryCounts", "cost_from"]


class CountTooSmall(MessageError):
    """A client reports fewer queries than it must have made."""


def cost_from(algorithm: Algorithm, half: ServerHalf, request: Message, *, first: bool) -> int:
    """Return the queries of a client in the rest of a round, from this request on."""
    if request.kind == "value":
        return 1
    cost = algorithm.cost(half.dim, request, first=first)
    kinds = half.exchanges(request.round)
    for kind in kinds[kinds.index(request.kind) + 1 :]:
        cost += algorithm.cost(half.dim, Message(kind, request.round, {}, request.scalars), first=False)
    return cost


@dataclass
class QueryCounts:
    """Takes the counts that clients report into a server's state."""

    algorithm: Algorithm  # says what a request costs
    half: ServerHalf
    lost: Collection[int] = ()  # clients whose journal may be lost: they continue, and earlier queries still count
    shares_values: bool = False  # whether f_i(x) is queried after each round: the next one may then cost a query less

    def __post_init__(self) -> None:
        self._before: list[int] = []

    def cost(self, request: Message, *, first: bool) -> int:
        """Return the queries of a client in the rest of a round, from this request on."""
        return cost_from(self.algorithm, self.half, request, first=first)

    def most(self, request: Message) -> int:
        """Return the same whether it is the client's first request or not, at most."""
        return max(self.cost(request, first=first) for first in (False, True))

    def begin(self, state: ServerState) -> None:
        """Begin an exchange: its requests may cost queries from now on."""
        self._before = list(state.queries)

    def answered(self, state: ServerState, client: int, request: Message, claimed: int) -> str | None:
        """Take the count of a good reply; return what is wrong with it, if anything is.

        Raises:
            CountTooSmall: it is smaller than it can be; what must have been made is counted.
        """
        known, count = state.queries[client], state.offsets[client] + claimed
        costs = self._costs(state, client, request)
        most = known + state.unknown[client] + max(costs) + state.constrained
        least = max(known, self._before[client] + min(costs) - self.shares_values * (request.kind != "value"))
        if count < least:
            if client not in self.lost:
                state.queries[client] = least
                raise CountTooSmall(
                    f"it counts {count} queries and must have made {least}: its journal is lost, or older than the "
                    "server's record. Put the right one in its place; to continue without it, name the site in the "
                    "study's lost_journals"
                )
            state.offsets[client] += most - count  # its queries since then are not known
            count = most
        state.queries[client], state.unknown[client] = min(count, most), 0
        if count > most:
            return f"claims {count} queries; at most {most} can have been made, and are counted"
        return None

    def _costs(self, state: ServerState, client: int, request: Message) -> list[int]:
        """Return what a reply to this request alone may have cost."""
        if request.kind == "value":
            return [0, 1]
        known = client in state.joined and client not in self.lost
        firsts = (False,) if known else (False, True)
        return [self.algorithm.cost(self.half.dim, request, first=first) for first in firsts]

    def failed(self, state: ServerState, client: int, request: Message, reported: int | None) -> None:
        """Take the count that came with a failure; without one, plan for the queries that it may have made."""
        known = state.queries[client]
        if reported is None or state.offsets[client] + reported < known:
            state.unknown[client] += self.most(request)
            return
        most = known + state.unknown[client] + max(self._costs(state, client, request)) + state.constrained
        state.queries[client], state.unknown[client] = min(state.offsets[client] + reported, most), 0

    def allow_retry(self, state: ServerState, requests: Collection[Message], max_queries: int | None) -> bool:
        """Return whether the budget is enough for these requests to be sent again."""
        more = sum(self.most(request) for request in requests)
        return max_queries is None or sum(state.queries) + sum(state.unknown) + more <= max_queries
