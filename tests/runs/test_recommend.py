"""The recommended x: the last of a descent, the mean of a walk about a point, and better than the last under noise."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import (
    SGD,
    FedZO,
    FiniteDifferences,
    FZooS,
    Study,
    load,
    minimize,
)
from fzoos.cli import main
from fzoos.engines import LocalStudy
from fzoos.result import Result
from fzoos.runs.recommend import recommend
from fzoos.runs.text import markdown
from fzoos_experiments.tasks import Noisy, Quadratic


def tail(x):
    """How many iterates the recommended x is the mean of, found by comparing."""
    found = recommend(x)
    return next(k for k in range(1, len(x) + 1) if np.allclose(found, x[-k:].mean(axis=0), rtol=1e-12, atol=1e-14))


DESCENTS = {
    "straight": np.linspace(5.0, 0.0, 12)[:, None] * np.ones(3),
    "slowing": 5.0 * 0.5 ** np.arange(12.0)[:, None] * np.ones(3),
    "bending": np.stack([np.cos(np.linspace(0, 1.5, 12)), np.sin(np.linspace(0, 1.5, 12))], axis=1),
    "still": np.ones((12, 3)),
    "one round": np.ones((1, 3)),
    "two rounds": np.array([[0.0, 1.0], [1.0, 0.0]]),
}


@pytest.mark.parametrize("x", DESCENTS.values(), ids=DESCENTS.keys())
def test_a_descent_ends_at_its_last_x(x):
    """As long as steps do not turn back it is the last x, to the bit, and a copy."""
    found = recommend(x)
    assert np.array_equal(found, x[-1])
    assert not np.shares_memory(found, x)


@pytest.mark.parametrize("d", [10, 300])
def test_a_walk_about_a_point_is_averaged(d):
    """Independent scatter about a point: all of it is averaged, and the error falls by the number of rounds."""
    rng = np.random.default_rng(0)
    x = 0.5 + 0.1 * rng.standard_normal((40, d))
    assert tail(x) == 40
    assert np.sum((recommend(x) - 0.5) ** 2) < 0.1 * np.sum((x[-1] - 0.5) ** 2)


def test_a_walk_without_memory_is_not_averaged():
    """Steps that neither go on nor turn back: no x is better than another, and the last is taken."""
    steps = np.random.default_rng(0).standard_normal((30, 5000))
    assert tail(np.cumsum(steps, axis=0)) == 1


def test_the_descent_before_is_left_out():
    """A descent of 10 rounds, then 20 of wandering: about those 20 are averaged."""
    rng = np.random.default_rng(1)
    x = np.concatenate([np.linspace(10.0, 1.0, 10), np.zeros(20)])[:, None] + 0.1 * rng.standard_normal((30, 100))
    assert 15 <= tail(x) <= 21


@pytest.mark.parametrize("drift", [0.0, 0.02, 0.1, 0.5, 2.0])
def test_the_mean_is_taken_where_it_is_better(drift):
    """Scatter on a drift, 200 walks: never much worse than the last x, and better where the drift is small."""
    rng = np.random.default_rng(2)
    mean = last = 0.0
    for _ in range(200):
        x = drift * np.arange(15.0)[:, None] * np.full(30, 30**-0.5) + 0.2 * rng.standard_normal((15, 30))
        target = drift * 14.0 * np.full(30, 30**-0.5)
        mean += np.sum((recommend(x) - target) ** 2)
        last += np.sum((x[-1] - target) ** 2)
    assert mean <= 1.02 * last
    if drift <= 0.1:
        assert mean < 0.5 * last


def test_distances_are_those_of_the_unit_cube():
    """A wide coordinate counts no more than the others: units change nothing."""
    rng = np.random.default_rng(3)
    x = np.concatenate([np.linspace(1.0, 0.0, 10), np.zeros(8)])[:, None] + 0.05 * rng.standard_normal((18, 20))
    width = np.geomspace(1e-3, 1e3, 20)
    np.testing.assert_allclose(recommend(x * width, width), recommend(x) * width, rtol=1e-12)


def test_a_run_that_left_for_infinity():
    """Its last x, without a warning."""
    x = np.array([[0.0], [1e200], [-np.inf], [np.inf]])
    assert recommend(x)[0] == np.inf


# Runs


def noisy_run(seed, **changes):
    """Finite differences and steps of one length under noise: x wanders about the minimum."""
    task = Noisy(Quadratic(10, 2, 1.0, seed), 0.02, seed)
    run = {"bounds": task.bounds, "vectorized": True, "seed": seed, "rounds": 25, "monitor": task.value}
    run["algorithm"] = FedZO(local_steps=2, optimizer=SGD(0.1), differences=FiniteDifferences(count=10, step=0.05))
    return task, minimize(task.objectives, task.x0, **run | changes)


def test_better_than_the_last_x_under_noise():
    """F at the recommended x is lower than at the last, on average over eight seeds."""
    last = mean = 0.0
    for seed in range(8):
        task, result = noisy_run(seed)
        last += task.value(result.x) - task.minimum
        mean += task.value(result.recommended) - task.minimum
    assert mean < 0.6 * last


def test_the_last_x_of_a_run_without_noise():
    """A descent that has not arrived: nothing is averaged."""
    task = Quadratic(10, 2, 1.0, 0)
    run = {"bounds": task.bounds, "vectorized": True, "seed": 0, "rounds": 4, "algorithm": FZooS(features=50)}
    result = minimize(task.objectives, task.x0, **run)
    assert np.array_equal(result.recommended, result.x)


def test_kept_and_loaded(tmp_path):
    """A file of runs gives the same bits; x stays the last iterate."""
    _, result = noisy_run(0, store=tmp_path / "runs.db")
    loaded = load(tmp_path / "runs.db")
    assert not np.array_equal(result.recommended, result.x)
    assert np.array_equal(loaded.recommended, result.recommended)
    assert np.array_equal(loaded.x, result.x)


def test_no_round():
    """Before the first round it is the start."""
    _, result = noisy_run(0, rounds=0)
    assert np.array_equal(result.recommended, result.x)


def test_study(tmp_path):
    """Studies have it too, also when they were interrupted; each coordinate in its own units."""
    rngs = [np.random.default_rng(i) for i in range(2)]
    boxes = [lambda x, r=r: float(((x / [1.0, 100.0] - 0.3) ** 2).sum() + 0.05 * r.standard_normal()) for r in rngs]
    algorithm = {"name": "fedzo", "local_steps": 2, "optimizer": {"name": "sgd", "learning_rate": 0.2}}
    algorithm["differences"] = {"count": 2, "step": 0.05}
    study = Study("demo", x0=[0.9, 90.0], bounds=[[0, 1], [0, 100]], sites=("a", "b"), rounds=12, algorithm=algorithm)
    local, walk = LocalStudy(study, tmp_path, boxes, site_seed=study.seed), []
    local.run(callback=lambda record: walk.append(load(tmp_path).x) or record.round == 7)
    half = load(tmp_path)
    whole = local.run(resume=True, callback=lambda record: walk.append(load(tmp_path).x))
    width = np.array([1.0, 100.0])
    assert np.array_equal(half.recommended, recommend(np.array(walk[:7]), width))
    assert np.array_equal(whole.recommended, recommend(np.array(walk), width))
    assert not np.array_equal(whole.recommended, whole.x)


def test_a_result_made_by_hand():
    """Where nobody says otherwise, it is x."""
    x = np.array([1.0, 2.0])
    result = Result(x, 0, 0, (), 0, 0, 0.0, "completed", "", ())
    assert np.array_equal(result.recommended, x)


def test_shown(tmp_path, capsys):
    """`fzoos show` and a report have it where it is not the last x, and only there."""
    _, wandered = noisy_run(0, store=tmp_path / "runs.db")
    _, short = noisy_run(0, store=tmp_path / "runs.db", rounds=1)
    told = " ".join(f"{v:.6g}" for v in wandered.recommended)
    for run, there in (("1", True), ("2", False)):
        with pytest.raises(SystemExit):
            main(["show", f"{tmp_path / 'runs.db'}:{run}"])
        shown = capsys.readouterr().out
        assert (f"mean     {told}" in shown) is there
        assert ("recommended" in shown) is there
    assert f"recommended x = {told}" in markdown([("run", {}, wandered)])
    assert "recommended" not in markdown([("run", {}, short)])
