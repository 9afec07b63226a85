"""States: flat dicts of named arrays and numbers, from which an object is restored. None stands for what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["StateDict", "generator_state", "part_of", "prefixed", "restore_generator"]

_MASK = 2**64 - 1

StateDict = dict[str, Any]
"""Arrays, numbers and None, by name."""


def prefixed(prefix: str, state: Mapping[str, Any]) -> StateDict:
    """The state of a part, to be merged into that of the whole."""
    return {f"{prefix}_{name}": value for name, value in state.items()}


def part_of(prefix: str, state: Mapping[str, Any]) -> StateDict:
    """The state of a part of the whole; empty where the part is missing."""
    start = prefix + "_"
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}


def generator_state(generator: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a generator that `numpy.random.default_rng` made, shape (6,)."""
    found: Any = generator.bit_generator.state
    state, inc = found["state"]["state"], found["state"]["inc"]
    numbers = (state >> 64, state & _MASK, inc >> 64, inc & _MASK, found["has_uint32"], found["uinteger"])
    return np.array(numbers, dtype=np.uint64)


def restore_generator(generator: np.random.Generator, state: NDArray[np.uint64]) -> None:
    """Give a generator the state that `generator_state` returned."""
    high, low, inc_high, inc_low, has_uint32, uinteger = map(int, state)
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
