"""From the clients' arrays to the server's: the weighted mean, or a robust one that a few liars cannot move far.

Which of them holds against what is measured by `benchmarks/federation/robust.py`; docs/privacy.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Arrays

__all__ = ["AGGREGATES", "aggregate"]

_TRIMMED = 0.2  # of the clients, at either end
_CENTRINGS, _RADIUS = 3, 2.0  # of centred clipping: iterations, and the radius over the median distance


def aggregate(
    parts: Sequence[Arrays],
    weights: FloatArray,
    how: str = "mean",
    indicators: Mapping[str, slice] = MappingProxyType({}),
) -> dict[str, FloatArray]:
    """One array for each name, from all the parts, the weights renormalised over those who answered.

    Args:
        parts: the clients' arrays, of the same names and shapes.
        weights: omega of these clients.
        how: "mean": sum_i omega_i part_i; "median": coordinate by coordinate, weighted; "trimmed": the weighted mean
            without the smallest and the largest fifth of the clients (at least one, of three or more) in each
            coordinate; "clipped": the weighted mean, where parts that are far from the middle are brought closer.
        indicators: by the name of an array, its entries that are 0 or 1 and decide as soon as they are not 0. A single
            client's 1, brought closer, would still do so: with "clipped" they are trimmed.
    """
    weights = weights / weights.sum()
    stacked = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    made = {name: AGGREGATES[how](values, weights) for name, values in stacked.items()}
    if how == "clipped":
        for name in indicators.keys() & made.keys():
            made[name][indicators[name]] = _trimmed(stacked[name][:, indicators[name]], weights)
    return made


def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted mean over the first axis; rounding never takes it out of the values' range, nor x out of the box."""
    mean: FloatArray = np.dot(weights[None], values.reshape(len(values), -1)).reshape(values.shape[1:])
    mean = mean.clip(np.minimum.reduce(values), np.maximum.reduce(values))
    return mean


def _median(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The value with half of the weight on either side; the mean of two where a half ends between them."""
    order = np.argsort(values, axis=0, kind="stable")
    ranked, below = np.take_along_axis(values, order, axis=0), np.cumsum(weights[order], axis=0)
    low = np.argmax(below >= 0.5 - 1e-12, axis=0)[None]
    high = np.argmax(below > 0.5 + 1e-12, axis=0)[None]
    pair: FloatArray = np.take_along_axis(ranked, low, axis=0) + np.take_along_axis(ranked, high, axis=0)
    middle: FloatArray = 0.5 * pair[0]
    return middle


def _trimmed(values: FloatArray, weights: FloatArray) -> FloatArray:
    n = len(values)
    cut = max(1, int(_TRIMMED * n)) if n > 2 else 0
    order = np.argsort(values, axis=0, kind="stable")[cut : n - cut]
    inner, weight = np.take_along_axis(values, order, axis=0), weights[order]
    mean: FloatArray = np.clip((inner * weight).sum(axis=0) / weight.sum(axis=0), inner[0], inner[-1])
    return mean


def _clipped(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Centred clipping (Karimireddy, He and Jaggi 2021): from the median v, three times

        v <- v + sum_i omega_i min(1, tau / ||p_i - v||) (p_i - v),      tau = 2 median_i ||p_i - v||

    A liar moves v by omega_i tau at most, wherever it is. Parts that all lie within tau, as those of honest clients
    mostly do, give the weighted mean, bit for bit.
    """
    size = float(np.max(np.abs(values))) or 1.0  # so that squares do not overflow
    parts, shares = values / size, np.ones(len(values))
    centre = _median(parts, weights)
    for _ in range(_CENTRINGS):
        away = parts - centre
        distances = np.linalg.norm(away.reshape(len(parts), -1), axis=1)
        radius = _RADIUS * float(np.median(distances))
        far, shares = distances > radius, np.ones(len(parts))
        shares[far] = radius / distances[far]
        centre = centre + np.tensordot(weights * shares, away, axes=1)
    if np.all(shares == 1.0):
        return _mean(values, weights)
    return np.clip(size * centre, values.min(axis=0), values.max(axis=0))


AGGREGATES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "mean": _mean,
    "median": _median,
    "trimmed": _trimmed,
    "clipped": _clipped,
}
"""By the name used in a study."""
