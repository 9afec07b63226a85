"""SPEC "One loop, five algorithms": what every algorithm costs, in queries and in bytes, round by round.

Queries of one client: FD costs Q + 1, and T of them a round; ScaffoldI one more at x_{r-1} from round 2 on. FZooS
queries x_0 and the initial design once, each local iterate, `picks` points after each local step but the last, and
from round 2 on x_r itself and the refresh picks around it.

Bytes, 8 to a number. Down: x (d), the payload (d, or M), the shared seed (1, FZooS only). Up: x or the payload, the
client's count of queries (1) and, with x, its diagnostics (the mean correction length).
"""

import numpy as np
import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    Constant,
    FedCMA,
    FedZO,
    FiniteDifferences,
    FZooS,
    Measured,
    ScaffoldI,
    ScaffoldII,
    minimize,
)
from fzoos.testing.problem import with_steps

N, D, T, R = 3, 4, 3, 4
Q, M, POINTS, PICKS, REFRESH = 5, 16, 6, 2, 3
FD = FiniteDifferences(count=Q)


def fzoos(**changes):
    settings = {
        "features": M,
        "initial": POINTS,
        "active": ActiveQueries(7, PICKS, 0.05),
        "refresh": ActiveQueries(8, REFRESH),
        "length": Constant(),
    }
    return FZooS(**(settings | changes))


FIRST = [1 + POINTS]  # x_0 and the initial design, in one batch
STEPS = [1, PICKS] * (T - 1) + [1]  # an iterate, the active queries around it, ..., the last iterate


# name: (settings, sizes of the batches of one client in round 1, in later rounds,
#        numbers down in round 1, in later rounds, numbers up in round 1, in later rounds)
COSTS = {
    "fedzo": (FedZO(differences=FD), [Q + 1] * T, [Q + 1] * T, [D] * R, [D + 2] * R),
    # x, then c without x; up: c and a count, then x, a count and a length
    "scaffoldi": (
        ScaffoldI(differences=FD),
        [Q + 1] * T,
        [Q + 1] * (T + 1),
        [D] + [D + D] * (R - 1),
        [D + 2] + [(D + 1) + (D + 2)] * (R - 1),
    ),
    # x and s; up: x, s and a count: there is no correction
    "fedcma": (FedCMA(population=5), [5] * T, [5] * T, [D] + [D + D] * (R - 1), [D + D + 1] * R),
    # x and c; up: x, c, a count and a length
    "scaffoldii": (ScaffoldII(differences=FD), [Q + 1] * T, [Q + 1] * T, [D] + [D + D] * (R - 1), [D + D + 2] * R),
    "fzoos": (
        fzoos(),
        FIRST + STEPS,
        [1, REFRESH, *STEPS],
        [D + 1] + [(D + 1) + (M + 1)] * (R - 1),
        [D + 2] + [(M + 1) + (D + 2)] * (R - 1),
    ),
    "fzoos, one exchange": (
        fzoos(refresh=None),
        FIRST + STEPS,
        STEPS,
        [D + 1] + [D + M + 1] * (R - 1),
        [D + M + 2] * R,
    ),
    "fzoos, no additional queries": (
        fzoos(active=None, refresh=None),
        FIRST + [1] * T,
        [1] * T,
        [D + 1] + [D + M + 1] * (R - 1),
        [D + M + 2] * R,
    ),
    # one more number travels with w, and comes back
    "fzoos, measured length": (
        fzoos(length=Measured()),
        FIRST + STEPS,
        [1, REFRESH, *STEPS],
        [D + 1] + [(D + 1) + (M + 1 + 1)] * (R - 1),
        [D + 2] + [(M + 1 + 1) + (D + 2)] * (R - 1),
    ),
}


@pytest.fixture(params=COSTS, ids=list(COSTS))
def cost(request):
    return COSTS[request.param]


