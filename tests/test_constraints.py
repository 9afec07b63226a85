"""Private constraints from `minimize` to the result: each client has its own, and x must meet all of them."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import Auto, FedCMA, FedZO, WithPrior, minimize
from fzoos.algorithms.optimizers import Adam
from fzoos.engines import LocalStudy
from fzoos.federation import Study


def bowl(target, *constraints):
    """|x - target|^2, with its own constraints."""

    def objective(x):
        value = float(np.sum((x - target) ** 2))
        return (value, [c(x) for c in constraints]) if constraints else value

    return objective


def disc(x):
    return float(x @ x) - 1.0


def half_plane(x):
    return 0.2 - float(x[0])


def run(objectives, x0=(0.0, 0.0), **changes):
    settings = {"bounds": (-2, 2), "rounds": 30, "seed": 0} | changes
    return minimize(objectives, np.array(x0, float), **settings)


@pytest.mark.parametrize(
    "objectives",
    [
        [bowl(np.array([1.0, 2.0]), disc)],
        [bowl(np.array([0.0, 2.0]), disc), bowl(np.array([2.0, 2.0]))],
        [bowl(np.array([0.0, 2.0]), disc), bowl(np.array([2.0, 2.0]), disc)],
        [bowl(np.array([0.0, 2.0])), bowl(np.array([2.0, 2.0])), lambda x: (float(np.sum(x * 0)), disc(x))],
    ],
    ids=["one client", "of one of two", "shared by two", "a client without an objective"],
)
def test_the_solution_is_the_projection_onto_the_disc(objectives):
    # The mean of the bowls is one around (1, 2) in all cases but the last, whose F is 2/3 of it: the same minimum.
    result = run(objectives)
    assert result.feasible is True
    assert result.x == pytest.approx(np.array([1.0, 2.0]) / np.sqrt(5.0), abs=2e-3)
    assert disc(result.x) <= 0.0
    assert result.violation == disc(result.x)


@pytest.mark.parametrize(
    "algorithm",
    [FedZO(local_steps=5, optimizer=Adam(0.005)), FedCMA(local_steps=5)],
    ids=["queries x", "does not query x"],
)
def test_other_algorithms_have_constraints_too(algorithm):
    objectives = [bowl(np.array([1.0, 2.0]), disc)] * 2
    result = run(objectives, algorithm=algorithm, rounds=40)
    assert result.feasible
    assert disc(result.x) <= 0.0
    assert result.x == pytest.approx(np.array([1.0, 2.0]) / np.sqrt(5.0), abs=0.1)


def test_the_line_search_in_many_dimensions():
    target = np.full(60, 1.0)
    result = run([bowl(target, lambda x: float(x @ x) - 15.0)] * 2, x0=np.zeros(60), rounds=40)
    assert result.feasible
    assert float(np.sum((result.x - target) ** 2)) < 16.5  # 15 at the projection, 60 at the start


def test_a_run_without_a_feasible_point():
    nowhere = bowl(np.zeros(2), lambda x: 1.0 - x[0], lambda x: x[0] + 1.0)  # x >= 1 and x <= -1
    result = run(nowhere, rounds=6)
    assert result.feasible is False
    assert result.violation >= 1.0
    assert "no queried x is feasible for all" in result.message
    assert "feasible  no; the largest constraint is" in str(result)


def test_feasible_is_of_x_and_of_all_clients():
    queried = []

    def seen(x):
        queried.append((x.copy(), disc(x)))
        return float(np.sum((x - 2.0) ** 2)), disc(x)

    result = run([seen, bowl(np.array([1.0, 1.0]), half_plane)], rounds=8)
    assert result.feasible
    assert any(np.array_equal(x, result.x) for x, _ in queried)  # measured, not assumed
    assert result.violation == max(disc(result.x), half_plane(result.x)) <= 0.0
    assert [r.feasible for r in result.history][-1]


def test_some_clients_do_not_take_part():
    result = run([bowl(np.ones(2), disc)] * 3, participation=2, rounds=6)
    assert result.feasible is None
    assert "not all clients have reported" in str(result)


def test_old_data_without_constraints_is_refused():
    points = np.array([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="must return f alone, as before \\(old data included\\)"):
        run([WithPrior(bowl(np.ones(2), disc), (points, np.array([2.0, 1.0])))], algorithm=Auto())


STUDY = {"x0": (0.0, 0.0), "bounds": (-2.0, 2.0), "sites": ("a", "b"), "rounds": 6, "seed": 3}


def test_a_resumed_study_is_the_uninterrupted_one(tmp_path):
    sites, study = [bowl(np.array([0.0, 2.0]), disc), bowl(np.array([2.0, 2.0]), half_plane)], Study("disc", **STUDY)
    whole = LocalStudy(study, tmp_path / "whole", sites, site_seed=5).run()
    assert whole.feasible
    assert disc(whole.x) <= 0.0
    assert whole.violation is None  # values stay at the sites
    calls = [0]

    def dies(x):
        calls[0] += 1
        if calls[0] == 9:
            raise KeyboardInterrupt
        return sites[1](x)

    assert LocalStudy(study, tmp_path / "broken", [sites[0], dies], site_seed=5).run().status == "interrupted"
    again = LocalStudy(study, tmp_path / "broken", sites, site_seed=5).run(resume=True)
    assert np.array_equal(again.x, whole.x)
    assert again.feasible
    assert again.queries == whole.queries
