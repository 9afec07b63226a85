"""Algorithm 2: which points are queried, in which order and why, for N = 2, T = 3, R = 2, in every mode.

Derived from the paper. D_{r,t-1} holds one observation per local iterate (Sec. 4.1), so each x_{r,t}, t = 1, 2, 3, is
queried; between two local steps come the active queries, PICKS of them, around the new iterate; line 7 queries x_1 and,
REFRESH of them, around it. Before round 1 the trajectory is empty: x_0 and the initial design of POINTS points within
0.01 of it. There is no round 3, and so no refresh at x_2. In order, per client:

    with a refresh:  x_0, POINTS near x_0 | x_{1,1}, PICKS, x_{1,2}, PICKS, x_{1,3} |
                     x_1, REFRESH near x_1 | x_{2,1}, PICKS, x_{2,2}, PICKS, x_{2,3}
    without:         the same without the third group.

With SGD every iterate is x - eta g_hat, and the server's x_1 is the mean of both x_{1,3}.
"""

import numpy as np
import pytest
from spied_federation import PICKS, POINTS, REFRESH, X0, Federation, settings

from fzoos import FedZO, FZooS, Measured, minimize

MODES = {
    "both": {},
    "no active queries": {"active": None},
    "no refresh": {"refresh": None},
    "no additional queries": {"active": None, "refresh": None},
    "nearest points": {"points": 5, "feature_points": 7},
    "measured": {"length": Measured()},
}


def expected_purposes(algorithm):
    """What each query of a client is, in order, from the docstring above."""

    def steps(r):
        around = [f"around x_{r},t"] * PICKS if algorithm.active else []
        return [f"x_{r},1", *around, f"x_{r},2", *around, f"x_{r},3"]

    refresh = ["x_1"] + ["around x_1"] * REFRESH if algorithm.refresh else []
    return ["x_0"] + ["around x_0"] * POINTS + steps(1) + refresh + steps(2)


@pytest.mark.parametrize("changes", MODES.values(), ids=list(MODES))
def test_number_and_location(changes):
    algorithm = settings(**changes)
    federation = Federation(algorithm, clients=2).run(1)
    x_1 = federation.server.x.copy()
    federation.run(1)
    ends = []
    for i in range(2):
        x, _ = federation.data(i)
        purposes = expected_purposes(algorithm)
        assert len(x) == len(purposes)
        assert np.array_equal(x[0], X0)
        iterates = [k for k, purpose in enumerate(purposes) if purpose in ("x_1,1", "x_1,2", "x_1,3")]
        for k, purpose in enumerate(purposes):
            if purpose == "around x_0":
                assert np.max(np.abs(x[k] - X0)) <= 0.01
            elif purpose == "x_1":
                assert x[k] == pytest.approx(x_1, abs=1e-12)
            elif purpose == "around x_1":  # half the mean |x_r - x_i|
                assert np.max(np.abs(x[k] - x_1)) <= 0.5 * np.mean(np.abs(x_1 - x[iterates[-1]])) * (1 + 1e-9)
            elif purpose.startswith("around"):
                centre = max(j for j in range(k) if purposes[j].startswith(("x_1,", "x_2,")))
                assert 0 < np.max(np.abs(x[k] - x[centre])) <= algorithm.active.radius
        ends.append(x[iterates[-1]])
        assert len(np.unique(x, axis=0)) == len(x)
    assert np.mean(ends, axis=0) == pytest.approx(x_1, abs=1e-12)  # x_{1,T} is what the server averaged
    per_client = [1 + POINTS + 3 + 2 * PICKS, (1 + REFRESH) + 3 + 2 * PICKS]
    if algorithm.active is None:
        per_client = [n - 2 * PICKS for n in per_client]
    if algorithm.refresh is None:
        per_client[1] -= 1 + REFRESH
    assert [len(x) for x, _ in federation.queried] == [sum(per_client)] * 2


@pytest.mark.parametrize(
    ("algorithm", "later"),
    [(FZooS(features=50), 10 + 9 * 5 + 51), (FZooS(features=50, active=None, refresh=None), 10)],
    ids=["defaults", "no additional queries"],
)
def test_the_defaults(algorithm, later):
    """T + (T - 1) 5 + 51 = 106 queries per client and round from the second round on, or T = 10; and 11 before round 1.
    The authors' program makes 2 725 in five rounds with N = 5: 5 (10 + 5 * 107), as it queries x_r again at the start
    of a round, and neither x_0 before the initial design nor anything less in round 1."""
    first = 11 + (later if later == 10 else later - 51)
    result = minimize(
        [lambda x: float(x @ x)] * 2, np.full(3, 0.4), bounds=(-1, 1), algorithm=algorithm, rounds=3, seed=0
    )
    assert [record.queries for record in result.history] == [2 * first, 2 * (first + later), 2 * (first + 2 * later)]


def test_it_learns_from_the_iterates_alone():
    """The paper's headline: without any additional query it makes progress, since the iterates are observed. Each round
    costs FedZO 21 queries per step, and FZooS one."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.3, 0.7, (3, 20))
    clients = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in centres]

    def gap(algorithm):
        result = minimize(clients, np.full(20, 0.1), bounds=(0, 1), algorithm=algorithm, rounds=30, seed=0)
        return np.mean((result.x - centres.mean(axis=0)) ** 2), result.queries

    start = np.mean((0.1 - centres.mean(axis=0)) ** 2)
    learned, queries = gap(FZooS(features=2000, active=None, refresh=None))
    assert queries == 3 * (11 + 30 * 10)
    assert learned < 0.05 * start
    _, more = gap(FedZO())
    assert more == 3 * 30 * 10 * 21
