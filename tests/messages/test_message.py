"""Messages know their bytes; averages renormalise the weights."""

import dataclasses

import numpy as np
import pytest

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
