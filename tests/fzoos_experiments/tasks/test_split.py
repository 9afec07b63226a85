"""The split by class: every class goes to P*K clients, every client gets P*K classes, samples divided evenly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos_experiments.tasks.split import assign_classes, classes_per_client, split_by_class

PORTIONS = st.floats(0.01, 1.0)


@pytest.mark.parametrize(
    ("classes", "portion", "expected"),
    [
        (10, 0.7, 7),
        (10, 0.5, 5),
        (10, 0.05, 1),
        (10, 0.04, 1),
        (10, 0.25, 3),
        (7, 0.3, 2),
        (7, 0.5, 4),
        (100, 0.145, 15),
    ],
)
def test_halves_are_rounded_up_and_nobody_gets_nothing(classes, portion, expected):
    # P*K: 7, 5, 0.5, 0.4, 2.5, 2.1, 3.5, 14.5
    assert classes_per_client(classes, portion) == expected


@given(k=st.integers(1, 12), portion=PORTIONS, seed=st.integers(0, 1000))
def test_as_many_clients_as_classes(k, portion, seed):
    table = assign_classes(k, k, portion, seed)
    each = max(1, math.floor(portion * k + 0.5))
    assert table.shape == (k, k)
    assert (table.sum(axis=1) == each).all()
    assert (table.sum(axis=0) == each).all()


def test_every_table_is_equally_likely():
    # K = N = 3 and c = 1: the 3! = 6 permutations, each with probability 1/6; 5 standard deviations of 1200 draws.
    seen = [tuple(assign_classes(3, 3, 0.3, seed).argmax(axis=1)) for seed in range(1200)]
    counts = [seen.count(table) for table in set(seen)]
    assert len(counts) == 6
    assert max(abs(c - 200) for c in counts) < 5 * math.sqrt(1200 * (1 / 6) * (5 / 6))


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    clients=st.integers(1, 8),
    portion=PORTIONS,
    seed=st.integers(0, 1000),
)
def test_samples_are_dealt_once_and_evenly(labels, clients, portion, seed):
    labels = np.array(labels)
    names = np.unique(labels)
    table = assign_classes(len(names), clients, portion, seed)
    shares = split_by_class(labels, clients, portion, seed)
    assert len(shares) == clients
    dealt = np.concatenate(shares)
    assert len(np.unique(dealt)) == len(dealt)  # disjoint
    held = table.any(axis=0)
    assert set(dealt) == set(np.flatnonzero(np.isin(labels, names[held])))  # nothing lost
    for k, name in enumerate(names):
        sizes = np.array([np.count_nonzero(labels[share] == name) for share in shares])
        assert not sizes[~table[:, k]].any()
        if held[k]:
            assert np.ptp(sizes[table[:, k]]) <= 1


def test_the_papers_split_by_hand():
    # Ten classes of 70 samples, P = 0.7: a class is shared by seven clients, 10 samples each; a client has seven.
    labels = np.repeat(np.arange(10), 70)
    for share in split_by_class(labels, 10, 0.7, seed=3):
        counts = np.bincount(labels[share], minlength=10)
        assert sorted(counts) == [0, 0, 0] + [10] * 7


@pytest.mark.parametrize("portion", [0.0, 1.1])
def test_portion_out_of_range(portion):
    with pytest.raises(ValueError, match=r"portion must be in \(0, 1\], got"):
        split_by_class(np.arange(10), 10, portion, seed=0)


@pytest.mark.parametrize(
    ("labels", "clients", "portion", "seed", "error", "message"),
    [
        ([], 2, 0.5, 0, ValueError, "labels must be a vector"),
        ([[1, 2]], 2, 0.5, 0, ValueError, "labels must be a vector"),
        ([1, 2], 0, 0.5, 0, ValueError, "clients must be at least 1"),
        ([1, 2], 2, math.nan, 0, ValueError, "portion must be a finite number"),
        ([1, 2], 2, "half", 0, TypeError, "portion must be a number"),
        ([1, 2], 2, 0.5, -1, ValueError, "seed must be at least 0"),
    ],
)
def test_bad_arguments_are_named(labels, clients, portion, seed, error, message):
    with pytest.raises(error, match=message):
        split_by_class(labels, clients, portion, seed)
