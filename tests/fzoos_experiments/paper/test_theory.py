"""The paper's theory, measured at small size: what the numbers must be by hand, and that all files are written."""

import csv
import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fzoos import FZooS, minimize
from fzoos_experiments.paper.observe import observed
from fzoos_experiments.paper.theory import reproduce_theory
from fzoos_experiments.paper.theory.measurements import Posterior, optimal_length, true_gradients
from fzoos_experiments.paper.theory.report import MEASUREMENTS
from fzoos_experiments.tasks import Ackley, Levy, Quadratic


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return reproduce_theory(tmp_path_factory.mktemp("theory"), quick=True)


def rows(folder, name, **values):
    """Of one measurement, those with these values."""
    with open(folder / f"{name}.csv", newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if all(row[key] == str(value) for key, value in values.items())]


def column(found, name):
    return np.array([float(row[name]) for row in found])


def test_all_files_are_written(folder):
    expected = {f"{name}.{suffix}" for name in MEASUREMENTS for suffix in ("csv", "md", "png")} | {"settings.json"}
    assert {path.name for path in folder.iterdir()} == expected
    assert json.loads((folder / "settings.json").read_text())["quick"] is True
    header, rule, first, *_ = (folder / "lengths.md").read_text().splitlines()
    assert header.count("|") == rule.count("|") == first.count("|")


def test_the_optimal_length_is_where_a_numeric_minimisation_ends():
    local, vectors, target = np.random.default_rng(0).normal(size=(3, 4, 6))
    found = minimize_scalar(lambda gamma: np.sum((local + gamma * vectors - target) ** 2))
    assert optimal_length(local, vectors, target) == pytest.approx(found.x, abs=1e-6)


@pytest.mark.parametrize("task", [Quadratic(dim=4), Levy(dim=4), Ackley(dim=4)], ids=lambda task: task.name)
def test_true_gradients_are_those_of_the_objectives_in_the_cube(task):
    (low, high), x, h = task.bounds, np.random.default_rng(1).uniform(size=4), 1e-6
    for i, f in enumerate(task.objectives):
        points = np.concatenate([x + h * np.eye(4), x - h * np.eye(4)])
        y = f(low + (high - low) * points)
        np.testing.assert_allclose(true_gradients(task, x)[i], (y[:4] - y[4:]) / (2 * h), rtol=1e-4, atol=1e-4)


def test_the_textbook_posterior_is_that_of_the_algorithm():
    """Its gradient is FZooS's local gradient, its trace is what one observation at distance s leaves: by hand."""
    task, seen = Quadratic(dim=3, clients=2), []

    def observer(estimate):
        trajectory = estimate.context.trajectory
        seen.append((Posterior.at(estimate.x, trajectory.x, trajectory.y).gradient, estimate.local))

    settings = {"bounds": task.bounds, "rounds": 2, "vectorized": True, "seed": 0}
    minimize(task.objectives, task.x0, algorithm=observed(FZooS(local_steps=3, features=50), observer), **settings)
    assert len(seen) == 2 * 2 * 3
    for textbook, local in seen:
        np.testing.assert_allclose(textbook, local, rtol=1e-4, atol=1e-5)
    # k = exp(-s / 2), s = 0.25: the gradient of k has the square s exp(-s), k(0) + sigma^2 = 1 + 1e-6.
    posterior = Posterior.at(np.array([0.5, 0.0]), np.array([[0.0, 0.0], [9.0, 9.0]]), np.array([0.0, 1.0]))
    assert np.trace(posterior.covariance) == pytest.approx(2 - 0.25 * math.exp(-0.25), abs=1e-5)


def test_an_estimate_is_the_sum_of_its_parts():
    task, seen = Quadratic(dim=3, clients=2), []
    settings = {"bounds": task.bounds, "rounds": 2, "vectorized": True, "seed": 0}
    minimize(task.objectives, task.x0, algorithm=observed(FZooS(local_steps=2, features=50), seen.append), **settings)
    assert [(e.round, e.step) for e in seen] == [(r, t) for r in (1, 2) for _ in range(2) for t in (1, 2)]
    assert all(e.correction is None for e in seen[:4])
    for e in seen[4:]:
        gamma, vector = e.correction
        assert gamma == 1 / e.step
        np.testing.assert_array_equal(e.gradient, e.local + gamma * vector)


def test_the_error_of_the_features_is_one_over_m(folder):
    for d, n in {(row["d"], row["n"]) for row in rows(folder, "features")}:
        errors = [column(rows(folder, "features", d=d, n=n, M=m), "error").mean() * m for m in (300, 1_000, 3_000)]
        assert max(errors) < 3 * min(errors)


def test_the_contraction_is_that_of_gradient_descent(folder):
    """F - F* of the quadratic falls by (1 - eta alpha)^(2 T) a round, eta alpha = 1/200: 0.995^10, ^20 and ^40."""
    for steps, factor in ((5, 0.95111), (10, 0.90461), (20, 0.81832)):
        gaps = column(rows(folder, "convergence", T=steps, length="γ = 1"), "gap")
        assert (gaps[-1] / gaps[0]) ** (1 / 6) == pytest.approx(factor, rel=0.01)
        bound = column(rows(folder, "convergence", T=steps, length="γ = 1"), "Thm. 2")
        assert np.all(gaps <= bound)
        assert bound[1] / bound[0] == pytest.approx(math.exp(-steps / 800), rel=1e-4)
