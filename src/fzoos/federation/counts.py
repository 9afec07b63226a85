"""How many queries clients have made, by what they say and by what they can have been asked.

A budget is kept on other people's word. So a client's count is bounded by the plan:

- since its last answer a client has not asked more than a round's queries for each attempt that may have been made;
- a count never falls, and an answered update has cost what the algorithm says that a round costs: a smaller count is a
  lie, or belongs to a journal that was lost or is older than the server's record of it.

Requests that came to nothing may have been paid for all the same. A client that says why it failed says its count, too;
of one that is silent it cannot be known until it answers again, and until then a round's queries are planned for each
attempt (`ServerState.unknown`).
"""

from __future__ import annotations

from collections.abc import Collection

from fzoos.algorithms.base import Algorithm
from fzoos.federation.server_state import ServerState
from fzoos.messages.codec import MessageError

__all__ = ["CountTooSmall", "QueryCounts"]


class CountTooSmall(MessageError):
    """A client counts fewer queries than it must have made."""


class QueryCounts:
    """Takes the counts that clients tell into a server's state.

    Args:
        algorithm: says what a round costs.
        dim: d, the number of variables.
        attempts: how often a request is sent at most.
        lost: clients whose journal may have been lost: they go on, and what they had paid is still counted.
        shares_values: whether f_i(x) is asked after each round: the next one may then cost a query less.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedZO
        >>> from fzoos.federation.counts import QueryCounts
        >>> from fzoos.federation.server_state import ServerState
        >>> state = ServerState({"x": np.zeros(3)}, np.random.default_rng(0), queries=[0])
        >>> counts = QueryCounts(FedZO(), dim=3)                           # 210 queries a round
        >>> counts.begin(state)
        >>> counts.answered(state, 0, 2**40, update=True)
        'claims 1099511627776 queries; at most 210 can have been made, and are counted'
        >>> state.queries
        [210]
    """

    def __init__(
        self,
        algorithm: Algorithm,
        dim: int,
        attempts: int = 1,
        lost: Collection[int] = (),
        shares_values: bool = False,
    ) -> None:
        self._spared = int(shares_values)
        self._algorithm, self._dim = algorithm, dim
        self._attempts, self._lost = attempts, frozenset(lost)

    def cost(self, *, first: bool, refreshed: bool) -> int:
        """Queries of a client in a round."""
        return self._algorithm.queries(self._dim, first=first, refreshed=refreshed)

    @property
    def most(self) -> int:
        """Queries of a client in the dearest kind of round."""
        refreshed = [False] if self._algorithm.exchanges == 1 else [False, True]
        return max(self.cost(first=first, refreshed=r) for first in (False, True) for r in refreshed)

    def begin(self, state: ServerState) -> None:
        """A round begins: what is paid from now on is paid in it."""
        state.before = list(state.queries)

    def answered(self, state: ServerState, client: int, claimed: int, *, update: bool) -> str | None:
        """Take the count of a good reply; what is to be said of it, if it is not what it can be.

        Raises:
            CountTooSmall: it is smaller than it can be; what must have been made is counted.
        """
        known, count = state.queries[client], state.offsets[client] + claimed
        most = known + state.unknown[client] + self._attempts * (self.most + state.constrained)
        least = self._least(state, client) if update else known
        if count < least:
            if client not in self._lost:
                state.queries[client] = least
                raise CountTooSmall(
                    f"it counts {count} queries and must have made {least}: its journal is lost, or older than the "
                    "server's record. Put the right one in its place; to go on without it, name the site in the "
                    "study's lost_journals"
                )
            planned = known + state.unknown[client] + self.most  # what it has paid since then is not known
            state.offsets[client] += planned - count
            count = planned
        state.queries[client], state.unknown[client] = min(count, most), 0
        if count > most:
            return f"claims {count} queries; at most {most} can have been made, and are counted"
        return None

    def _least(self, state: ServerState, client: int) -> int:
        """What a client has made for certain when it answers an update; whether it is its first it knows better."""
        if self._algorithm.steered:  # what it was asked depends on what was measured
            return state.queries[client]
        refreshed = client in (state.refreshed or ())
        cheapest = min(self.cost(first=first, refreshed=refreshed) for first in (False, True))
        return max(state.queries[client], state.before[client] + cheapest - self._spared)

    def failed(self, state: ServerState, client: int, told: int | None) -> None:
        """Take the count that came with a failure; without one, plan for what may have been paid."""
        known = state.queries[client]
        if told is None or state.offsets[client] + told < known:
            state.unknown[client] += self.most
            return
        most = known + state.unknown[client] + self._attempts * self.most
        state.queries[client], state.unknown[client] = min(state.offsets[client] + told, most), 0

    def allow_retry(self, state: ServerState, clients: Collection[int], max_queries: int | None) -> bool:
        """Whether the budget is enough for these clients to begin once more."""
        more = len(clients) * self.most
        return max_queries is None or sum(state.queries) + sum(state.unknown) + more <= max_queries
