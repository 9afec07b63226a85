"""The local surrogate: a derived Gaussian process kept in step with a growing trajectory."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.evidence import Ridge
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Kernel

__all__ = ["LocalSurrogate"]


_LEAST_NOISE = 1e-12
_SPARE = 0.05  # points beyond the nearest n, over n
_SMALL = 100  # points whose factor is quickly made anew


class LocalSurrogate:
    """The Gaussian process conditioned on the points in use: the whole trajectory, or the `points` nearest to x.

    As long as the points in use only grow, the factor is extended, O(n^2). From one step to the next nearly all of the
    nearest n are the same: what is no longer among them stays in use until there are n / 20 too many, then the factor
    is made anew, O(n^3). While x stays where it is, what was queried since the choice is added to it.

    Args:
        trajectory: the client's queries.
        kernel: the kernel, with its length scale.
        noise: sigma^2, or the ridge of a noise model; at least 1e-12, without which rounding errors decide whether the
            kernel matrix is positive definite.
        points: how many of the nearest points are used; None: all.
        device: None for NumPy, or a PyTorch device.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        kernel: Kernel,
        noise: float | Ridge,
        points: int | None,
        device: str | None = None,
    ) -> None:
        self._trajectory, self._kernel = trajectory, kernel
        self.ridge = noise if isinstance(noise, Ridge) else Ridge(noise)
        self._points, self._device = points, device
        self._spare = 0 if points is None or points < _SMALL else int(points * _SPARE)
        self._clear()

    def use(self, ridge: Ridge) -> None:
        """Go on with another ridge: the factor is made anew."""
        self.ridge = ridge
        self._clear()

    def rest(self) -> None:
        """Give the factor back; it is made anew when it is needed."""
        self._clear()

    def _clear(self) -> None:
        ratio, amplitude = self.ridge
        self._gp = DerivedGP(self._kernel, max(ratio, _LEAST_NOISE), self._trajectory.dim, self._device, amplitude)
        self._in_use = np.empty(0, dtype=np.int64)
        self._chosen_at: FloatArray | None = None
        self._seen, self._version = 0, self._trajectory.version

    def at(self, x: FloatArray) -> DerivedGP:
        """The process conditioned on the points in use around x."""
        if self._version != self._trajectory.version:  # multipliers of constraints have changed, and all observations
            self._clear()
        total = len(self._trajectory)
        all_in_use = len(self._in_use) == self._seen and (self._points is None or total <= self._points)
        if all_in_use or (self._chosen_at is not None and np.array_equal(x, self._chosen_at)):
            new = np.arange(self._seen, total)
        else:
            chosen = self._trajectory.nearest(x, self._points)
            new = chosen[~np.isin(chosen, self._in_use)]
            if len(self._in_use) + len(new) > len(chosen) + self._spare:
                self._clear()
                new = chosen
        self._gp.append(self._trajectory.x[new], self._trajectory.y[new])
        self._in_use = np.concatenate([self._in_use, new])
        self._chosen_at, self._seen = x.copy(), total
        return self._gp
