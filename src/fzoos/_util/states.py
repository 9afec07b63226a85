"""States: flat dicts of named arrays and numbers, from which an object is restored. None stands for what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["StateDict", "part_of", "prefixed"]

StateDict = dict[str, Any]
"""Arrays, numbers and None, by name."""


def prefixed(prefix: str, state: Mapping[str, Any]) -> StateDict:
    """The state of a part, to be merged into that of the whole."""
    return {f"{prefix}_{name}": value for name, value in state.items()}


def part_of(prefix: str, state: Mapping[str, Any]) -> StateDict:
    """The state of a part of the whole; empty where the part is missing."""
    start = prefix + "_"
    return {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
