"""Values from people: what is asked, what can be told, and that nothing wrong is taken."""

import threading

import numpy as np
import pytest

from fzoos import ManualObjective
from fzoos.result import NotAsked

X = np.array([[0.5, 0.25], [0.1, 0.2], [0.5, 0.25]])


def test_asked_once_and_answered(tmp_path):
    """A point that comes twice in a batch is asked for once; told values answer the same batch ever after."""
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(NotAsked, match="a waits for the values of 2 points"):
        site(X)
    wanted = site.wanted()
    assert [x for _, x in wanted] == [[0.5, 0.25], [0.1, 0.2]]
    assert site.tell([(wanted[0][0], 3.0)]) == 1
    assert [x for _, x in site.wanted()] == [[0.1, 0.2]]
    assert ManualObjective(tmp_path, "a").tell([(wanted[1][0], 0.1)]) == 1  # another process, another day
    assert ManualObjective(tmp_path, "a")(X).tolist() == [3.0, 0.1, 3.0]
    assert site.wanted() == []


def test_points_travel_exactly(tmp_path):
    """The id depends on every bit of the point, and the point printed is the point asked."""
    x = np.array([[1 / 3, np.nextafter(1 / 3, 1)]])
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(NotAsked):
        site(x)
    assert site.wanted()[0][1] == x[0].tolist()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("nonsense", 1.0), "'nonsense' is not among the points that a is asked for"),
        (("first", float("nan")), "must be a finite number, got nan"),
        (("again", 2.0), "was given before: 1, not 2"),
    ],
)
def test_all_or_none(tmp_path, told, message):
    """One wrong row, and none of them is taken."""
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(NotAsked):
        site(X)
    ids = [id for id, _ in site.wanted()]
    site.tell([(ids[0], 1.0)])
    wrong = {"first": ids[1], "again": ids[0]}.get(told[0], told[0])
    with pytest.raises(ValueError, match=message):
        site.tell([(wrong, told[1]), (ids[1], 5.0)])
    assert set(site.values()) == {ids[0]}


def test_waits(tmp_path):
    """With `wait` a call comes back when the values are told."""
    site = ManualObjective(tmp_path, "a", wait=True)
    found = []
    thread = threading.Thread(target=lambda: found.append(site(X[:1])))
    thread.start()
    other = ManualObjective(tmp_path, "a")
    while not other.wanted():
        assert thread.is_alive()
    other.tell([(other.wanted()[0][0], 7.0)])
    thread.join()
    assert found[0].tolist() == [7.0]
