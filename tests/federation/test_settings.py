"""Algorithms and optimisers from plain tables."""

import dataclasses

import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    Adam,
    Auto,
    FedLineSearch,
    FedProx,
    FedTrustRegion,
    FedZO,
    FiniteDifferences,
    FZooS,
    Matern52,
    ScaffoldI,
    ScaffoldII,
    SquaredExponential,
)
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.correction_lengths import Constant, DistanceAware, Reciprocal
from fzoos.federation.settings import make_algorithm


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"name": "auto"}, Auto()),
        ({"name": "fedtrustregion", "projected": False}, FedTrustRegion(projected=False)),
        ({"name": "fedlinesearch"}, FedLineSearch()),
        ({"name": "fzoos"}, FZooS()),
        ({"name": "fzoos", "features": 7, "points": 9, "noise": 0.5}, FZooS(features=7, points=9, noise=0.5)),
        (
            {"name": "fzoos", "kernel": {"name": "SquaredExponential", "length_scale": 2.0}},
            FZooS(kernel=SquaredExponential(2.0)),
        ),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "length_scale": 2.0}}, FZooS(kernel=Matern52(2.0))),
        ({"name": "fzoos", "active": False, "refresh": False}, FZooS(active=None, refresh=None)),
        (
            {"name": "fzoos", "active": {"candidates": 9, "picks": 2, "radius": 0.1}},
            FZooS(active=ActiveQueries(9, 2, 0.1)),
        ),
        (
            {"name": "fzoos", "refresh": {"name": "ActiveQueries", "candidates": 9, "picks": 2}},
            FZooS(refresh=ActiveQueries(9, 2)),
        ),
        ({"name": "fzoos", "initial": 4}, FZooS(initial=4)),
        ({"name": "fzoos", "length": {"name": "Reciprocal"}}, FZooS(length=Reciprocal())),
        ({"name": "fzoos", "length": {"name": "Constant"}}, FZooS(length=Constant())),
        ({"name": "fzoos", "length": {}}, FZooS(length=Constant())),  # the first of several needs no name
        (
            {"name": "fzoos", "length": {"name": "DistanceAware", "heterogeneity": 2.0}},
            FZooS(length=DistanceAware(2.0)),
        ),
        ({"name": "fzoos", "vector": "fixed", "projected": False}, FZooS(vector="fixed", projected=False)),
        ({"name": "fedzo"}, FedZO()),
        (
            {"name": "fedzo", "differences": {"count": 3, "directions": "sphere"}},
            FedZO(differences=FiniteDifferences(3, directions="sphere")),
        ),
        ({"name": "fedprox", "gamma": 0.5}, FedProx(gamma=0.5)),
        ({"name": "scaffoldi"}, ScaffoldI()),
        ({"name": "scaffoldii", "projected": False}, ScaffoldII(projected=False)),
    ],
)
def test_algorithms(table, expected):
    """A table makes what the class makes."""
    assert make_algorithm(table) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"name": "adam"}, Adam()),
        ({"name": "adam", "learning_rate": 0.5, "restart": False}, Adam(0.5, restart=False)),
        ({"learning_rate": 0.5}, Adam(0.5)),  # the first of several needs no name
        ({"name": "sgd", "learning_rate": 1}, SGD(1)),
        ({"name": "SGD", "learning_rate": 1}, SGD(1)),
    ],
)
def test_optimizers(table, expected):
    """Optimisers are part of it, by their names in upper or lower case."""
    assert make_algorithm({"name": "fedzo", "optimizer": table}) == FedZO(optimizer=expected)


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
    ("setting", "table", "first"),
    [
        ("kernel", {}, SquaredExponential()),
        ("length", {}, Constant()),
        ("active", {"candidates": 9, "picks": 2, "radius": 0.1}, ActiveQueries(9, 2, 0.1)),
        ("refresh", {"candidates": 9, "picks": 2}, ActiveQueries(9, 2)),
    ],
)
def test_a_table_without_a_name_means_the_first_of_several(setting, table, first):
    assert getattr(make_algorithm({"name": "fzoos", setting: table}), setting) == first


def test_tables_are_not_used_up():
    """A table can be read again."""
    table = {"name": "fzoos", "features": 7, "kernel": {"name": "Matern52"}}
    copy = {"name": "fzoos", "features": 7, "kernel": {"name": "Matern52"}}
    make_algorithm(table)
    assert table == copy
    assert make_algorithm(table) == make_algorithm(copy)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({}, "algorithm: name must be one of .*, got None"),
        ({"name": "nelder-mead"}, "algorithm: name must be one of .*, got 'nelder-mead'"),
        ({"name": ["fzoos"]}, "algorithm: name must be one of"),
        ({"name": {}}, "algorithm: name must be one of"),
        ("fzoos", "algorithm must be a table with a name, got 'fzoos'"),
        (None, "algorithm must be a table with a name, got None"),
        (
            {"name": "fzoos", "widgets": 1},
            "algorithm: there is no setting 'widgets'; the settings are projected, local_steps, optimizer, kernel",
        ),
        ({"name": "fzoos", "label": "x"}, "algorithm: there is no setting 'label'"),
        ({"name": "fzoos", "features": "many"}, r"algorithm: features \(M\) must be an integer, got 'many'"),
        ({"name": "fzoos", "noise": -1}, "algorithm: noise"),
        ({"name": "fzoos", "vector": "both"}, "algorithm: vector must be 'adaptive' or 'fixed'"),
        (
            {"name": "fzoos", "kernel": "Matern52"},
            "algorithm.kernel must be a table, got 'Matern52'",
        ),
        ({"name": "fzoos", "kernel": False}, "algorithm.kernel must be a table, got False"),
        (
            {"name": "fzoos", "kernel": {"name": "Cubic"}},
            "algorithm.kernel: name must be one of SquaredExponential, Matern52",
        ),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "nu": 3}}, "algorithm.kernel: there is no setting 'nu'"),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "length_scale": 0}}, "algorithm.kernel: .*length"),
        ({"name": "fzoos", "active": {"picks": 3}}, "algorithm.active: candidates is missing"),
        ({"name": "fzoos", "active": {"candidates": 3, "picks": 4}}, "algorithm.active: picks must be at most"),
        ({"name": "fzoos", "active": True}, "algorithm.active must be a table, or false for none, got True"),
        ({"name": "fzoos", "projected": 1}, "algorithm.projected must be true or false, got 1"),
        ({"name": "fedtrustregion", "features": 9}, "algorithm: there is no setting 'features'; .* are projected$"),
        ({"name": "fzoos", "preset": "paper"}, "algorithm: there is no setting 'preset'"),
    ],
)
def test_bad_tables(table, reason):
    """What is wrong is named with its place."""
    with pytest.raises((ValueError, TypeError), match=reason) as caught:
        make_algorithm(table)
    assert "\n" not in str(caught.value)
