"""Synthetic tasks whose observations have noise."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fzoos import FedZO, minimize
from fzoos_experiments.tasks import Quadratic

EXACT = Quadratic(dim=6, clients=3, heterogeneity=2.0, seed=4)
NOISY = replace(EXACT, noise=0.1)


def test_noise_is_normal_and_has_the_given_size():
    """Mean f_i(x), standard deviation noise * (F(x_0) - F*)."""
    many = np.tile(NOISY.x0, (20_000, 1))
    sigma = 0.1 * (EXACT.value(EXACT.x0) - EXACT.minimum)
    assert NOISY.sigma == pytest.approx(sigma, rel=1e-12)
    for noisy, exact in zip(NOISY.objectives, EXACT.objectives, strict=True):
        errors = (noisy(many) - exact(many)) / sigma
        assert abs(errors.mean()) < 5.0 / np.sqrt(20_000)
        assert errors.std() == pytest.approx(1.0, abs=5.0 / np.sqrt(40_000))
        assert np.mean(np.abs(errors) < 1.96) == pytest.approx(0.95, abs=0.01)


def test_each_query_of_each_client_has_its_own_noise():
    """No two observations share it: not those of one batch, of two calls, or of two clients."""
    same = np.tile(NOISY.x0, (50, 1))
    noise = [f(same) - g(same) for f, g in zip(NOISY.objectives, EXACT.objectives, strict=True)]
    assert len(np.unique(np.round(np.concatenate(noise), 12))) == 150
    first = NOISY.objectives[0]
    assert np.array_equal(first(same) - EXACT.objectives[0](same), noise[0])  # the generators restart
    assert not np.any(first(same) == first(same))


def test_f_and_its_gradient_are_without_noise():
    assert NOISY.value(NOISY.x0) == EXACT.value(EXACT.x0) == NOISY.value(NOISY.x0)
    assert np.array_equal(NOISY.gradient(NOISY.x0), EXACT.gradient(EXACT.x0))
    assert NOISY.minimum == EXACT.minimum


def test_command_line(tmp_path, run_command):
    """`fzoos run --noise` is `minimize` on that task; F is without noise."""
    words = "run quadratic --algorithm fedzo --dim 6 --clients 3 --heterogeneity 2 --seed 4 --rounds 40 --noise 0.1"
    text = run_command(*words.split(), "--quiet", "--json", tmp_path / "run.json")[1]
    settings = {"bounds": NOISY.bounds, "algorithm": FedZO(), "rounds": 40, "vectorized": True, "rng": 4}
    expected = minimize(NOISY.objectives, NOISY.x0, **settings)
    written = json.loads((tmp_path / "run.json").read_text())
    assert written["x"] == expected.x.tolist()
    assert f"F        {EXACT.value(expected.x):.6g}" in text
    assert written["task"] == str(NOISY)


def test_compare(tmp_path, run_command, monkeypatch):
    """`fzoos compare --noise`: every algorithm has the same noise, and the title names its size."""
    monkeypatch.chdir(tmp_path)
    words = "compare quadratic --dim 4 --clients 2 --rounds 2 --algorithms fedzo,fedprox --noise 0.2 --quiet"
    assert "noise 0.2" in run_command(*words.split())[1]
