"""Constraints in what is shown of runs: the largest violation of each round, and whether x is feasible."""

from __future__ import annotations

import json

import numpy as np
import pytest

from fzoos import Stop, Study, load, minimize
from fzoos.engines import LocalStudy
from fzoos.runs.reader import runs_at
from fzoos.runs.store import Store


def limited(x):
    """|x - 2|^2 with x_1 + x_2 <= 1, of which (0.5, 0.5) is the solution."""
    return float(np.sum((x - 2.0) ** 2)), float(x.sum()) - 1.0


def free(x):
    return float(np.sum((x - 2.0) ** 2))


def nowhere(x):
    return free(x), [1.0 - x[0], x[0] + 1.0]


def run(path, objectives, x0=(1.0, 1.0), **more):
    return minimize(objectives, np.array(x0), bounds=(-2, 3), rounds=8, seed=0, store=path, **more)


@pytest.fixture
def fzoos(tmp_path, monkeypatch, run_command):
    """Run the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return run_command


def test_each_round_says_the_largest_constraint_at_the_x_it_began_with(tmp_path):
    """Two clients: the larger of both. x0 = (1, 1) violates by 1 and by 0.5; the callback sees it, too."""
    asked, seen = [], []

    def other(x):
        asked.append(x.copy())
        return free(x), float(x[0]) - 0.5

    result = run(tmp_path / "runs.db", [limited, other], callback=lambda record: seen.append(record.violation))
    known = [record.violation for record in result.history]
    assert known[0] == 1.0
    assert seen == known
    for value in known:
        assert any(value == max(limited(x)[1], x[0] - 0.5) for x in asked)
    assert [record.violation for record in load(tmp_path / "runs.db").history] == known
    feasible = [record.feasible for record in result.history]
    assert feasible[0] is False
    assert feasible[-1] is True
    assert result.violation in known  # x is one of those that were asked


def test_a_study_knows_whether_and_not_by_how_much(tmp_path):
    study = Study("limits", x0=(1.0, 1.0), bounds=(-2.0, 3.0), sites=("a", "b"), rounds=8, seed=0)
    result = LocalStudy(study, tmp_path, [limited, free], site_seed=1).run()
    assert {record.violation for record in result.history} == {None}
    assert result.history[-1].feasible is True
    assert runs_at(tmp_path)[0].feasible is True


def test_list_has_feasibility_and_tags_where_a_run_has_them(tmp_path, fzoos):
    path = tmp_path / "runs.db"
    run(path, [limited], name="met")
    run(path, [nowhere], name="missed")
    run(path, [free], name="plain")
    with Store(path, create=False) as editor:
        editor.tag(3, editor.runs[2].started, ["kept", "for the paper"])
    head, _, *rows = fzoos("list")[1].splitlines()
    assert head.split()[:6] == ["id", "name", "tags", "started", "status", "feasible"]
    at = head.index("feasible")
    assert [row[at:].split()[0] for row in rows] == ["yes", "no", "–"]
    assert "for the paper, kept" in rows[2]
    listed = json.loads(fzoos("list", "--json")[1])
    assert [one["feasible"] for one in listed] == [True, False, None]
    assert listed[2]["tags"] == ["for the paper", "kept"]


def test_a_point_at_which_the_constraints_failed_is_no_number(tmp_path):
    """It has no value there: infinity, which a file of runs does not have."""
    calls = [0]

    def fails(x):
        calls[0] += 1
        return (float("nan"), 0.0) if calls[0] == 9 else limited(x)

    result = run(tmp_path / "runs.db", [fails], on_failure="skip")
    kept = load(tmp_path / "runs.db")
    expected = [v if v is None or np.isfinite(v) else None for v in (record.violation for record in result.history)]
    assert [record.violation for record in kept.history] == expected


def value(x):
    return free(np.asarray(x))


def test_the_lowest_f_is_that_of_a_feasible_x(tmp_path, fzoos):
    """x0 = (1, 1) has F = 2, less than any feasible point: 4.5 at (0.5, 0.5)."""
    result = run(tmp_path / "runs.db", [limited], monitor=value)
    assert min(record.monitor for record in result.history) < 4.0
    assert limited(result.best_x)[1] <= 0.0
    assert result.best_fun == value(result.best_x) >= 4.5 - 1e-9
    assert np.array_equal(load(tmp_path / "runs.db").best_x, result.best_x)
    assert f"(lowest {result.best_fun:.6g} in" in fzoos("show")[1]


def test_neither_target_nor_patience_is_met_by_an_infeasible_x(tmp_path):
    """F = 2 at x0 is below the target, and lower than all that comes after it."""
    assert run(tmp_path / "a.db", [limited], monitor=value, stop=Stop(target=4.0)).status != "stopped"
    patient = run(tmp_path / "b.db", [limited], monitor=value, stop=Stop(patience=2))
    assert patient.feasible
    assert value(patient.x) == pytest.approx(4.5, abs=0.1)
    reached = run(tmp_path / "c.db", [limited], monitor=value, stop=Stop(target=4.6))
    assert (reached.status, reached.feasible) == ("stopped", True)
    assert value(reached.x) <= 4.6
