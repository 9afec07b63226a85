"""Old data of a client: points and values from before the run, which it never sends."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Box, Objective
from fzoos.objectives.space import Space

__all__ = ["WithPrior", "read_prior"]

Data = tuple[FloatArray, FloatArray]


class WithPrior:
    """An objective with data from before the run, on which its client's surrogate is conditioned; they are never sent.

    Args:
        objective: the client's f_i, without constraints.
        data: a pair (points, values), or the path of a CSV file (columns x1, x2, ... or the variables' names, and
            value). Only algorithms with a surrogate use them.

    Example:
        >>> from fzoos import WithPrior, minimize
        >>> bowl = lambda x: float(x @ x)
        >>> known = WithPrior(bowl, ([[0.5, 0.0], [0.0, 0.5]], [0.25, 0.25]))
        >>> minimize(known, [0.9, 0.9], bounds=(-1, 1), rounds=3, rng=0).success
        True
    """

    def __init__(self, objective: Objective, data: Any) -> None:
        self.objective, self.data = objective, data

    def __call__(self, x: Any) -> Any:
        return self.objective(x)


def read_prior(given: Any, box: Box, where: str = "prior") -> Data:
    """Return points in the user's coordinates, shape (n, d), and their values, shape (n,), without those that are NaN.

    Args:
        given: a pair of points and values, or the path of a CSV file with a column for each coordinate (x1, x2, ...) or
            variable and one named value; other columns are ignored. None: no data. Points of named variables are
            dicts.
        box: the search box; a point outside it is an error.
        where: the name of the data in error messages.
    """
    space: Space | None = getattr(box, "space", None)
    if given is None:
        return np.empty((0, len(box.lower))), np.empty(0)
    if isinstance(given, (str, os.PathLike)):
        points, values = _from_csv(Path(given), len(box.lower), space)
    elif isinstance(given, (tuple, list)) and len(given) == 2:
        points, values = given
    else:
        raise TypeError(f"{where} must be a pair of points and values, or the path of a CSV file, got {given!r}")
    if space is not None and len(points) and isinstance(points[0], Mapping):
        points = [space.corner(point) for point in points]
    try:
        x, y = np.array(points, dtype=np.float64), np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{where} must hold numbers") from None
    if not x.size:
        x = x.reshape(0, len(box.lower))
    if x.shape != (len(y), len(box.lower)) or y.ndim != 1:
        raise ValueError(
            f"{where} must have points of shape (n, {len(box.lower)}) and n values, got {x.shape} and {y.shape}"
        )
    good = np.isfinite(y)
    x, y = x[good], y[good]
    if not np.all(np.isfinite(x)):
        raise ValueError(f"{where} holds points with NaN or infinity")
    u = box.scale(x)
    away = np.flatnonzero(np.max(np.abs(box.project(u) - u), axis=1, initial=0.0) > 1e-9)
    if len(away):
        raise ValueError(f"{where} has a point outside the bounds: {x[away[0]].tolist()}")
    return x, y


def _from_csv(path: Path, dim: int, space: Space | None) -> tuple[Sequence[Any], list[float]]:
    names = [f"x{j + 1}" for j in range(dim)] if space is None else list(space.names)
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        for name in (*names, "value"):
            if name not in (reader.fieldnames or ()):
                raise ValueError(f"{path} has no column {name!r}; it must have {', '.join(names)} and value")
        points: list[Any] = []
        values: list[float] = []
        for number, row in enumerate(reader, start=2):
            try:
                values.append(float(row["value"] or "nan"))
                row = {name: row[name] for name in names}
                points.append([float(text) for text in row.values()] if space is None else space.read(row))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
    return points, values
