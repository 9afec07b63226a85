"""What stands beside the rounds of a run: stored once, and what is said of the recommended x."""

from dataclasses import replace

import numpy as np
import pytest

from fzoos import FedZO, minimize
from fzoos.cli import main
from fzoos.runs.advice import advice, is_advised
from fzoos.runs.landmarks import Landmarks, of_monitor
from fzoos.runs.reader import read
from fzoos.runs.store import Store
from fzoos.runs.tags import LONGEST, MOST, checked_tags
from fzoos_experiments.tasks import Levy, Noisy, Quadratic


def f(x):
    return float(x @ x)


def keep(path, **settings):
    settings = {"algorithm": FedZO(local_steps=2), "rounds": 3, "monitor": f, "seed": 0} | settings
    return minimize([f], np.ones(2), bounds=(-1, 1), store=path, **settings)


@pytest.mark.parametrize("kind", [Quadratic, Levy])
def test_a_task_leaves_its_smallest_value_and_its_name(kind, tmp_path):
    """F* is the task's own; the name is the same for all seeds, so that they can be found as one task."""
    tasks = [kind(dim=3, clients=2, heterogeneity=2.0, seed=seed) for seed in (0, 1)]
    for task in tasks:
        minimize(task.objectives, task.x0, bounds=task.bounds, algorithm=FedZO(local_steps=1), rounds=1,
                 vectorized=True, monitor=task.value, store=tmp_path / "runs.db")  # fmt: skip
    for run, task in enumerate(tasks, 1):
        found = read(f"{tmp_path}/runs.db:{run}").landmarks
        assert found.minimum == pytest.approx(task.value(task.minimizer), abs=1e-15)
        assert found.start == task.value(task.x0)
        assert np.array_equal(found.x0, task.x0)
        assert found.task == f"{kind.name} C=2 d=3 N=2"


def test_noise_is_another_task():
    assert of_monitor(Noisy(Quadratic(dim=3, clients=2), 0.1).value)["task"] == "quadratic C=5 d=3 N=2 noise=0.1"


def test_a_monitor_of_ones_own(tmp_path):
    keep(tmp_path / "runs.db")
    found = read(str(tmp_path)).landmarks
    assert (found.start, found.minimum, found.task) == (2.0, None, "")
    assert found.x0.tolist() == [1.0, 1.0]


def test_a_monitor_that_raises_is_reported_by_the_round_and_not_before(tmp_path):
    def broken(x):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError) as error:
        keep(tmp_path / "runs.db", monitor=broken)
    assert "after round 1" in error.value.__notes__[0]
    assert read(str(tmp_path)).landmarks.start is None


def test_without_a_store_the_monitor_is_asked_once_a_round():
    asked = []
    keep(None, monitor=lambda x: asked.append(x) or 0.0)
    assert len(asked) == 3


def test_a_study_knows_its_start(tmp_path):
    with Store(tmp_path / "result.db") as store:
        run = store.begin("study", {}, np.array([0.25]), clients=1)
        assert store.landmarks(run).x0.tolist() == [0.25]


def test_worse_is_never_called_better(tmp_path, capsys):
    """Seen: F(x) = -0.0085, still descending, and a recommended x with F = -0.0037. The last x is then the one to take.

    x goes 4, 1, 2, 0.5 with F = x: the tail turns back, so that its mean, 7/6 or so, is what `recommend` gives.
    """
    walk = iter([4.0, 1.0, 2.0, 0.5])
    result = keep(None, rounds=4, monitor=lambda x: next(walk))
    result = replace(result, recommended=result.x + 0.1)
    assert not is_advised(result)
    assert advice(result).endswith("F was lowest in the last one: take x")
    assert not is_advised(result, Landmarks(recommended=1.1))
    assert "F = 1.1 there is no lower: take x" in advice(result, Landmarks(recommended=1.1))
    assert is_advised(result, Landmarks(recommended=0.1))
    assert advice(result, Landmarks(recommended=0.1)) == "the recommended x, a mean of the last rounds; F = 0.1"
    assert "is recommended" not in str(result)
    unmeasured = replace(result, history=tuple(replace(record, monitor=None) for record in result.history))
    assert is_advised(unmeasured)
    assert "is recommended" in str(unmeasured)
    assert is_advised(replace(result, history=(*result.history, replace(result.history[-1], monitor=0.6))))


@pytest.mark.parametrize("task", ["levy", "quadratic"])
def test_show_says_which_x_is_lower(task, tmp_path, capsys):
    """Of a run, without noise, whose recommended x is worse than the last: `show` and `run` say so."""
    for seed in range(20):  # there are such runs, but which ones is a matter of rounding
        path = tmp_path / f"{seed}.db"
        line = ["run", task, "--dim", "5", "--clients", "3", "--rounds", "15", "--seed", str(seed)]
        assert _run([*line, "--store", str(path)]) == 0
        said, kept = capsys.readouterr().out, read(str(path))
        if (kept.landmarks.recommended or -np.inf) > kept.result.fun:
            break
    else:
        pytest.fail("no such run")
    assert "no lower: take x" in said
    assert "at the recommended x" not in said
    assert _run(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "no lower: take x" in shown
    assert "recommended x" not in shown
    assert f"smallest {kept.landmarks.minimum:.6g}" in shown
    assert _run(["report", str(path), "--format", "md"]) == 0
    assert "recommended" not in capsys.readouterr().out


def _run(line):
    with pytest.raises(SystemExit) as ended:
        main(line)
    return ended.value.code


def test_tags_are_checked():
    assert checked_tags(["b", " a  b ", "b"]) == ("a b", "b")
    assert checked_tags(["<b>bold</b>"]) == ("<b>bold</b>",)  # any text: who shows it shows it as text
    for wrong in ([""], ["x" * (LONGEST + 1)], [str(i) for i in range(MOST + 1)], [7]):
        with pytest.raises(ValueError, match="tag"):
            checked_tags(wrong)
