"""An optimiser at work at several clients: each takes the steps that it takes alone, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fzoos import SGD, Adam
from fzoos._util.arrays import to_device, to_numpy
from fzoos.algorithms.descent import Descent, Descents
from fzoos.algorithms.optimizers import Optimizer

CLIENTS, DIM = 3, 4


@dataclass(frozen=True)
class Normalised(Optimizer):
    """Steps of length one: a coordinate's depends on the others."""

    def init(self, dim: int) -> tuple[Any, ...]:
        return ()

    def step(self, state: tuple[Any, ...], gradient: Any) -> tuple[tuple[Any, ...], Any]:
        return state, gradient / np.linalg.norm(gradient)


def gradients(step: int, scales: tuple[float, ...] = (1.0, 1.0, 1.0)) -> np.ndarray:
    return np.random.default_rng(step).standard_normal((CLIENTS, DIM)) * np.array(scales)[:, None]


@pytest.mark.parametrize("optimizer", [Adam(0.1), Adam(0.1, restart=False), SGD(0.1), Normalised()])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 1e-7, 1.0)], ids=["usual", "one is small"])
def test_several_step_as_each_does_alone(optimizer: Optimizer, scales: tuple[float, ...], device: str | None) -> None:
    """With one whose gradients are so small that it steps in its own units; and on, after they part."""
    alone, ours = ([Descent(optimizer, DIM) for _ in range(CLIENTS)] for _ in range(2))
    several = Descents(ours, device)
    for step in range(3):
        g = gradients(step, scales)
        steps = to_numpy(several(to_device(g, device)))
        np.testing.assert_array_equal(steps, [descent(row) for descent, row in zip(alone, g, strict=True)])
    several.close()
    g = gradients(9, scales)
    for descent, other, row in zip(ours, alone, g, strict=True):
        assert descent.largest == other.largest
        np.testing.assert_array_equal(descent(row), other(row))


def test_states_of_other_ages() -> None:
    """One has taken a step more: Adam corrects its means for that."""
    alone, ours = ([Descent(Adam(0.1, restart=False), DIM) for _ in range(CLIENTS)] for _ in range(2))
    for descents in (alone, ours):
        descents[1](gradients(5)[1])
    g = gradients(0)
    np.testing.assert_array_equal(Descents(ours)(g), [descent(row) for descent, row in zip(alone, g, strict=True)])


@pytest.mark.parametrize(("restart", "steps"), [(True, 0), (False, 1)])
def test_a_round_begins_anew_where_the_optimiser_restarts(restart: bool, steps: int) -> None:
    descent = Descent(Adam(restart=restart), DIM)
    descent(np.ones(DIM))
    descent.start_round(DIM)
    assert descent.state[0] == steps
