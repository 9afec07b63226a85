"""FedLineSearch and FedTrustRegion with one mechanism switched off for the length of a run.

They have no settings for these: a switch replaces a constant or a method of their modules, and restores it afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.fft import dct

from benchmarks.beyond.fair.entrants import OURS, OURS_FEW
from fzoos._util.arrays import FloatArray
from fzoos.algorithms.line_search import client as design
from fzoos.algorithms.line_search import directions, memory, scales, server
from fzoos.algorithms.line_search.server import Step, best_step
from fzoos.algorithms.trust_region import client as region
from fzoos.algorithms.trust_region import global_correction, neighbours
from fzoos.surrogates import region as surrogate

Replaced = Mapping[tuple[Any, str], Any]  # (module or class, name): what is there instead


@contextmanager
def replaced(changes: Replaced) -> Iterator[None]:
    """Names that mean something else inside the with statement."""
    before = {(where, name): getattr(where, name) for where, name in changes}
    try:
        for (where, name), value in changes.items():
            setattr(where, name, value)
        yield
    finally:
        for (where, name), value in before.items():
            setattr(where, name, value)


def _first_line_only(values: FloatArray, failed: FloatArray, reach: float) -> Step:
    return best_step(values[:1], failed[:1], reach)


def _same_radius(*given: Any) -> scales.Scales:
    return scales.next_scales(*given)._replace(radius=scales.FIRST_RADIUS)


def _all_directions(after: scales.Scales, *given: Any) -> scales.Scales:
    return after._replace(size=0.0)


def _with_private(method: Callable[..., Any]) -> Callable[..., Any]:
    """`Memory.nearest` with the points that only this client has queried."""
    return lambda self, x, count, *, private, arranged=None: method(self, x, count, private=True, arranged=arranged)


def _one_transform(rows: FloatArray, seed: int, basis: int, which: range) -> None:
    """Rows e_p C S."""
    dim, rng = rows.shape[1], np.random.default_rng([seed, basis])
    order, signs = rng.permutation(dim), rng.choice([-1.0, 1.0], (2, dim))
    chosen = np.zeros((len(which), dim))
    chosen[np.arange(len(which)), order[which.start : which.stop : which.step]] = 1.0
    rows[:] = signs[1] * dct(chosen, norm="ortho")


def _transformed_once(seed: int, basis: int, dim: int, which: range) -> FloatArray:
    """The common directions, computed again at each call."""
    rows = np.empty((len(which), dim))
    _one_transform(rows, seed, basis, which)
    return rows


def _without(name: str, empty: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that finds an attribute of its object empty."""

    def called(self: Any, *given: Any) -> Any:
        stored = getattr(self, name)
        setattr(self, name, empty)
        try:
            return method(self, *given)
        finally:
            setattr(self, name, stored)

    return called


def _all_credible(values: FloatArray) -> Any:
    return np.ones(len(values), dtype=bool)


def _whatever_was_used(method: Callable[..., float]) -> Callable[..., float]:
    """`RegionClient._power` with Delta = 0, which it needs only to see how much of it was used."""
    return lambda self, x, delta, *given: method(self, x, 0.0, *given)


OUTLIER_RULE = "no outlier rule"
_OUTLIERS: Replaced = {
    (design, "credible_values"): _all_credible,
    (neighbours, "credible_values"): _all_credible,
    (surrogate.RegionProcess, "outliers"): lambda self: [],
}

MANY: dict[str, Replaced] = {
    OURS: {},
    "always shared": {(server, "_SIMILAR"): 0.0},
    "always split": {(server, "_SIMILAR"): math.inf},
    "no memory line": {(server, "best_step"): _first_line_only},
    "radius 0.1": {(server, "next_scales"): _same_radius},
    "all directions": {(server, "first_size"): _all_directions, (server, "next_size"): _all_directions},
    "one cosine transform": {(directions, "_transform"): _one_transform, (directions, "_common"): _transformed_once},
    "private points remembered": {(memory.Memory, "nearest"): _with_private(memory.Memory.nearest)},
    OUTLIER_RULE: _OUTLIERS,
}
"""By the label in the table: many dimensions."""

FEW: dict[str, Replaced] = {
    OURS_FEW: {},
    "DANE's correction alone": {(global_correction, "_MEMORY"): 1, (global_correction, "_LEAST_MEMORY"): 1},
    "no bowl": {(surrogate, "_BOWL"): surrogate._NONE},
    "no quadratic": {(surrogate, "_QUADRATIC"): surrogate._BOWL},
    "no polynomial at all": {(surrogate, "_BOWL"): surrogate._NONE, (surrogate, "_QUADRATIC"): surrogate._NONE},
    "no reach": {(neighbours, "_FARTHEST"): math.inf},
    "Delta doubles whatever was used": {
        (region.RegionClient, "_power"): _whatever_was_used(region.RegionClient._power)
    },
    "no Delta / 10 rule": {(region, "_SMALL"): 0.0},
    "a random direction": {
        (region.RegionClient, "_query_around"): _without("process", None, region.RegionClient._query_around)
    },
    OUTLIER_RULE: _OUTLIERS,
}
"""The same, few dimensions."""
