"""The nearest points that a design remembers: against a search through all of them."""

import numpy as np
import pytest

from fzoos.algorithms.line_search.memory import Memory
from fzoos.objectives.trajectory import Trajectory

DIM = 6


def add(trajectory, x):
    trajectory.add(x, x.sum(axis=1))


def by_search(trajectory, x, count, allowed):
    """Sort all allowed points by their squared distance to nine digits, of equal ones the newest first."""
    order = sorted(allowed, key=lambda j: (round(float(np.sum((trajectory.x[j] - x) ** 2)), 9), -j))
    return order[:count]


@pytest.mark.parametrize("step", [0.0, 1e-6, 1e-2, 0.3], ids=("standing", "creeping", "walking", "jumping"))
@pytest.mark.parametrize("seed", range(3))
def test_nearest(step, seed):
    """In every round of a walk with designs, some points private and some left out, the list is that of a search."""
    rng = np.random.default_rng(seed)
    trajectory = Trajectory(DIM)
    memory, x, left_out, private = Memory(trajectory), np.full(DIM, 0.5), set(), set()
    for client_index in range(25):
        first, radius = len(trajectory), rng.choice([0.1, 0.02, 1e-5])
        star = x + radius * np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
        add(trajectory, np.vstack([x, star]))
        if client_index % 3 == 1:
            memory.mark_private(first + 1)
            private |= set(range(first + 1, len(trajectory)))
        wrong = rng.integers(first, len(trajectory), client_index % 2)
        memory.exclude(wrong)
        left_out |= set(wrong)
        for with_private in (True, False):
            allowed = set(range(len(trajectory))) - left_out - (set() if with_private else private)
            found = memory.nearest(x, 2 * DIM + 1, private=with_private).numbers
            assert list(found) == by_search(trajectory, x, 2 * DIM + 1, allowed)
        x = x + step * rng.standard_normal(DIM)


def test_around():
    """Offsets and squares are those of the numbers, in whichever order these are wanted."""
    rng = np.random.default_rng(0)
    trajectory = Trajectory(DIM)
    add(trajectory, rng.random((40, DIM)))
    x, memory = np.full(DIM, 0.5), Memory(trajectory)
    nearest = memory.nearest(x, 13, private=True).numbers
    for arranged, wanted in ((None, nearest), (np.sort, np.sort(nearest)), (lambda n: n[::-1], nearest[::-1])):
        near = memory.nearest(x, 13, private=True, arranged=arranged)
        np.testing.assert_array_equal(near.numbers, wanted)
        np.testing.assert_array_equal(near.offsets, trajectory.x[wanted] - x)
        np.testing.assert_allclose(near.squares, np.sum((trajectory.x[wanted] - x) ** 2, axis=1), rtol=1e-14)


def test_nothing_to_find():
    """Where all points are left out there are none."""
    trajectory = Trajectory(DIM)
    memory = Memory(trajectory)
    assert len(memory.nearest(np.zeros(DIM), 5, private=True).numbers) == 0
    add(trajectory, np.zeros((2, DIM)))
    memory.exclude([0, 1])
    assert len(memory.nearest(np.zeros(DIM), 5, private=True).numbers) == 0


class Measured:
    """A trajectory whose squared distances from 0 are known with an error."""

    dim = 1

    def __init__(self, squares, rough, error):
        self.x, self._rough, self._error = np.sqrt(squares)[:, None], np.array(rough), error

    def __len__(self):
        return len(self.x)

    def rough_distances(self, x, numbers):
        return self._rough[numbers], self._error


@pytest.mark.parametrize(("error", "found"), [(0.0015, 0), (0.0014, 1)])
def test_two_points_may_both_be_off(error, found):
    """0.0100 seems to be 0.0115 and 0.0101 seems to be 0.0086. They are 0.0029 apart, which two errors of 0.0015
    explain and two of 0.0014 do not, nor does a single one."""
    memory = Memory(Measured([0.0100, 0.0101], [0.0115, 0.0086], error))
    assert memory.nearest(np.zeros(1), 1, private=True).numbers.tolist() == [found]


@pytest.mark.parametrize(("second", "found"), [(0.2500000004, 1), (0.2500000006, 0)])
def test_points_that_are_equal_to_nine_digits(second, found):
    """Without any error: of 0.25 and a number that is 0.25 to nine digits the newer is taken."""
    memory = Memory(Measured([0.25, second], [0.25, second], 0.0))
    assert memory.nearest(np.zeros(1), 1, private=True).numbers.tolist() == [found]
