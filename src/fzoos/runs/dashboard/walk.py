"""Where x went: the coordinates that moved most, in so many rounds as a plot can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.space import box_of, space_of

__all__ = ["COORDINATES", "ROUNDS", "walk"]

COORDINATES = 20  # drawn at most
ROUNDS = 400  # drawn at most, at equal distances, the last among them


def walk(settings: Mapping[str, Any], rounds: Sequence[int], points: Sequence[FloatArray]) -> dict[str, Any]:
    """The coordinates of x over the rounds, as columns.

    Those that moved most are taken, as shares of the width of the box where it has one, and kept in their order.

    Args:
        settings: the settings that the run was started with.
        rounds: the rounds, 0 for the start.
        points: x after each of them.

    Example:
        >>> import numpy as np
        >>> from fzoos.runs.dashboard.walk import walk
        >>> walk({"bounds": [[0, 1], [0, 1]]}, [0, 1], [np.array([0.5, 0.5]), np.array([0.5, 0.25])])
        {'names': ['x1', 'x2'], 'dim': 2, 'round': [0, 1], 'x': [[0.5, 0.5], [0.5, 0.25]]}
    """
    if not len(points):
        return {"names": [], "dim": 0, "round": [], "x": []}
    x = np.array(points)
    dim = x.shape[1]
    moved = np.ptp(x, axis=0) / _widths(settings, dim)
    chosen = np.sort(np.argsort(-np.nan_to_num(moved), kind="stable")[:COORDINATES])
    names = _names(settings, dim)
    return {
        "names": [names[i] for i in chosen],
        "dim": dim,
        "round": list(rounds),
        "x": [[float(f"{value:.8g}") for value in x[:, i]] for i in chosen],
    }


def _names(settings: Mapping[str, Any], dim: int) -> list[str]:
    space = space_of(settings.get("bounds"))
    found = [] if space is None else list(space.coordinates)
    return found if len(found) == dim else [f"x{i + 1}" for i in range(dim)]


def _widths(settings: Mapping[str, Any], dim: int) -> FloatArray | float:
    try:
        widths = np.asarray(box_of(settings["bounds"], dim, settings.get("scale")).widths, dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        return 1.0
    return np.where(widths > 0.0, widths, 1.0) if widths.shape == (dim,) else 1.0
