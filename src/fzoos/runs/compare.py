"""Runs side by side: where their settings differ, and F at equal cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fzoos.result import Record, Result

__all__ = ["AXES", "at_equal", "differing", "flatten"]

AXES: dict[str, Callable[[Record], float]] = {
    "rounds": lambda record: record.round,
    "queries": lambda record: record.queries,
    "bytes": lambda record: record.bytes_up + record.bytes_down,
}


def flatten(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Settings within settings as one list, with dots in their names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{before}{name}.")
        else:
            flat[f"{before}{name}"] = value
    return flat


def differing(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The settings that are not the same in all runs, with their value in each; None where a run does not have it."""
    flat = [flatten(one) for one in settings]
    names = {name: None for one in flat for name in one}
    table = {name: [one.get(name) for one in flat] for name in names}
    return {name: values for name, values in table.items() if any(value != values[0] for value in values)}


def at_equal(results: Sequence[Result], axis: str, parts: int = 4) -> list[tuple[int, list[float | None]]]:
    """F of each run at equal cost: at a quarter, a half, ... of the total cost of the cheapest of them.

    Returns:
        The cost, and F of each run in the last round that cost no more; None where there is none, or no monitor.
    """
    cost = AXES[axis]
    common = min((cost(result.history[-1]) if result.history else 0 for result in results), default=0)
    places = sorted({math.ceil(common * part / parts) for part in range(1, parts + 1)} - {0})
    return [(place, [_value(result, cost, place) for result in results]) for place in places]


def _value(result: Result, cost: Callable[[Record], float], limit: float) -> float | None:
    found = None
    for record in result.history:
        if cost(record) > limit:
            break
        found = record.monitor
    return found
