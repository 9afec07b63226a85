"""Reference values of a run, which are stored once: F at x0, the smallest F, the task, tags."""

import numpy as np
import pytest

from fzoos import FedZO, minimize
from fzoos.runs.reader import read
from fzoos.runs.rows import LONGEST_TAG, MOST_TAGS, checked_tags
from fzoos.runs.store import Store
from fzoos_experiments.tasks import Levy, Quadratic


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
        found = read(f"{tmp_path}/runs.db:{run}").summary
        assert found.minimum == pytest.approx(task.value(task.minimizer), abs=1e-15)
        assert found.start == task.value(task.x0)
        with Store(tmp_path / "runs.db") as store:
            assert np.array_equal(store.x_after_rounds(run)[0], task.x0)
        assert found.task == f"{kind.name} C=2 d=3 N=2"


def test_a_monitor_of_ones_own(tmp_path):
    keep(tmp_path / "runs.db")
    found = read(str(tmp_path)).summary
    assert (found.start, found.minimum, found.task) == (2.0, None, "")
    with Store(tmp_path / "runs.db") as store:
        assert store.x_after_rounds(1)[0].tolist() == [1.0, 1.0]


def test_a_monitor_that_raises_is_reported_by_the_round_and_not_before(tmp_path):
    def broken(x):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError) as error:
        keep(tmp_path / "runs.db", monitor=broken)
    assert "after round 1" in error.value.__notes__[0]
    assert read(str(tmp_path)).summary.start is None


def test_without_a_store_the_monitor_is_asked_once_a_round():
    asked = []
    keep(None, monitor=lambda x: asked.append(x) or 0.0)
    assert len(asked) == 3


def test_tags_are_checked():
    assert checked_tags(["b", " a  b ", "b"]) == ("a b", "b")
    assert checked_tags(["<b>bold</b>"]) == ("<b>bold</b>",)  # any text: who shows it shows it as text
    for wrong in ([""], ["x" * (LONGEST_TAG + 1)], [str(i) for i in range(MOST_TAGS + 1)], [7]):
        with pytest.raises(ValueError, match="tag"):
            checked_tags(wrong)
