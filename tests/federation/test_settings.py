"""Algorithms and optimisers from plain tables."""

import dataclasses

import pytest

from fzoos import SGD, ActiveQueries, FedTrustRegion, FedZO, FiniteDifferences, FZooS, Matern52
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.correction_lengths import Constant, DistanceAware
from fzoos.federation.study import make_algorithm


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"name": "fedtrustregion", "projected": False}, FedTrustRegion(projected=False)),
        ({"name": "fzoos", "features": 7, "points": 9, "noise": 0.5}, FZooS(features=7, points=9, noise=0.5)),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "length_scale": 2.0}}, FZooS(kernel=Matern52(2.0))),
        ({"name": "fedzo", "optimizer": {"name": "SGD", "learning_rate": 1}}, FedZO(optimizer=SGD(1))),
        ({"name": "fzoos", "active": False, "refresh": False}, FZooS(active=None, refresh=None)),
        (
            {"name": "fzoos", "active": {"candidates": 9, "picks": 2, "radius": 0.1}},
            FZooS(active=ActiveQueries(9, 2, 0.1)),
        ),
        (
            {"name": "fzoos", "refresh": {"name": "ActiveQueries", "candidates": 9, "picks": 2}},
            FZooS(refresh=ActiveQueries(9, 2)),
        ),
        ({"name": "fzoos", "length": {}}, FZooS(length=Constant())),  # the first of several needs no name
        (
            {"name": "fzoos", "length": {"name": "DistanceAware", "heterogeneity": 2.0}},
            FZooS(length=DistanceAware(2.0)),
        ),
        ({"name": "fzoos", "vector": "fixed", "projected": False}, FZooS(vector="fixed", projected=False)),
        (
            {"name": "fedzo", "differences": {"count": 3, "directions": "sphere"}},
            FedZO(differences=FiniteDifferences(3, directions="sphere")),
        ),
    ],
)
def test_algorithms(table, expected):
    """A table makes what the class makes."""
    assert make_algorithm(table) == expected


@pytest.mark.parametrize("cls", ALGORITHMS.values(), ids=ALGORITHMS)
def test_every_algorithm_and_setting_can_be_reached(cls):
    """Each algorithm by its name, and each record of its settings by a table: nothing can be set in Python only."""
    assert make_algorithm({"name": cls.name}) == cls()
    assert make_algorithm({"name": cls.name, **table_of(cls())}) == cls()


def table_of(record):
    """The table that a record would be in a study's file."""
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {name: entry_of(value) for name, value in values.items()}


def entry_of(value):
    if dataclasses.is_dataclass(value):
        return {"name": type(value).__name__, **table_of(value)}
    return False if value is None else value


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({}, "algorithm: name must be one of .*, got None"),
        ({"name": "nelder-mead"}, "algorithm: name must be one of .*, got 'nelder-mead'"),
        ("fzoos", "algorithm must be a table with a name, got 'fzoos'"),
        (
            {"name": "fzoos", "widgets": 1},
            "algorithm: there is no setting 'widgets'; the settings are projected, local_steps, optimizer, kernel",
        ),
        ({"name": "fzoos", "features": "many"}, r"algorithm: features \(M\) must be an integer, got 'many'"),
        ({"name": "fzoos", "kernel": "Matern52"}, "algorithm.kernel must be a table, got 'Matern52'"),
        (
            {"name": "fzoos", "kernel": {"name": "Cubic"}},
            "algorithm.kernel: name must be one of SquaredExponential, Matern52",
        ),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "nu": 3}}, "algorithm.kernel: there is no setting 'nu'"),
        ({"name": "fzoos", "active": {"picks": 3}}, "algorithm.active: candidates is missing"),
        ({"name": "fzoos", "active": {"candidates": 3, "picks": 4}}, "algorithm.active: picks must be at most"),
        ({"name": "fzoos", "active": True}, "algorithm.active must be a table, or false for none, got True"),
        ({"name": "fzoos", "projected": 1}, "algorithm.projected must be true or false, got 1"),
        ({"name": "fedtrustregion", "features": 9}, "algorithm: there is no setting 'features'; .* are projected$"),
    ],
)
def test_bad_tables(table, reason):
    """What is wrong is named with its place."""
    with pytest.raises((ValueError, TypeError), match=reason) as caught:
        make_algorithm(table)
    assert "\n" not in str(caught.value)
