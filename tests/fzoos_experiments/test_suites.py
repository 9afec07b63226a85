"""The benchmark suites: published functions, differences that sum to zero, known minima, counted and stored runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares as fit

from fzoos_experiments.suites.bbob import bbob
from fzoos_experiments.suites.benchmark import SuiteRun, execute
from fzoos_experiments.suites.least_squares import PROBLEMS
from fzoos_experiments.suites.mujoco import mujoco
from fzoos_experiments.suites.problem import Differences, split
from fzoos_experiments.suites.profiles import Outcome, outcomes, summary
from fzoos_experiments.suites.rivals import POOLED, Pooled, find_rival

# |r| at the start and at the minimum, as MINPACK's own test program prints it for these sizes
NORMS = {
    ("linear-full-rank", 9): (8.485281, 6.0),
    ("rosenbrock", 2): (4.919350, 0.0),
    ("helical-valley", 3): (50.0, 0.0),
    ("freudenstein-roth", 2): (20.01250, 0.0),
    ("bard", 3): (6.456136, 0.09063596),
    ("kowalik-osborne", 4): (0.07289151, 0.01753584),
    ("meyer", 3): (41153.47, 9.377945),
    ("watson", 6): (4.053498, 0.04782959),
    ("watson", 9): (5.186924, 0.001183115),
    ("box-3d", 3): (32.11158, 0.0),
    ("jennrich-sampson", 2): (64.58562, 11.15178),
    ("brown-dennis", 4): (2815.438, 292.9543),
    ("chebyquad", 8): (0.1965139, 0.05930324),
    ("brown-almost-linear", 10): (16.53022, 0.0),
    ("osborne-2", 11): (1.446865, 0.2003440),
}


def test_functions_have_their_published_values():
    for (name, dim), (start, minimum) in NORMS.items():
        problem = next(p for p in PROBLEMS if (p.name, p.dim) == (name, dim))
        assert np.sqrt(problem.squares(problem.start)) == pytest.approx(start, rel=1e-6), name
        assert np.sqrt(problem.smallest[0]) == pytest.approx(minimum, rel=1e-6), name


def test_no_fit_is_below_the_known_minimum():
    for problem in PROBLEMS:
        found = fit(problem._bounded, problem.start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        assert problem.squares(found.x) >= problem.smallest[0] - 1e-9 * abs(problem.smallest[0]) - 1e-18, problem.name
        assert problem.absolutes(found.x) >= problem.smallest[1] * (1.0 - 1e-9) - 1e-12, problem.name


def test_differences_sum_to_zero_and_have_unit_variance():
    draws = np.random.default_rng(0).uniform(-1.0, 1.0, (2_000, 6))
    spread = []
    for seed in range(30):
        differences = Differences(6, 4, np.random.default_rng(seed))
        values = np.array([[differences(i, u) for u in draws[:: 1 + 20 * (seed > 0)]] for i in range(4)])
        assert np.abs(values.sum(axis=0)).max() < 1e-13
        spread.append(values.var())
    assert np.mean(spread) == pytest.approx(1.0, abs=0.15)
    assert Differences(6, 1, np.random.default_rng(0))(0, draws[0]) == 0.0


@pytest.mark.parametrize("large", [False, True])
def test_bbob_is_the_average_of_the_clients_and_has_the_known_minimum(large):
    """The sphere is |x - c|^2 + F*: three of its values along a coordinate determine c, where it is F*."""
    problem = bbob(1, dim=20, instance=5, clients=3, large=large)
    assert np.mean([f(problem.x0) for f in problem.objectives]) == pytest.approx(problem.value(problem.x0), rel=1e-12)
    assert np.ptp([f(problem.x0) for f in problem.objectives]) > 0.1 * (problem.value(problem.x0) - problem.minimum)
    steps = np.eye(20)
    best = np.array([(problem.value(-step) - problem.value(step)) / 4.0 for step in steps])
    assert problem.value(best) == pytest.approx(problem.minimum, abs=1e-9)


def test_robots_differ_in_mass_and_repeat_their_episodes():
    problem = mujoco("swimmer", instance=1, clients=3, steps=20)
    x = np.full(16, 0.1)
    values = [f(x) for f in problem.objectives]
    assert values == [f(x) for f in problem.objectives]
    assert len(set(values)) == 3
    assert problem.value(x) == pytest.approx(np.mean(values))
    noisy = mujoco("swimmer", instance=1, clients=1, steps=20, noise=True).objectives[0]
    assert noisy(x) != noisy(x)


@pytest.mark.parametrize("name", POOLED)
def test_pooled_methods_find_the_bottom_of_a_bowl_and_spend_no_more_than_the_budget(name):
    counts = np.zeros(2)

    def value(x):
        return float(np.sum((x - 0.4) ** 2))

    problem = split(value, np.full(3, 0.9), np.array([[-1.0, 1.0]] * 3), 0.0, clients=2, heterogeneity=1.0, seed=(0,))

    def counted(i):
        def f(x):
            counts[i] += 1
            return problem.objectives[i](x)

        return f

    counting = type(problem)((counted(0), counted(1)), value, problem.x0, problem.bounds, 0.0)
    trace = Pooled(counting, 301).run(find_rival(name), 0)
    assert counts[0] == counts[1] <= 150
    assert trace[0] == (0, pytest.approx(0.75))
    assert trace[-1][1] < 1e-2
    assert all(queries % 2 == 0 for queries, _ in trace)


def test_finished_runs_are_not_made_again_and_unfinished_lines_are(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    runs = [SuiteRun("ls", "7", 0, 1, rival, clients=2, budget=30) for rival in ("bobyqa", "auto")]
    made = []
    first = execute(runs, tmp_path, progress=lambda run, left, error: made.append((run.rival, left, error)))
    assert made == [("bobyqa", 1, ""), ("auto", 0, "")]
    assert max(queries for record in first.values() for queries, _ in record["trace"]) <= 2 * 2 * 30
    path.write_text(path.read_text()[:-40])
    made.clear()
    again = execute(runs, tmp_path, progress=lambda run, left, error: made.append(run.rival))
    assert made == ["auto"]
    assert [record["trace"] for record in again.values()] == [record["trace"] for record in first.values()]
    assert execute(runs, tmp_path, progress=None) == again


def test_a_run_that_fails_is_reported_and_the_others_are_made(tmp_path):
    runs = [SuiteRun("ls", "7", 0, 1, "bobyqa", noise=0.1), SuiteRun("ls", "7", 0, 1, "bobyqa", budget=5)]
    errors = []
    assert list(execute(runs, tmp_path, 2, lambda run, left, error: errors.append(error))) == runs[1:]
    assert sorted(errors)[0] == ""
    assert "the noise of ls-noisy is fixed" in sorted(errors)[1]


def outcome(rival, queries, gaps):
    run = SuiteRun("bbob", "1", 4, 4, rival, clients=2)
    return Outcome(run, 4, np.array(queries, float), np.array(gaps), "", 1.0)


def test_the_table_counts_targets_and_regrets():
    heads, rows = summary(
        [
            outcome("a", [0, 10, 20], [1.0, 1e-4, 1e-3]),  # reached 1e-3, and returned something ten times worse
            outcome("a", [0, 10], [1.0, 3.0]),  # worse than x0
            outcome("b", [0, 10], [1.0, 1e-6]),
            outcome("b", [0, 10], [1.0, 1e-2]),
        ]
    )
    table = {row[0]: dict(zip(heads, row, strict=True)) for row in rows}
    assert [table["a"][f"F <= {target}"] for target in ("0.1", "0.001", "1e-05")] == ["1", "1", "0"]
    assert [table["b"][f"F <= {target}"] for target in ("0.1", "0.001", "1e-05")] == ["2", "1", "1"]
    assert (table["a"]["not the best"], table["a"]["worse than x0"]) == ("2", "1")
    assert table["b"]["mean log10 gap"] == "-4.00"


def test_an_unknown_minimum_is_the_lowest_value_of_all_runs():
    runs = [SuiteRun("mujoco", "swimmer", 0, 4, rival) for rival in ("a", "b")]
    record = {"dim": 16, "minimum": None, "status": "", "seconds": 0.0}
    records = [record | {"trace": [[0, 0.0], [8, -1.0]]}, record | {"trace": [[0, 0.0], [8, -4.0]]}]
    assert [o.gap for o in outcomes(dict(zip(runs, records, strict=True)))] == [0.75, 0.0]
