"""Messages know their bytes; averages renormalise the weights."""

import dataclasses

import numpy as np
import pytest

from fzoos.federation.aggregate import aggregate as average
from fzoos.messages.message import Message


@pytest.mark.parametrize(
    ("arrays", "scalars", "expected"),
    [
        ({}, {}, 0),
        ({"x": np.zeros(300)}, {}, 2400),
        ({"x": np.zeros(300)}, {"seed": 7}, 2408),
        ({"x": np.zeros(3), "w": np.zeros(10_000)}, {"queries": 5, "length": 0.5}, 24 + 80_000 + 16),
        ({"l": np.zeros(1)}, {"a": 1, "b": 2, "c": 3}, 8 + 24),
    ],
)
def test_nbytes(arrays, scalars, expected):
    """8 bytes for every number, in arrays and beside them; kind and round are framing."""
    assert Message("update", 3, arrays, scalars).nbytes == expected


def test_message_is_frozen():
    """A message on its way is not changed."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Message("update", 1).round = 2


def test_average():
    """sum_i omega_i part_i, by hand: 0.2 (1, 2) + 0.3 (3, 4) + 0.5 (5, 8) = (3.6, 5.6)."""
    parts = [{"x": np.array(values)} for values in ([1.0, 2.0], [3.0, 4.0], [5.0, 8.0])]
    assert average(parts, np.array([0.2, 0.3, 0.5]))["x"] == pytest.approx([3.6, 5.6], abs=1e-14)


def test_average_renormalises():
    """Two of three answered, omega = (0.2, 0.6) of them: (1 * 0.2 + 5 * 0.6) / 0.8 = 4."""
    parts = [{"x": np.array([1.0]), "c": np.array([8.0])}, {"x": np.array([5.0]), "c": np.array([0.0])}]
    mean = average(parts, np.array([0.2, 0.6]))
    assert mean["x"] == pytest.approx([4.0], abs=1e-14)
    assert mean["c"] == pytest.approx([2.0], abs=1e-14)
    assert list(mean) == ["x", "c"]


def test_average_ignores_weight_zero():
    """A part of weight zero does not count."""
    parts = [{"x": np.array([0.25])}, {"x": np.array([1e9])}]
    assert average(parts, np.array([0.7, 0.0]))["x"][0] == 0.25


@pytest.mark.parametrize("count", range(1, 40))
def test_average_stays_between_its_parts(count):
    """The mean of equal parts is that part, bit for bit: rounding of the weights must not push x out of the box."""
    rng = np.random.default_rng(count)
    for weights in (np.full(count, 1.0 / count), rng.uniform(0.1, 1.0, count)):
        assert average([{"x": np.array([1.0, 0.0, 0.1])}] * count, weights)["x"].tolist() == [1.0, 0.0, 0.1]


def test_average_of_one_is_a_copy():
    """One participant: its own numbers, whatever its weight."""
    x = np.array([0.1, 0.7])
    mean = average([{"x": x}], np.array([0.3]))["x"]
    assert np.array_equal(mean, x)
    assert not np.shares_memory(mean, x)
