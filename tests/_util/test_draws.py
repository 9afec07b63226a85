"""Numbers that are drawn before they are needed are those that would be drawn later."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos._util import draws
from fzoos._util.arrays import to_numpy
from fzoos._util.draws import Draws

SHAPE = 2, 3


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(5)]


@pytest.mark.parametrize("large", [1, 1000])
@pytest.mark.parametrize("ahead", [True, False])
def test_each_has_its_own_generators_numbers(
    device: str | None, large: int, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "_LARGE", large)
    drawn = Draws(generators(), SHAPE, device)
    wanted = [rng.random((3, *SHAPE)) for rng in generators()]
    for step in range(3):
        if ahead:
            drawn.begin()
            drawn.begin()  # it has begun
        taken = drawn.take()
        np.testing.assert_array_equal(to_numpy(taken), [numbers[step] for numbers in wanted])
        taken *= 0.0  # the caller's to write to


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("between", [0, 2])
def test_what_was_begun_and_not_taken_has_not_been(before: int, between: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some that were drawn when they were needed, and some that were drawn ahead."""
    monkeypatch.setattr(draws, "_LARGE", 1)
    rngs = generators()
    drawn = Draws(rngs, SHAPE)
    for _ in range(before):
        drawn.take()
    for _ in range(between):
        drawn.begin()
        drawn.take()
    drawn.begin()
    drawn.close()
    drawn.close()
    for rng, fresh in zip(rngs, generators(), strict=True):
        fresh.random((before + between, *SHAPE))
        assert rng.bit_generator.state == fresh.bit_generator.state
