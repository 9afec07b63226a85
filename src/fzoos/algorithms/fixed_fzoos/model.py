"""A client's model of its own objective: the surrogate, and what is known of the noise.

=========  =======  ==================================================================================
symbol     shape    meaning
=========  =======  ==================================================================================
k, l       --       kernel and its length scale
lambda     scalar   the ridge: sigma^2 over the variance of the function
sigma      scalar   standard deviation of an observation
mu_i       --       posterior mean of the client's Gaussian process
=========  =======  ==================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos.radius import best_radius
from fzoos.surrogates.evidence import Ridge
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.local import LocalSurrogate, LocalSurrogates
from fzoos.surrogates.noise import NoiseModel

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["Model"]

_UNKNOWN_RADIUS = 0.1  # of queries, as long as there is noise and nobody knows how much beside the function


class Model:
    """Kernel, ridge, sigma and the radius that they demand of queries; it neither sends nor takes anything.

    Args:
        settings: the algorithm's settings.
        context: what the client half works with.
    """

    def __init__(self, settings: FixedFZooS, context: ClientContext) -> None:
        noise = settings.noise
        self._settings, self._trajectory, self._dim = settings, context.trajectory, context.dim
        self._fitted_round = 0  # when the ridge was found
        self.sigma = 0.0  # where a noise model says so
        self.least_radius = _UNKNOWN_RADIUS if isinstance(noise, NoiseModel) else 0.0
        self._make(settings.kernel, Ridge(noise.floor if isinstance(noise, NoiseModel) else noise))

    @property
    def ridge(self) -> Ridge:
        """lambda and the amplitude."""
        return self._surrogate.ridge

    def at(self, x: FloatArray) -> DerivedGP:
        """The Gaussian process, conditioned on the points in use around x."""
        return self._surrogate.at(x)

    @staticmethod
    def several(models: Sequence[Model]) -> LocalSurrogates:
        """The surrogates of several clients, as one."""
        return LocalSurrogates([model._surrogate for model in models])

    def nearest(self, x: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
        """The `count` points of the trajectory nearest to x, and their observations."""
        near = self._trajectory.nearest(x, count)
        return self._trajectory.x[near], self._trajectory.y[near]

    def use(self, length_scale: float) -> None:
        """Go on with another length scale."""
        self._make(self.kernel.with_length_scale(length_scale), self.ridge)

    def rest(self) -> None:
        """Give the factor back."""
        self._surrogate.rest()

    def fit_noise(self, x: FloatArray, round: int) -> None:
        """Find the ridge around x, once a round; a change too small to matter is not worth a new factor."""
        noise = self._settings.noise
        if not isinstance(noise, NoiseModel) or self._fitted_round == round:
            return
        found = noise.ridge(self.kernel, *self.nearest(x, noise.points))
        self._fitted_round = round
        self.sigma = math.sqrt(found.ratio) * (found.amplitude or 0.0)
        self.least_radius = best_radius(self.kernel, found.ratio, self._dim, self._dim)
        if not found.resembles(self.ridge):
            self._surrogate.use(found)

    def _make(self, kernel: Kernel, ridge: Ridge) -> None:
        settings = self._settings
        self.kernel = kernel
        self._surrogate = LocalSurrogate(self._trajectory, kernel, ridge, settings.points, settings.device)