def value(i, x):
    return float(np.sum((x - 0.2 * (i + 1)) ** 2))


class Counting:
    """An objective that notes the size of every batch it is asked for, by round."""

    def __init__(self, i, vectorized):
        self._i, self._vectorized = i, vectorized
        self.batches = [[]]

    def __call__(self, x):
        if not self._vectorized:
            self.batches[-1].append(1)
            return value(self._i, x)
        self.batches[-1].append(len(x))
        return np.array([value(self._i, row) for row in x])


def run(algorithm, vectorized, local_steps=T, **changes):
    objectives = [Counting(i, vectorized) for i in range(N)]

    def next_round(record):
        for objective in objectives:
            objective.batches.append([])

    settings = {"rounds": R, "seed": 1} | changes
    result = minimize(
        objectives,
        np.full(D, 0.5),
        bounds=(0, 1),
        algorithm=with_steps(algorithm, local_steps, SGD(0.01)),
        vectorized=vectorized,
        callback=next_round,
        **settings,
    )
    return result, [objective.batches[:-1] for objective in objectives]


def test_queries(cost):
    """The count of every round is the formula's, and what the objectives really saw."""
    algorithm, first, later, *_ = cost
    result, seen = run(algorithm, vectorized=False)
    per_client = np.cumsum([sum(first)] + [sum(later)] * (R - 1))
    assert [record.queries for record in result.history] == list(N * per_client)
    assert result.queries == N * per_client[-1]
    assert result.queries_per_client == (per_client[-1],) * N
    for batches in seen:
        assert list(np.cumsum([sum(batch) for batch in batches])) == list(per_client)


def test_batches(cost):
    """A vectorised objective gets a finite difference, an initial design, and a set of picks in one call each."""
    algorithm, first, later, *_ = cost
    _, seen = run(algorithm, vectorized=True)
    for batches in seen:
        assert batches == [first] + [later] * (R - 1)


def test_bytes(cost):
    """Bytes of every round, both directions, are 8 times the numbers that SPEC's table says travel."""
    algorithm, _, _, down, up = cost
    result, _ = run(algorithm, vectorized=True)
    assert [record.bytes_down for record in result.history] == list(8 * N * np.cumsum(down))
    assert [record.bytes_up for record in result.history] == list(8 * N * np.cumsum(up))
    assert (result.bytes_down, result.bytes_up) == (8 * N * sum(down), 8 * N * sum(up))


def test_budget_is_exact(cost):
    """A budget of exactly R rounds is spent to the last query; with one less the last round is none, or is cut."""
    algorithm, first, later, *_ = cost
    total = N * (sum(first) + (R - 1) * sum(later))
    result, _ = run(algorithm, vectorized=True, max_queries=total)
    assert (result.status, result.rounds, result.queries) == ("completed", R, total)
    short, _ = run(algorithm, vectorized=True, max_queries=total - 1)
    assert short.status == "budget"
    assert short.queries < total
    whole = [record for record in short.history if not record.cut]
    assert (len(whole), whole[-1].queries) == (R - 1, total - N * sum(later))


@pytest.mark.parametrize("two", [True, False])
def test_newcomers(two):
    """With 1 of 3 clients a round: who begins in round 1, or without a refresh, queries x and the initial design; who
    joins later in a refresh makes the queries of the refresh, and knows enough from them."""
    result, seen = run(fzoos() if two else fzoos(refresh=None), vectorized=True, participation=1, rounds=12)
    met = set()
    for r in range(12):
        queried = [i for i in range(N) if seen[i][r]]
        assert len(queried) == 1
        i = queried[0]
        begins = FIRST if i not in met and (r == 0 or not two) else []
        assert seen[i][r] == begins + ([1, REFRESH] if two and r > 0 else []) + STEPS
        met.add(i)
    assert met == {0, 1, 2}
    assert result.queries_per_client == tuple(sum(map(sum, batches)) for batches in seen)
