"""What a client asks: before its first round, around the server's x, and after each local step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import Array, FloatArray, namespace, to_device, to_numpy
from fzoos._util.draws import Draws
from fzoos._util.together import GoOn, jointly, raise_it
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.query_designs import ActiveQueries
from fzoos.algorithms.fixed_fzoos.surroundings import QueryDesign, Surroundings
from fzoos.objectives.at_once import Places, query_at_once
from fzoos.objectives.constraints import all_finite
from fzoos.objectives.trajectory import Purpose, Trajectory
from fzoos.surrogates.local import LocalSurrogates

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["Exploring", "Queries"]


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
        if isinstance(design, ActiveQueries):
            return jointly(_refresh, (self, x), self.key)
        if design.asks_x:
            return float(self._ask(design, x, "refresh")[0])
        y = self._context.query(x[None, :], "refresh")
        self._ask(design, x, "refresh")
        return float(y[0])

    def explore(self, x: FloatArray) -> None:
        """Ask around the iterate x, where there are active queries; note how uncertain the gradient was before."""
        there = to_device(x[None], self._settings.device)
        Exploring([self], Model.several([self._model]), times=1).around(x[None], there, raise_it)

    def end(self, x: FloatArray) -> None:
        """Note where the local steps ended."""
        self._last = x

    def diagnostics(self) -> dict[str, float]:
        """Posterior over prior trace (1: nothing is known), mean over the local steps that were followed by queries."""
        return {"uncertainty": float(np.mean(self._shares))} if self._shares else {}

    def _ask(self, design: QueryDesign, x: FloatArray, purpose: Purpose) -> FloatArray:
        here = Surroundings(x, self._radius(design, x), self._context.rng, partial(self._nearest, x))
        return self._context.query(design.around(here), purpose)

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


class Exploring:
    """Active queries of clients during their local steps.

    Args:
        several: the clients' queries.
        surrogates: their surrogates.
        times: how often they will explore; candidates are drawn before they are needed as long as it goes on.
    """

    def __init__(self, several: Sequence[Queries], surrogates: LocalSurrogates, times: int) -> None:
        self._several, self._surrogates = several, surrogates
        design = several[0]._settings.active
        self._choice = None if design is None else _Choice(several, surrogates, design, times)
        self._trajectories = [queries._context.trajectory for queries in several]
        self.latest: Array | None = None  # the points that were asked last, on the device, shape (N, picks, d)
        if times > 1:
            self._draw_ahead()

    def around(self, x: FloatArray, there: Array, go_on: GoOn) -> list[int] | None:
        """Ask around the iterates x, and note how uncertain the gradients were before.

        Args:
            x: shape (N, d).
            there: the same on the device.
            go_on: whom to tell when one fails.

        Returns:
            who has failed; None: the others do not go on.
        """
        self._surrogates.condition(x, self.latest)
        failed, self.latest = list[int](), None
        if self._choice is None:
            _note_shares(self._several, self._surrogates, self._surrogates.grad_uncertainty(there[:, None, :]))
        else:
            points = self._choice.around(x, there)
            places = Places.of(self._trajectories, points)
            self._draw_ahead()  # the device is done with those before
            observed = query_at_once(self._trajectories, places, "active", go_on)
            if observed is None:
                return None
            failed = [i for i, y in enumerate(observed) if y is None]
            self.latest = points if _all_joined(self._trajectories, observed) else None
        for queries in self._several:
            queries._shares.append(queries._share)
        return failed

    def _draw_ahead(self) -> None:
        if self._choice is not None:
            self._choice.draws.begin()

    def close(self) -> None:
        """Take back what was drawn and not used."""
        if self._choice is not None:
            self._choice.draws.close()


class _Choice:
    """The most uncertain candidates around each client's x."""

    def __init__(
        self, several: Sequence[Queries], surrogates: LocalSurrogates, design: ActiveQueries, times: int
    ) -> None:
        self._several, self._surrogates, self._design = several, surrogates, design
        self._context, self._device = several[0]._context, several[0]._settings.device
        shape = design.candidates, self._context.dim
        self.draws = Draws([queries._context.rng for queries in several], shape, times, self._device)

    def around(self, x: FloatArray, there: Array) -> Array:
        """Around each row of x, on the device, shape (N, picks, d): as they are to be asked."""
        radius = np.array([queries._radius(self._design, row) for queries, row in zip(self._several, x, strict=True)])
        noted: list[Array] = []

        def uncertainty(points: Array) -> Array:
            """trace Sigma_grad where the points would be asked; that at x, in the same product, is noted."""
            places = there[:, None, :]
            places = namespace(places).concat([places, self._context.project(points)], axis=1)
            traces = self._surrogates.grad_uncertainty(places)
            noted.append(traces[:, :1])
            return traces[:, 1:]

        points = self._design.around_several(there, radius, self.draws.take(), uncertainty, self._device)
        _note_shares(self._several, self._surrogates, noted[0])
        return self._context.project(points)

    def ask_around(self, x: FloatArray, ask: Callable[[Array], list[FloatArray | None] | None]) -> bool:
        """Choose, and ask; whether the others go on. Several are then conditioned on what is on the device already."""
        surrogates, there = self._surrogates, to_device(x, self._device)
        surrogates.condition(x)
        points = self.around(x, there)
        asked = ask(points)
        if asked is not None and len(x) > 1 and _all_joined([q._context.trajectory for q in self._several], asked):
            surrogates.condition(x, points)
        surrogates.close()
        return asked is not None


def _all_joined(trajectories: Sequence[Trajectory], observed: Sequence[FloatArray | None]) -> bool:
    """Whether the points that were just asked, all of them, are the last of their trajectories."""
    joined = all(trajectory.keeps_what_is_asked for trajectory in trajectories)
    return joined and all(y is not None and all_finite(y) for y in observed)


def _note_shares(several: Sequence[Queries], surrogates: LocalSurrogates, traces: Array) -> None:
    """How uncertain gradients at x are: posterior over prior trace, the first being of shape (N, 1)."""
    for queries, share in zip(several, (to_numpy(traces)[:, 0] / surrogates.prior_trace).tolist(), strict=True):
        queries._share = share


def _refresh(items: Sequence[tuple[Queries, FloatArray]], go_on: GoOn) -> list[float]:
    """Ask the server's x, then the most uncertain points around it: the observations at x."""
    left, found = list(range(len(items))), [np.nan] * len(items)
    design = items[0][0]._settings.refresh
    assert isinstance(design, ActiveQueries)

    def tell(number: int, error: Exception) -> bool:
        return go_on(left[number], error)

    def ask(points: Array) -> list[FloatArray | None] | None:
        trajectories = [items[i][0]._context.trajectory for i in left]
        return query_at_once(trajectories, Places.of(trajectories, points), "refresh", tell)

    def choice() -> _Choice:
        several = [items[i][0] for i in left]
        return _Choice(several, Model.several([queries._model for queries in several]), design, times=1)

    x = np.stack([place for _, place in items])
    chooser = choice()
    try:
        if len(left) > 1:
            chooser.draws.begin()
        at_x = ask(items[0][0]._context.project(x)[:, None, :])
        if at_x is None:
            return []
        for i, y in enumerate(at_x):
            found[i] = np.nan if y is None else float(y[0])
        left = [i for i in left if at_x[i] is not None]
        if not left:
            return found
        if len(left) < len(items):  # the others choose without them
            chooser.draws.close()
            chooser = choice()
        if not chooser.ask_around(x[left], ask):
            return []
    finally:
        chooser.draws.close()
    return found
