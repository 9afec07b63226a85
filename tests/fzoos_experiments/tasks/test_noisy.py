"""Tasks whose observations scatter."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fzoos import FedZO, minimize
from fzoos.cli import main
from fzoos_experiments.tasks import Levy, Noisy, Quadratic

BASE = Quadratic(dim=6, clients=3, heterogeneity=2.0, seed=4)


def test_scatter():
    """Mean f_i(x), standard deviation share * (F(x_0) - F*), normal."""
    task = Noisy(BASE, 0.1)
    many = np.tile(task.x0, (20_000, 1))
    sigma = 0.1 * (BASE.value(BASE.x0) - BASE.minimum)
    assert task.sigma == pytest.approx(sigma, rel=1e-12)
    for noisy, exact in zip(task.objectives, BASE.objectives, strict=True):
        scatter = (noisy(many) - exact(many)) / sigma
        assert abs(scatter.mean()) < 5.0 / np.sqrt(20_000)
        assert scatter.std() == pytest.approx(1.0, abs=5.0 / np.sqrt(40_000))
        assert np.mean(np.abs(scatter) < 1.96) == pytest.approx(0.95, abs=0.01)


def test_fresh_noise_for_each_query_and_client():
    """No two observations have the same: not those of one batch, of two calls, or of two clients."""
    task = Noisy(BASE, 0.1, seed=1)
    same = np.tile(task.x0, (50, 1))
    noise = [f(same) - g(same) for f, g in zip(task.objectives, BASE.objectives, strict=True)]
    noise += [f(same) - g(same) for f, g in zip(task.objectives[:1], BASE.objectives, strict=False)]
    assert np.array_equal(noise[0], noise[3])  # begun anew
    assert len(np.unique(np.round(np.concatenate(noise[:3]), 12))) == 150
    first = task.objectives[0]
    assert not np.any(first(same) == first(same))


def test_the_truth_is_without_noise():
    """F, its gradient, its minimum and all the rest are the task's."""
    task = Noisy(BASE, 0.5)
    assert task.value(task.x0) == BASE.value(BASE.x0) == task.value(task.x0)
    assert np.array_equal(task.gradient(task.x0), BASE.gradient(BASE.x0))
    assert np.array_equal(task.minimizer, BASE.minimizer)
    for name in ("minimum", "bounds", "dim", "clients", "heterogeneity", "name"):
        assert getattr(task, name) == getattr(BASE, name)


def test_no_noise():
    """A share of zero is the task itself."""
    task = Noisy(Levy(dim=4, clients=2), 0.0)
    points = np.random.default_rng(0).uniform(-1, 1, (5, 4))
    for noisy, exact in zip(task.objectives, task.task.objectives, strict=True):
        assert np.array_equal(noisy(points), exact(points))


def test_reproducible_whatever_the_workers():
    """The same seed gives the same run, also on two threads; another seed another one."""

    def run(seed=0, workers=1):
        task = Noisy(BASE, 0.1, seed)
        settings = {"bounds": task.bounds, "algorithm": FedZO(), "rounds": 3, "vectorized": True, "seed": 0}
        return minimize(task.objectives, task.x0, workers=workers, **settings).x

    assert np.array_equal(run(), run(workers=2))
    assert not np.array_equal(run(), run(seed=1))


@pytest.mark.parametrize("changes", [{"share": -0.1}, {"share": float("nan")}, {"seed": -1}])
def test_bad_settings_are_named(changes):
    """The argument is named."""
    with pytest.raises(ValueError, match=next(iter(changes))):
        Noisy(BASE, **changes)


def call(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_command_line(tmp_path, capsys):
    """`fzoos run --noise` is `minimize` on that task; F is without noise."""
    words = "run quadratic --algorithm fedzo --dim 6 --clients 3 --heterogeneity 2 --seed 4 --rounds 40 --noise 0.3"
    text = call(capsys, *words.split(), "--quiet", "--json", str(tmp_path / "run.json"))
    task = Noisy(BASE, 0.3, seed=4)
    settings = {"bounds": task.bounds, "algorithm": FedZO(), "rounds": 40, "vectorized": True, "seed": 4}
    expected = minimize(task.objectives, task.x0, **settings)
    told = json.loads((tmp_path / "run.json").read_text())
    assert told["x"] == expected.x.tolist()
    assert f"F        {BASE.value(expected.x):.6g}" in text
    assert told["task"] == str(task)


def test_compare(tmp_path, capsys, monkeypatch):
    """`fzoos compare --noise`: every algorithm has the same noise, and the title says how much."""
    monkeypatch.chdir(tmp_path)
    words = "compare quadratic --dim 4 --clients 2 --rounds 2 --algorithms fedzo,fedprox --noise 0.2 --quiet"
    assert "noise 0.2" in call(capsys, *words.split())
