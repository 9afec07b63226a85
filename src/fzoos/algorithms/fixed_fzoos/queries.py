"""What a client asks: before its first round, around the server's x, and after each local step."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import Array, FloatArray, namespace, to_device
from fzoos._util.together import GoOn, jointly, raise_it
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.query_designs import ActiveQueries
from fzoos.algorithms.fixed_fzoos.surroundings import QueryDesign, Surroundings
from fzoos.objectives.trajectory import Purpose
from fzoos.surrogates.local import LocalSurrogates

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["Queries", "explore"]


class Queries:
    """Asks what the settings' designs say.

    Args:
        settings: the algorithm's settings.
        context: what the client half works with.
        model: says how uncertain points are, and how far from x noise makes it worth asking.
    """

    def __init__(self, settings: FixedFZooS, context: ClientContext, model: Model) -> None:
        self._settings, self._context, self._model = settings, context, model
        self._last: FloatArray | None = None  # where the last local steps ended, x_i
        self._share = 0.0  # latest uncertainty at x, over the prior's
        self._shares: list[float] = []  # after each local step of the round

    def start_round(self) -> None:
        """Forget the uncertainties of the round before."""
        self._shares = []

    def initial(self, x: FloatArray) -> float | None:
        """Ask the initial design around x; the observation at x, if x is part of the design."""
        initial = self._settings.initial
        y = self._ask(initial, x, "initial")
        return float(y[0]) if initial.asks_x else None

    def refresh(self, x: FloatArray) -> float:
        """Ask the server's x and around it; the observation at x."""
        design = self._settings.refresh
        if design is None:
            raise TypeError("FZooS without `refresh` has no refresh exchange")
        if design.asks_x:
            return float(self._ask(design, x, "refresh")[0])
        y = self._context.query(x[None, :], "refresh")
        self._ask(design, x, "refresh")
        return float(y[0])

    def explore(self, x: FloatArray) -> None:
        """Ask around the iterate x, where there are active queries; note how uncertain the gradient was before."""
        there = to_device(x[None], self._settings.device)
        explore([self], Model.several([self._model]), x[None], there, raise_it)

    def end(self, x: FloatArray) -> None:
        """Note where the local steps ended."""
        self._last = x

    def diagnostics(self) -> dict[str, float]:
        """Posterior over prior trace (1: nothing is known), mean over the local steps that were followed by queries."""
        return {"uncertainty": float(np.mean(self._shares))} if self._shares else {}

    def _ask(self, design: QueryDesign, x: FloatArray, purpose: Purpose) -> FloatArray:
        if isinstance(design, ActiveQueries):
            points = jointly(_choose_apart, (self, x, design), self.key)
        else:
            here = Surroundings(x, self._radius(design, x), self._context.rng, partial(self._nearest, x))
            points = design.around(here)
        return self._context.query(points, purpose)

    @property
    def key(self) -> Hashable:
        """Equal for clients that can choose their queries at once."""
        return id(self._settings), id(self._context.trajectory.box)

    def _radius(self, design: QueryDesign, x: FloatArray) -> float:
        own = self._half_spread(x) if design.radius is None else design.radius
        return max(own, self._model.least_radius)

    def _half_spread(self, x: FloatArray) -> float:
        """Half the mean |x_r - x_i|; where that is zero or unknown, the initial design's radius."""
        spread = 0.0 if self._last is None else 0.5 * float(np.mean(np.abs(x - self._last)))
        return spread if spread > 0.0 else self._settings.initial.radius

    def _nearest(self, x: FloatArray, count: int) -> FloatArray:
        """The `count` points nearest to x, the nearest first."""
        near, _ = self._model.nearest(x, count)
        return near[np.argsort(np.sum((near - x) ** 2, axis=1), kind="stable")]


# Of one client, or of several with the same settings at once


def explore(
    several: Sequence[Queries], surrogates: LocalSurrogates, x: FloatArray, there: Array, go_on: GoOn
) -> list[int] | None:
    """Ask around the iterates x, and note how uncertain the gradients were before.

    Args:
        several: the clients' queries.
        surrogates: their surrogates.
        x: shape (N, d).
        there: x on the device.
        go_on: whom to tell when one fails.

    Returns:
        who has failed; None: the others do not go on.
    """
    design, failed = several[0]._settings.active, list[int]()
    surrogates.condition(x)
    if design is None:
        _uncertainty(several, surrogates, there, None)
    else:
        for i, points in enumerate(_choose(several, surrogates, design, x, there)):
            try:
                several[i]._context.query(points, "active")
            except Exception as error:
                if not go_on(i, error):
                    return None
                failed.append(i)
    for queries in several:
        queries._shares.append(queries._share)
    return failed


def _choose_apart(items: Sequence[tuple[Queries, FloatArray, ActiveQueries]], go_on: GoOn) -> Sequence[FloatArray]:
    """The points that each is to ask around its x."""
    several = [queries for queries, _, _ in items]
    surrogates = Model.several([queries._model for queries in several])
    x = np.stack([x for _, x, _ in items])
    surrogates.condition(x)
    chosen = _choose(several, surrogates, items[0][2], x, to_device(x, several[0]._settings.device))
    surrogates.close()
    return list(chosen)


def _choose(
    several: Sequence[Queries], surrogates: LocalSurrogates, design: ActiveQueries, x: FloatArray, there: Array
) -> FloatArray:
    """The most uncertain candidates around each row of x, shape (N, picks, d)."""
    radius = np.array([queries._radius(design, row) for queries, row in zip(several, x, strict=True)])
    rngs = [queries._context.rng for queries in several]
    uncertainty = partial(_uncertainty, several, surrogates, there)
    return design.around_several(x, there, radius, rngs, uncertainty, several[0]._settings.device)


def _uncertainty(
    several: Sequence[Queries], surrogates: LocalSurrogates, there: Array, points: Array | None
) -> FloatArray:
    """trace Sigma_grad where the points, shape (N, n, d), would be asked; that at x, in the same product, is noted."""
    places = there[:, None, :]
    if points is not None:
        places = namespace(places).concat([places, several[0]._context.project(points)], axis=1)
    traces = surrogates.grad_uncertainty(places)
    for queries, share in zip(several, (traces[:, 0] / surrogates.prior_trace).tolist(), strict=True):
        queries._share = share
    return traces[:, 1:]
