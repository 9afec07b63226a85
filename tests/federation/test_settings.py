"""Algorithms and optimisers from plain tables."""

import dataclasses

import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    Adam,
    FedProx,
    FedZO,
    FiniteDifferences,
    FitLengthScale,
    FixedFZooS,
    FZooS,
    InitialDesign,
    KnownNoise,
    Matern52,
    ScaffoldI,
    ScaffoldII,
    SquaredExponential,
    TrustRegion,
    UnseenDirections,
)
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.fixed_fzoos.correction_lengths import Constant, DistanceAware, Reciprocal
from fzoos.federation.settings import make_algorithm, make_optimizer


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"name": "fzoos"}, FZooS()),
        ({"name": "fzoos", "features": 7, "points": 9, "noise": 0.5}, FixedFZooS(features=7, points=9, noise=0.5)),
        ({"name": "fzoos", "preset": "paper"}, FZooS.paper()),
        ({"name": "fzoos", "preset": "paper", "features": 7}, FZooS.paper(features=7)),
        (
            {"name": "fzoos", "kernel": {"name": "SquaredExponential", "length_scale": 2.0}},
            FixedFZooS(kernel=SquaredExponential(2.0)),
        ),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "length_scale": 2.0}}, FixedFZooS(kernel=Matern52(2.0))),
        (
            {
                "name": "fzoos",
                "active": False,
                "refresh": False,
                "refresh_first_round": False,
                "sends": "weights",
                "steps": False,
            },
            FixedFZooS(active=None, refresh=None, refresh_first_round=False, sends="weights", steps=None),
        ),
        ({"name": "fzoos", "refresh": {"name": "UnseenDirections"}}, FixedFZooS(refresh=UnseenDirections())),
        (
            {"name": "fzoos", "steps": {"tolerance": 0.5}, "sends": "weights", "orthogonal": True},
            FixedFZooS(steps=TrustRegion(0.5), sends="weights", orthogonal=True),
        ),
        (
            {"name": "fzoos", "active": {"candidates": 9, "picks": 2, "radius": 0.1}},
            FixedFZooS(active=ActiveQueries(9, 2, 0.1)),
        ),
        (
            {"name": "fzoos", "refresh": {"name": "ActiveQueries", "candidates": 9, "picks": 2}},
            FixedFZooS(refresh=ActiveQueries(9, 2)),
        ),
        ({"name": "fzoos", "initial": {"points": 4}}, FixedFZooS(initial=InitialDesign(4))),
        ({"name": "fzoos", "fit": {}}, FixedFZooS(fit=FitLengthScale())),
        ({"name": "fzoos", "fit": {"low": 0.5}}, FixedFZooS(fit=FitLengthScale(low=0.5))),
        ({"name": "fzoos", "length": {"name": "Reciprocal"}}, FixedFZooS(length=Reciprocal())),
        ({"name": "fzoos", "length": {"name": "Constant"}}, FixedFZooS(length=Constant())),
        ({"name": "fzoos", "length": {}}, FixedFZooS(length=Constant())),  # the first of several needs no name
        (
            {"name": "fzoos", "length": {"name": "DistanceAware", "heterogeneity": 2.0}},
            FixedFZooS(length=DistanceAware(2.0)),
        ),
        ({"name": "fzoos", "features": 3}, FixedFZooS(features=3)),
        ({"name": "fzoos", "vector": "fixed", "projected": False}, FixedFZooS(vector="fixed", projected=False)),
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
        ({"name": "sgd", "learning_rate": 1}, SGD(1)),
    ],
)
def test_optimizers(table, expected):
    """The same for optimisers."""
    assert make_optimizer(table) == expected


@pytest.mark.parametrize("cls", ALGORITHMS.values(), ids=ALGORITHMS)
def test_every_algorithm_and_setting_can_be_reached(cls):
    """Each algorithm by its name, and each record of its settings by a table: nothing can be set in Python only."""
    assert make_algorithm({"name": cls.name}) == cls()
    for made in (cls(), *(getattr(cls, preset)() for preset in cls.presets)):
        assert make_algorithm({"name": cls.name, **table_of(made)}) == made


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
        ("kernel", {}, Matern52()),
        ("length", {}, Constant()),
        ("noise", {"sigma": 0.5}, KnownNoise(0.5)),
        ("active", {"candidates": 9, "picks": 2, "radius": 0.1}, ActiveQueries(9, 2, 0.1)),
        ("refresh", {"candidates": 9, "picks": 2}, ActiveQueries(9, 2)),
    ],
)
def test_a_table_without_a_name_means_what_it_meant_in_the_last_release(setting, table, first):
    assert getattr(make_algorithm({"name": "fzoos", setting: table}), setting) == first


def test_tables_are_not_used_up():
    """A table can be read again."""
    table = {"name": "fzoos", "preset": "paper", "kernel": {"name": "Matern52"}}
    copy = {"name": "fzoos", "preset": "paper", "kernel": {"name": "Matern52"}}
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
            "algorithm: there is no setting 'widgets'; the settings are projected, kernel",
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
        ({"name": "fzoos", "kernel": {"name": "Cubic"}}, "algorithm.kernel: name must be one of Matern52, Squared"),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "nu": 3}}, "algorithm.kernel: there is no setting 'nu'"),
        ({"name": "fzoos", "kernel": {"name": "Matern52", "length_scale": 0}}, "algorithm.kernel: .*length"),
        ({"name": "fzoos", "active": {"picks": 3}}, "algorithm.active: candidates is missing"),
        ({"name": "fzoos", "active": {"candidates": 3, "picks": 4}}, "algorithm.active: picks must be at most"),
        ({"name": "fzoos", "active": True}, "algorithm.active must be a table, or false for none, got True"),
        ({"name": "fzoos", "projected": 1}, "algorithm.projected must be true or false, got 1"),
        ({"name": "fzoos", "orthogonal": 1}, "algorithm.orthogonal must be true or false, got 1"),
        ({"name": "fzoos", "sends": "values"}, "algorithm: sends must be one of weights, gradient"),
        ({"name": "fzoos", "sends": "curvature"}, "algorithm: sends = 'curvature' is no longer an option"),
        ({"name": "fzoos", "preset": "best"}, "preset of fzoos must be one of paper, weights, got 'best'"),
        ({"name": "fzoos", "preset": ["paper"]}, "preset of fzoos must be"),
        ({"name": "fedzo", "preset": "paper"}, "preset of fedzo must be one of none, got 'paper'"),
    ],
)
def test_bad_tables(table, reason):
    """What is wrong is named with its place."""
    with pytest.raises((ValueError, TypeError), match=reason) as caught:
        make_algorithm(table)
    assert "\n" not in str(caught.value)
