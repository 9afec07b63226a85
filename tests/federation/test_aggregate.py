"""From the clients' arrays to one: numbers by hand, SciPy's and NumPy's, and what a liar can do."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import trim_mean

from fzoos.federation.aggregate import AGGREGATES, aggregate


def parts(*values):
    return [{"x": np.atleast_1d(np.array(value, dtype=float))} for value in values]


def combined(how, values, weights=None):
    weights = np.ones(len(values)) if weights is None else np.array(weights)
    return aggregate(parts(*values), weights, how)["x"]


@pytest.mark.parametrize(
    ("how", "values", "weights", "expected"),
    [
        ("mean", [1, 2, 6], [1, 1, 1], 3.0),
        ("mean", [1, 2, 6], [2, 1, 1], 2.5),  # (2 + 2 + 6) / 4
        ("median", [5, 1, 3], [1, 1, 1], 3.0),
        ("median", [4, 1, 3, 2], [1, 1, 1, 1], 2.5),  # between 2 and 3
        ("median", [1, 2, 3], [0.6, 0.2, 0.2], 1.0),  # more than half of the weight is on 1
        ("median", [1, 2, 3], [0.5, 0.2, 0.3], 1.5),  # the half ends just between 1 and 2
        ("median", [9, 2, 3], [0.2, 0.2, 0.6], 3.0),
        ("median", [7], [0.3], 7.0),
        ("median", [7, 9], [1, 1], 8.0),
        ("trimmed", [1, 2, 1000], [1, 1, 1], 2.0),  # of three, one at either end
        ("trimmed", [4, 1, -1000, 2], [1, 1, 1, 3], 1.75),  # 1 and 2 stay, weights 1 and 3: (1 + 6) / 4
        ("trimmed", [1, 2, 3, 4, 100], [1, 1, 1, 1, 1], 3.0),  # (2 + 3 + 4) / 3
        ("trimmed", [7, 9], [1, 3], 8.5),  # of two nobody can be left out: the mean
        ("trimmed", [7], [1], 7.0),
        ("clipped", [1, 2, 3, 4], [1, 1, 1, 1], 2.5),  # median 2.5, distances 1.5, 0.5, 0.5, 1.5: all within 2 * 1
        ("clipped", [0, 0, 0, 9], [1, 1, 1, 1], 0.0),  # most are at one place: the radius is 0
        # median 1, distances 1, 0, 99, radius 2: 1 + (-1 + 0 + 2) / 3 = 4/3; distances 4/3, 1/3, 98 2/3, radius 8/3:
        # 4/3 + (-4/3 - 1/3 + 8/3) / 3 = 5/3; distances 5/3, 2/3, radius 10/3: 5/3 + (-5/3 - 2/3 + 10/3) / 3 = 2
        ("clipped", [0, 1, 100], [1, 1, 1], 2.0),
        ("clipped", [7, 9], [1, 3], 8.5),  # of two nobody is far from the rest: the mean
        ("clipped", [7], [1], 7.0),
    ],
)
def test_by_hand(how, values, weights, expected):
    """One coordinate each, derived in the table."""
    assert combined(how, values, weights) == pytest.approx([expected], abs=1e-14)


@pytest.mark.parametrize("count", [1, 2, 3, 9, 10, 30])
def test_against_scipy(count):
    """Equal weights: NumPy's median, SciPy's trimmed mean of a fifth (of at least one client from three on)."""
    values = np.random.default_rng(count).normal(size=(count, 4, 3))
    assert combined("median", values) == pytest.approx(np.median(values, axis=0), abs=1e-14)
    cut = 0 if count < 3 else max(1, count // 5)
    assert combined("trimmed", values) == pytest.approx(trim_mean(values, (cut + 1e-9) / count, axis=0), abs=1e-14)
    assert combined("mean", values) == pytest.approx(values.mean(axis=0), abs=1e-14)


@pytest.mark.parametrize("how", ["mean", "median", "trimmed"])
def test_coordinates_and_names_are_apart(how):
    """Each coordinate of each array is combined by itself, whatever the order of the clients."""
    rng = np.random.default_rng(0)
    given_parts = [{"x": rng.normal(size=3), "w": rng.normal(size=(2, 2))} for _ in range(5)]
    weights = rng.uniform(0.5, 1.0, 5)
    together = aggregate(given_parts, weights, how)
    assert list(together) == ["x", "w"]
    for name in ("x", "w"):
        for at in np.ndindex(given_parts[0][name].shape):
            alone = aggregate([{"v": part[name][at][None]} for part in given_parts], weights, how)["v"]
            assert together[name][at] == pytest.approx(alone[0], abs=1e-14)
    order = [3, 0, 4, 1, 2]
    assert aggregate([given_parts[i] for i in order], weights[order], how)["x"] == pytest.approx(together["x"])


@pytest.mark.parametrize("how", AGGREGATES)
@given(
    arrays(np.float64, (5, 2), elements=st.floats(-1e300, 1e300)),
    arrays(np.float64, 5, elements=st.floats(0.01, 100.0)),
)
def test_between_the_parts(how, values, weights):
    """Never beyond what the clients sent: x stays in the box though sums are rounded, and nothing overflows."""
    together = combined(how, values, weights)
    assert np.all(together >= values.min(axis=0))
    assert np.all(together <= values.max(axis=0))


@pytest.mark.parametrize("how", ["median", "trimmed"])
def test_one_liar_moves_nothing_out_of_the_others_range(how):
    """With three clients or more, whatever one says, the robust ones stay between what the others say."""
    for honest, lie in itertools.product((2, 3, 9), (1e308, -1e308, 0.0, 5e-324, 0.31)):
        truth = np.random.default_rng(honest).uniform(0.2, 0.4, (honest, 6))
        together = combined(how, np.insert(truth, 1, np.full(6, lie), axis=0))
        assert np.all(together >= truth.min(axis=0))
        assert np.all(together <= truth.max(axis=0))


def test_one_liar_moves_the_mean():
    """The plain mean has no such promise: that is why there are the others."""
    assert combined("mean", [[0.2], [0.3], [1e9]])[0] > 1e8


def test_a_fifth_of_liars():
    """Of ten, two that agree on a lie are cut off at either end: the mean of the middle six, by hand 0.45."""
    values = [-1e9, -1e9, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert combined("trimmed", values) == pytest.approx([0.45], abs=1e-14)  # (0.2 + ... + 0.7) / 6


# Centred clipping


def test_clipped_is_the_mean_where_nobody_is_far():
    """Bit for bit, as an honest study has it; arrays are apart, coordinates are not."""
    rng = np.random.default_rng(0)
    given_parts = [{"x": rng.normal(size=30), "w": rng.normal(size=(2, 20))} for _ in range(7)]
    weights = rng.uniform(0.5, 1.0, 7)
    clipped, mean = aggregate(given_parts, weights, "clipped"), aggregate(given_parts, weights, "mean")
    assert all(clipped[name].tobytes() == mean[name].tobytes() for name in ("x", "w"))
    far = [*given_parts[:6], {**given_parts[6], "w": np.full((2, 20), 1e9)}]
    again = aggregate(far, weights, "clipped")
    assert again["x"].tobytes() == mean["x"].tobytes()  # a lie in one array does not touch the others
    assert np.max(np.abs(again["w"])) < 3.0


@pytest.mark.parametrize("lie", [1e99, -1e9])
@pytest.mark.parametrize(("honest", "liars"), [(4, 1), (14, 6)])
def test_liars_move_a_clipped_mean_by_no_more_than_the_radius(lie, honest, liars):
    """However far away they are, and though they agree: v moves by omega_i tau for each liar and iteration, and tau
    grows by as much as v has moved. The bound is that recursion, worked out with the honest clients' own distances."""
    truth = np.random.default_rng(honest).normal(size=(honest, 50))
    values = np.concatenate([truth, np.full((liars, 50), lie)])
    together, mean = combined("clipped", values), truth.mean(axis=0)
    spread = max(np.linalg.norm(part - mean) for part in truth)
    middle = np.median(values, axis=0)
    away, share = np.linalg.norm(middle - mean), liars / (honest + liars)
    for _ in range(3):  # the honest part of a step brings v closer to their mean, the liars' takes it away
        away = away + share * 2.0 * (away + spread)
    assert np.linalg.norm(together - mean) <= away
    assert np.linalg.norm(combined("mean", values) - mean) > 10 * away


