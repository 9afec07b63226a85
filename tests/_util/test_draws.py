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
@pytest.mark.parametrize("block", [1, 60, 1000], ids=["one by one", "by twos", "all at once"])
@pytest.mark.parametrize("ahead", [True, False])
def test_each_has_its_own_generators_numbers(
    device: str | None, block: int, large: int, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "_LARGE", large)
    monkeypatch.setattr(draws, "_BLOCK", block)
    drawn = Draws(generators(), SHAPE, times=3, device=device)
    wanted = [rng.random((3, *SHAPE)) for rng in generators()]
    for step in range(3):
        if ahead:
            drawn.begin()
            drawn.begin()  # it has begun
        taken = drawn.take()
        np.testing.assert_array_equal(to_numpy(taken), [numbers[step] for numbers in wanted])
        taken *= 0.0  # the caller's to write to

    with pytest.raises(ValueError, match="all have been taken"):
        drawn.take()


@pytest.mark.parametrize("block", [1, 60, 1000], ids=["one by one", "by twos", "all at once"])
@pytest.mark.parametrize("large", [1, 1000])
@pytest.mark.parametrize("taken", [0, 2, 3])
@pytest.mark.parametrize("ahead", [True, False])
def test_what_was_drawn_and_not_taken_has_not_been(
    taken: int, block: int, large: int, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "_LARGE", large)
    monkeypatch.setattr(draws, "_BLOCK", block)
    rngs = generators()
    drawn = Draws(rngs, SHAPE, times=4)
    for _ in range(taken):
        drawn.take()
    if ahead:
        drawn.begin()
    drawn.close()
    drawn.close()
    for rng, fresh in zip(rngs, generators(), strict=True):
        fresh.random((taken, *SHAPE))
        assert rng.bit_generator.state == fresh.bit_generator.state
