"""What a client asks: before its first round, around the server's x, and after each local step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.surroundings import QueryDesign, Surroundings
from fzoos.objectives.trajectory import Purpose

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["Queries"]


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
        if self._settings.active is None:
            self._uncertainty(x, np.empty((0, len(x))))
        else:
            self._ask(self._settings.active, x, "active")
        self._shares.append(self._share)

    def end(self, x: FloatArray) -> None:
        """Note where the local steps ended."""
        self._last = x

    def diagnostics(self) -> dict[str, float]:
        """Posterior over prior trace (1: nothing is known), mean over the local steps that were followed by queries."""
        return {"uncertainty": float(np.mean(self._shares))} if self._shares else {}

    def _ask(self, design: QueryDesign, x: FloatArray, purpose: Purpose) -> FloatArray:
        own = self._half_spread(x) if design.radius is None else design.radius
        radius = max(own, self._model.least_radius)
        nearest, uncertainty = partial(self._nearest, x), partial(self._uncertainty, x)
        here = Surroundings(x, radius, self._context.rng, nearest, uncertainty)
        return self._context.query(design.around(here), purpose)

    def _half_spread(self, x: FloatArray) -> float:
        """Half the mean |x_r - x_i|; where that is zero or unknown, the initial design's radius."""
        spread = 0.0 if self._last is None else 0.5 * float(np.mean(np.abs(x - self._last)))
        return spread if spread > 0.0 else self._settings.initial.radius

    def _nearest(self, x: FloatArray, count: int) -> FloatArray:
        """The `count` points nearest to x, the nearest first."""
        near, _ = self._model.nearest(x, count)
        return near[np.argsort(np.sum((near - x) ** 2, axis=1), kind="stable")]

    def _uncertainty(self, x: FloatArray, points: FloatArray) -> FloatArray:
        """trace Sigma_grad where the points would be asked; that at x, in the same product, is noted."""
        gp = self._model.at(x)
        traces = gp.grad_uncertainty(np.concatenate([x[None, :], self._context.project(points)]))
        self._share = float(traces[0]) / gp.prior_trace
        return traces[1:]
