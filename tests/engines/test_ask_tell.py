"""Ask and tell in Python: what `minimize` computes, in any order, over processes, by name."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import AskTell, Choice, FedZO, Integer, Real, Space, minimize
from fzoos.federation.client import Client
from fzoos.federation.study import make_algorithm

ALGORITHM = {"name": "fedzo", "differences": {"count": 3}}
TARGETS = (0.2, 0.4)


def f(x, target):
    return float(np.sum((x - target) ** 2))


def make(folder=None, **changes):
    settings = {"bounds": (-1.0, 1.0), "x0": [0.9, 0.1], "clients": 2, "rounds": 2, "seed": 0}
    return AskTell(folder=folder, **(settings | {"algorithm": ALGORITHM} | changes))


def finish(optimizer, count=None):
    while not optimizer.done:
        for client in (1, 0):  # whoever is first
            points = optimizer.ask(client, count)
            optimizer.tell(client, points, [f(x, TARGETS[client]) for x in points])
    return optimizer


@pytest.mark.parametrize("count", [None, 3])
def test_it_is_the_run_of_minimize(count):
    """Bit for bit, however many points are asked for at once."""
    objectives = [lambda x, t=t: f(x, t) for t in TARGETS]
    settings = {"bounds": (-1.0, 1.0), "rounds": 2, "seed": 0}
    expected = minimize(objectives, [0.9, 0.1], algorithm=make_algorithm(ALGORITHM), **settings)
    optimizer = finish(make(), count)
    assert np.array_equal(optimizer.x, expected.x)
    assert optimizer.result.queries_per_client == expected.queries_per_client
    assert len(optimizer.ask(0)) == 0


def test_load_goes_on(tmp_path):
    """Another object, as in another process, with half of the values told."""
    whole = finish(make())
    first = make(tmp_path)
    points = first.ask(0, 2)
    first.tell(0, points, [f(x, TARGETS[0]) for x in points])
    again = AskTell.load(tmp_path)
    assert not {tuple(x) for x in again.ask(0)} & {tuple(x) for x in points}
    assert np.array_equal(finish(again).x, whole.x)
    with pytest.raises(ValueError, match=r"continue with AskTell\.load"):
        make(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no optimizer"):
        AskTell.load(tmp_path / "nowhere")


def test_points_are_handed_out_once_before_they_come_again():
    optimizer = make()
    first, second = optimizer.ask(0, 2), optimizer.ask(0, 2)
    assert not {tuple(x) for x in first} & {tuple(x) for x in second}
    assert len(optimizer.ask(0)) == 4  # all are handed out and none is told: they come again


def test_the_cost_of_a_call_does_not_grow(tmp_path, monkeypatch):
    """Each request is answered once by each client, and again only where it was waiting for values."""
    answered, answer = [], Client.answer
    monkeypatch.setattr(Client, "answer", lambda self, request: answered.append(request) or answer(self, request))
    run, counts = make(tmp_path, rounds=40, tolerance=0.0, algorithm={"name": "auto"}), []
    for _ in range(30):
        before = len(answered)
        for client, target in enumerate(TARGETS):
            points = AskTell.load(tmp_path).ask(client)
            AskTell.load(tmp_path).tell(client, points, [f(x, target) for x in points])
        counts.append(len(answered) - before)
    assert run.result.rounds > 10
    assert max(counts[5:]) <= max(counts[:5])


def test_named_variables():
    space = Space(rate=Real(0, 1), depth=Integer(1, 9), kernel=Choice("rbf", "linear"))
    optimizer = make(bounds=space, x0={"rate": 0.5, "depth": 3, "kernel": "rbf"}, clients=1)
    while not optimizer.done:
        points = optimizer.ask(0)
        assert all(isinstance(point["depth"], int) and point["kernel"] in ("rbf", "linear") for point in points)
        optimizer.tell(0, points, [point["rate"] + point["depth"] for point in points])
    assert set(optimizer.variables) == {"rate", "depth", "kernel"}


def disc(x):
    return float(x @ x) - 0.1


def test_constraints_are_told_as_pairs():
    """Bit for bit the run of `minimize`; the second client has none."""
    settings = {"bounds": (-1.0, 1.0), "rounds": 6, "seed": 0}
    objectives = [lambda x: (f(x, 0.6), disc(x)), lambda x: f(x, 0.4)]
    expected = minimize(objectives, [0.1, 0.1], **settings)
    optimizer = AskTell(x0=[0.1, 0.1], clients=2, **settings)
    while not optimizer.done:
        for client, objective in enumerate(objectives):
            points = optimizer.ask(client, 3)
            optimizer.tell(client, points, [objective(x) for x in points])
    assert np.array_equal(optimizer.x, expected.x)
    assert optimizer.result.feasible is True


def test_constraints_that_are_refused():
    optimizer = make()
    points = optimizer.ask(0)
    with pytest.raises(ValueError, match="has no constraints, and other points of client-0 have 1 constraint"):
        optimizer.tell(0, points[:2], [(1.0, -1.0), 2.0])
    with pytest.raises(ValueError, match=r"the constraint of [0-9a-f]+ must be a finite number, got nan"):
        optimizer.tell(0, points[:1], [(1.0, float("nan"))])
    optimizer.tell(0, points[:1], [(1.0, -1.0)])


def test_what_is_refused():
    optimizer = make()
    points = optimizer.ask(0)
    with pytest.raises(ValueError, match=r"client must be in 0..1, got 2"):
        optimizer.ask(2)
    with pytest.raises(ValueError, match="points has 4 entries but values has 1"):
        optimizer.tell(0, points, [1.0])
    with pytest.raises(ValueError, match="not among the points"):
        optimizer.tell(0, [points[0] + 0.1], [1.0])
    with pytest.raises(ValueError, match="finite number"):
        optimizer.tell(0, points[:1], [float("nan")])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"clients": 0}, ValueError, "clients must be at least 1, got 0"),
        ({"colour": "red"}, TypeError, "AskTell has no setting 'colour'; it has dim, rounds, "),
        ({"algorithm": FedZO()}, TypeError, "algorithm must be a table .* such as {'name': 'fedzo'}, got FedZO"),
        (
            {"algorithm": {"name": "fedzo", "optimizer": "adam"}},
            ValueError,
            "algorithm.optimizer must be a table, got 'adam'",
        ),
    ],
)
def test_wrong_settings_are_named_as_they_are_here(settings, error, message):
    with pytest.raises(error, match=message):
        AskTell(bounds=(-1, 1), x0=[0.0, 0.0], **settings)
