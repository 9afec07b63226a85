"""The default: which algorithm it chooses, where whole runs end, and what failed, wrong and scaled values do."""

import math
from functools import cache

import numpy as np
import pytest

from fzoos import Auto, FedLineSearch, FedTrustRegion, minimize
from fzoos.runs.reader import runs_at
from fzoos.testing.quick import queries_of_a_round


def bowls(dim, seed=0, apart=0.2):
    """Two clients' centres and Hessians' diagonals, which differ."""
    rng = np.random.default_rng(seed)
    return apart * rng.standard_normal((2, dim)), rng.uniform(1.0, 3.0, (2, dim))


def sites(centres, curvatures):
    return [lambda x, c=c, a=a: float(a @ (x - c) ** 2) for c, a in zip(centres, curvatures, strict=True)]


def minimum(centres, curvatures):
    """Of the mean."""
    return np.sum(curvatures * centres, axis=0) / np.sum(curvatures, axis=0)


@pytest.mark.parametrize("projected", [True, False])
def test_the_choice(projected):
    """The trust region up to 50 dimensions, the line search beyond; what clients and budgets see is the choice's."""
    for dim in (1, 50, 51, 2000):
        chosen = (FedTrustRegion if dim <= 50 else FedLineSearch)(projected)
        assert Auto(projected).at(dim) == chosen
        assert chosen.at(dim) is chosen
        for first in (True, False):
            costs = [queries_of_a_round(a, dim, 1, first=first) for a in (Auto(projected), chosen)]
            assert costs[0] == costs[1]


@pytest.mark.parametrize(("dim", "kind"), [(3, FedTrustRegion), (60, FedLineSearch)])
def test_what_ran_is_named(tmp_path, dim, kind):
    """A run of the default is bit for bit one of the algorithm that it chose, and is stored under its name."""
    runs = [
        minimize(sites(*bowls(dim)), np.full(dim, 0.6), bounds=(-1, 1), rounds=3, seed=0, **more)
        for more in ({}, {"algorithm": Auto()}, {"algorithm": kind(), "store": tmp_path / "runs.db"})
    ]
    minimize(sites(*bowls(dim)), np.full(dim, 0.6), bounds=(-1, 1), rounds=3, seed=0, store=tmp_path / "default.db")
    assert len({(run.x.tobytes(), run.queries) for run in runs}) == 1
    names = [summary.name for file in ("runs.db", "default.db") for summary in runs_at(tmp_path / file)]
    assert names == [kind.__name__] * 2


def test_the_minimum_of_the_mean():
    """Clients whose curvatures differ: the run converges to the minimum of F, which is not the mean of their minima."""
    centres, curvatures = bowls(2, 1)
    result = minimize(sites(centres, curvatures), np.full(2, 0.6), bounds=(-1, 1), algorithm=Auto(), seed=1)
    assert result.status == "converged"
    assert result.x == pytest.approx(minimum(centres, curvatures), abs=1e-5)
    assert np.max(np.abs(centres.mean(axis=0) - result.x)) > 1e-3


# Outliers

START = np.full(10, 0.6)


def rounds_with(seed, wrong):
    """Until F is a thousandth of what it was; (client, number of the query) of values that are off by 1000."""
    centres, curvatures = bowls(10, seed)
    least = minimum(centres, curvatures)
    counts = [0, 0]

    def spoilt(i, f):
        def g(x):
            counts[i] += 1
            return f(x) + 1e3 * ((i, counts[i]) in wrong)

        return g

    def gap(x):
        return float(np.mean(curvatures @ (x - least) ** 2))

    result = minimize(
        [spoilt(i, f) for i, f in enumerate(sites(centres, curvatures))],
        START,
        bounds=(-1, 1),
        algorithm=Auto(),
        rounds=60,
        seed=seed,
        monitor=gap,
        callback=lambda record: record.monitor < 1e-3 * gap(START),
    )
    return result.rounds


@cache
def clean(seed):
    return rounds_with(seed, ())


@pytest.mark.parametrize("seed", [0])
@pytest.mark.parametrize(
    "wrong",
    [{(0, 7), (1, 20)}, {(1, 14), (0, 12)}, {(1, 1), (0, 15)}],
    ids=("in the star and aside", "at centres", "at the start"),
)
def test_outliers(wrong, seed):
    """Two values in about seventy, wherever they are: no more than twice the rounds."""
    assert rounds_with(seed, wrong) <= 2 * clean(seed)


# Failures


@pytest.mark.parametrize(("failing", "seed"), [((0,), 0), ((0, 1), 1)], ids=("one", "both"))
def test_a_region_without_values(failing, seed):
    """The minimum is where clients have no value, x_1 > 0.3: the result is a place at which both have one, close to the
    border, and the run ends as any other."""
    centres = np.array([[0.55, 0.0, 0.2], [0.65, 0.1, -0.2]])

    def limited(f, i):
        return lambda x: math.nan if i in failing and x[0] > 0.3 else f(x)

    plain = sites(centres, np.ones((2, 3)))
    result = minimize(
        [limited(f, i) for i, f in enumerate(plain)],
        np.full(3, -0.5),
        bounds=(-1, 1),
        algorithm=Auto(),
        rounds=14,
        seed=seed,
        on_failure="skip",
    )
    assert result.status in ("completed", "converged")
    assert result.x[0] <= 0.3
    assert sum(f(result.x) for f in plain) < sum(f(np.array([0.2, 0.25, 0.2])) for f in plain)


# Units


def path(dim, scale, shift=0.0, rounds=4):
    centres, curvatures = bowls(dim, 1)
    found = []
    minimize(
        [lambda x, f=f: scale * (f(x) + np.sin(3 * x[0])) + shift for f in sites(centres, curvatures)],
        np.full(dim, 0.5),
        bounds=(-1, 1),
        algorithm=Auto(),
        rounds=rounds,
        seed=0,
        monitor=lambda x: found.append(x) or 0.0,
    )
    return np.array(found)


@pytest.mark.parametrize("dim", [5, 104])
def test_the_unit_of_the_values(dim):
    """Values times 1e-9 and 1e9 give the same path; times a power of two, which rounds nothing, bit for bit."""
    plain = path(dim, 1.0)
    assert len({x.tobytes() for x in plain}) == len(plain)
    for power in (-30, 30):
        assert np.array_equal(path(dim, 2.0**power), plain)
    for scale in (1e-9, 1e9):
        np.testing.assert_allclose(path(dim, scale), plain, atol=1e-5)


# Many dimensions
