"""The last part of a budget: where less than a round is left, a part of one is made."""

from __future__ import annotations

import numpy as np
import pytest
from study_runs import bowls

from fzoos import Auto, FedLBFGS, FedTrustRegion, FedZO, minimize
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import common_rows, design_rows, design_size
from fzoos.testing.problem import with_steps

STEPS, CLIENTS = 6, 3
ALL = [with_steps(kind(), STEPS) for kind in ALGORITHMS.values()]
FEDZO = FedZO(local_steps=STEPS)


def run(algorithm, dim=4, objectives=None, **settings):
    settings = {"bounds": (-1, 1), "seed": 0} | settings
    return minimize(objectives or bowls(), np.zeros(dim), algorithm=algorithm, **settings)


@pytest.mark.parametrize(
    ("algorithm", "dim"), [*((algorithm, 4) for algorithm in ALL), (Auto(), 60)], ids=lambda value: str(value)[:12]
)
def test_a_budget_is_never_exceeded_and_used_where_that_is_possible(algorithm, dim):
    """Between one round and two: the second is cut, or the result says that it cannot be; what is counted was asked."""
    one, two = (run(algorithm, dim, rounds=rounds) for rounds in (1, 2))
    budget = two.queries - CLIENTS
    counts: list[float] = []
    result = run(algorithm, dim, bowls(counts), max_queries=budget)
    assert result.queries == len(counts) <= budget
    assert (result.status, result.success) == ("budget", True)
    assert result.history[0].queries == one.queries
    if isinstance(algorithm, FedLBFGS):
        assert result.rounds == 1
        assert f"no part of it can be made with the {budget - one.queries} that are left" in result.message
    else:
        assert [record.cut > 0 for record in result.history] == [False, True]
        assert result.queries > one.queries
        assert result.message == f"the last round was cut, so that the budget of {budget} is spent"
        assert not np.array_equal(result.x, one.x)


def test_a_cut_round_of_fedzo_is_one_of_fewer_local_steps():
    """The points of its k steps are those of the first k steps of a whole round, and so is x."""
    cost = CLIENTS * 21
    cut = run(FEDZO, max_queries=4 * cost + 20)
    assert (cut.queries, [record.cut for record in cut.history]) == (4 * cost, [4])
    assert np.array_equal(cut.x, run(FedZO(local_steps=4), rounds=1).x)


def test_a_trust_region_is_cut_to_the_value_at_x():
    """3 (1 + 4) queries in the first round, then 3 x 2: with four left, every client asks x alone, and x moves on."""
    result = run(FedTrustRegion(), max_queries=15 + 6 + 4)
    assert [record.queries for record in result.history] == [15, 21, 24]
    assert result.history[-1].cut == 1
    assert result.history[-1].step > 0.0


def test_a_first_round_is_cut_to_half_of_the_directions_at_least():
    result = run(FedTrustRegion(), dim=10, max_queries=CLIENTS * 8)
    assert (result.rounds, result.queries) == (1, CLIENTS * 8)  # x and 7 directions
    result = run(FedTrustRegion(), dim=10, max_queries=CLIENTS * 6 - 1)  # x and 5 would be 18
    assert (result.rounds, result.queries) == (0, 0)
    assert result.message.startswith("no round was run, x is x0: the first round needs 33 queries")


@pytest.mark.parametrize("cut", [2, 17, 40])
@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.SPLIT])
def test_a_cut_star_has_fewer_directions(mode, cut):
    """The first of those that it has otherwise, and as many as are planned."""
    whole = Control(7, mode, 0.1, client_index=1, participants=3)
    part = Control(7, mode, 0.1, client_index=1, participants=3, cut=cut)
    rows, fewer = (design_rows(control, 100)[0] for control in (whole, part))
    assert len(fewer) == design_size(part, 100) == min(len(rows), cut - 1)
    common = common_rows(part, 100)
    assert np.array_equal(common, common_rows(whole, 100)[: len(common)])
    assert np.array_equal(fewer, rows[: len(fewer)])
