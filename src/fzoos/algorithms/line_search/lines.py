"""The server's arithmetic after a round: the step along a line, and how much the clients differ.

step        the minimum of a parabola through the lowest t and its neighbours; the lower minimum of both lines wins
differ      G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1 over 16 directions U_0 that all query
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.line_search.client import LINE

__all__ = ["Step", "best_step", "differences"]

_TIE = 1e-9  # of two lines that are equal except for rounding the first is taken


class Step(NamedTuple):
    """A move: the line (1 or 2; 0: none), the length, and where the first line is lowest."""

    line: int
    length: float
    first: float = 0.0


def best_step(values: FloatArray, failed: FloatArray, step_size: float) -> Step:
    """Return the line with the lowest predicted value of F, and where on it.

    `values` are F(x + t v) - F(x), shape (2, 3); places where a client had no value (`failed` > 0) are left out.
    """
    best, found, first = 0.0, Step(0, 0.0), 0.0
    for k, (row, missing) in enumerate(zip(values.tolist(), failed.tolist(), strict=True)):
        there = [j for j, weight in enumerate(missing) if weight == 0.0]
        promise, place = _lowest([0.0, *(step_size * LINE[j] for j in there)], [0.0, *(row[j] for j in there)])
        if k == 0:
            first = place or 0.5 * step_size * LINE[0]  # before the nearest place
        if promise < best - _TIE * abs(best):
            best, found = promise, Step(k + 1, place)
    return found._replace(first=first)


def _lowest(places: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return value and place of the minimum of the parabola through the lowest value and its neighbours."""
    low, last = values.index(min(values)), len(places) - 1
    if last < 2 or low == last or not places[-1] > 0.0:
        return values[low], places[low]
    left = max(0, min(low - 1, last - 2))
    t, f = [place / places[-1] for place in places[left : left + 3]], values[left : left + 3]
    first, second = (f[1] - f[0]) / (t[1] - t[0]), (f[2] - f[1]) / (t[2] - t[1])
    bend = (second - first) / (t[2] - t[0])
    if not bend > 0.0:
        return values[low], places[low]
    vertex = 0.5 * (t[0] + t[1]) - 0.5 * first / bend
    vertex = min(max(vertex, places[max(low - 1, 0)] / places[-1]), places[low + 1] / places[-1])
    value = f[0] + first * (vertex - t[0]) + bend * (vertex - t[0]) * (vertex - t[1])
    return value, vertex * places[-1]


def differences(common: float, mean: float) -> float:
    """Return G' = mean |U_0 fresh_i|^2 / |U_0 fresh|^2 - 1; infinite if `common` is left out."""
    return max(common - mean, 0.0) / mean if mean > 0.0 and common > 0.0 else math.inf
