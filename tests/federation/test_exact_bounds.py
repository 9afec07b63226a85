"""Budgets at the exact bound: what just fits is allowed, one more is not."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import FedZO, FiniteDifferences, minimize
from fzoos.federation.counts import QueryCounts
from fzoos.federation.server_state import ServerState
from fzoos.messages.message import Message

CHEAP = FedZO(local_steps=2, differences=FiniteDifferences(count=4))
ROUND = 2 * (4 + 1)  # queries of a client: T = 2, Q = 4


def state(**values):
    return ServerState({"x": np.zeros(3)}, np.random.default_rng(0), **values)


@pytest.mark.parametrize(("budget", "rounds"), [(4 * ROUND - 1, 1), (4 * ROUND, 2), (4 * ROUND + 1, 2)])
def test_queries_of_a_run(budget, rounds):
    """Two clients, hence 2 ROUND a round; of what is left a round is made that is cut."""
    result = minimize(
        [lambda x: float(x @ x)] * 2, np.ones(3), bounds=(-1, 1), algorithm=CHEAP, rounds=5,
        max_queries=budget,
    )  # fmt: skip
    whole = [record for record in result.history if not record.cut]
    assert (result.status, len(whole), whole[-1].queries) == ("budget", rounds, 2 * ROUND * rounds)
    assert result.queries <= budget


@pytest.mark.parametrize(("budget", "allowed"), [(30 + 5 + 2 * ROUND - 1, False), (30 + 5 + 2 * ROUND, True)])
def test_queries_of_a_second_try(budget, allowed):
    """30 are counted, 5 may have been made, and two clients begin once more."""
    counts = QueryCounts(CHEAP, CHEAP.server(3))
    request = Message("update", 1)
    assert counts.most(request) == ROUND
    assert counts.allow_retry(state(queries=[10, 20, 0], unknown=[0, 0, 5]), [request, request], budget) is allowed
