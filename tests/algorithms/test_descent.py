"""An optimiser at work at several clients: each takes the steps that it takes alone, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fzoos import SGD, Adam
from fzoos.algorithms import descent
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


def moves(several: Descents, g: np.ndarray) -> np.ndarray:
    """What they subtract, times s = 2, in a box of half the width of the steps."""
    x, scales = np.zeros_like(g), np.full((len(g), 1), 2.0)
    return -several.moved(x, g, scales, lambda rows, out: np.clip(rows, -0.1, 0.1, out=out))


def alone_moves(descents: list[Descent], g: np.ndarray) -> np.ndarray:
    steps = [own(row) for own, row in zip(descents, g, strict=True)]
    return np.clip(2.0 * np.array(steps), -0.1, 0.1)


@pytest.mark.parametrize("optimizer", [Adam(0.1), Adam(0.1, restart=False), SGD(0.1), Normalised()])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 1e-7, 1.0)], ids=["usual", "one is small"])
@pytest.mark.parametrize("panels", [[slice(3)], [slice(2), slice(2, 3)]], ids=["at once", "in two parts"])
def test_several_step_as_each_does_alone(
    optimizer: Optimizer, scales: tuple[float, ...], panels: list[slice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one whose gradients are so small that it steps in its own units; and on, after they part."""
    monkeypatch.setattr(descent, "panels", lambda count, columns: panels)
    alone, ours = ([Descent(optimizer, DIM) for _ in range(CLIENTS)] for _ in range(2))
    several = Descents(ours, DIM)
    for step in range(3):
        g = gradients(step, scales)
        np.testing.assert_array_equal(moves(several, g), alone_moves(alone, g))
    several.close()
    g = gradients(9, scales)
    for own, other, row in zip(ours, alone, g, strict=True):
        assert own.largest == other.largest
        np.testing.assert_array_equal(own(row), other(row))


def test_states_of_other_ages() -> None:
    """One has taken a step more: Adam corrects its means for that."""
    alone, ours = ([Descent(Adam(0.1, restart=False), DIM) for _ in range(CLIENTS)] for _ in range(2))
    for descents in (alone, ours):
        descents[1](gradients(5)[1])
    g = gradients(0)
    np.testing.assert_array_equal(moves(Descents(ours, DIM), g), alone_moves(alone, g))


@pytest.mark.parametrize(("restart", "steps"), [(True, 0), (False, 1)])
def test_a_round_begins_anew_where_the_optimiser_restarts(restart: bool, steps: int) -> None:
    own = Descent(Adam(restart=restart), DIM)
    own(np.ones(DIM))
    own.start_round(DIM)
    assert own.state[0] == steps