def test_opposite_signs_are_not_far():
    """What clipping does not help against, as docs/privacy.md says: a liar as long as the others, the other way round,
    takes a share of the mean like anybody else."""
    values = [[1.0, 0.0], [0.9, 0.1], [1.1, -0.1], [1.0, 0.1], [-1.0, 0.0]]
    assert combined("clipped", values)[0] > combined("mean", values)[0]
    assert combined("clipped", values)[0] < 0.99


def test_indicators_under_every_aggregate():
    """One yes of five decides under the mean alone; two of five where one may lie; of two sites one does always."""
    numbers = {"n": slice(-1, None)}

    def share(how, yes, of):
        arrays = [{"n": np.array([i, 5.0, float(i < yes)])} for i in range(of)]
        return aggregate(arrays, np.ones(of), how, numbers)["n"][-1]

    assert [share(how, 1, 5) > 0 for how in ("mean", "clipped", "trimmed", "median")] == [True, False, False, False]
    assert [share(how, 2, 5) > 0 for how in ("mean", "clipped", "trimmed", "median")] == [True, True, True, False]
    assert [share(how, 3, 5) > 0 for how in ("mean", "clipped", "trimmed", "median")] == [True] * 4
    assert all(share(how, 1, 2) == 0.5 for how in AGGREGATES)
    assert all(share(how, 0, 5) == 0.0 for how in AGGREGATES)


def test_indicators_change_nothing_else():
    """The other numbers of the array are clipped as they were."""
    arrays = [{"n": np.array([value, 1.0])} for value in (1.0, 2.0, 3.0, 900.0)]
    plain, voted = (aggregate(arrays, np.ones(4), "clipped", votes)["n"] for votes in ({}, {"n": slice(1, 2)}))
    assert plain[0] == voted[0] < 100.0
