"""The local surrogate: a derived Gaussian process conditioned on a trajectory that grows."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Kernel

__all__ = ["LocalSurrogate"]

_LEAST_NOISE = 1e-12  # with less, rounding errors decide whether the kernel matrix is positive definite


class LocalSurrogate:
    """The Gaussian process conditioned on the whole trajectory, or on the `points` of it that are nearest to x.

    While the points in use only grow, the Cholesky factor is extended, O(n^2) per point. When points leave, the
    process is fitted again, O(n^3).

    Args:
        trajectory: the client's queries.
        kernel: the kernel, with its length scale.
        noise: sigma^2, relative to the variance of the observations in use; at least 1e-12 is used.
        points: the number of nearest points that are used; None: all.
        device: None for NumPy, or a PyTorch device.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.surrogates.local import LocalSurrogate
        >>> trajectory, x = Trajectory(dim=2), np.random.default_rng(0).random((20, 2))
        >>> _ = trajectory.add(x, 3.0 * x[:, 0])
        >>> surrogate = LocalSurrogate(trajectory, SquaredExponential(1.0), noise=1e-9, points=10)
        >>> x = np.array([0.5, 0.5])
        >>> bool(np.allclose(surrogate.at(x).grad_mean(x), [3.0, 0.0], atol=0.05))
        True
    """

    def __init__(
        self, trajectory: Trajectory, kernel: Kernel, noise: float, points: int | None, device: str | None = None
    ) -> None:
        self._trajectory, self._kernel, self._noise = trajectory, kernel, max(noise, _LEAST_NOISE)
        self._points, self._device = points, device
        self.release()

    def release(self) -> None:
        """Release the process; it is fitted again when it is needed."""
        self._gp = DerivedGP(self._kernel, self._noise, self._trajectory.dim, self._device)
        self._in_use = np.empty(0, dtype=np.int64)
        self._version = self._trajectory.version

    def state(self) -> StateDict:
        """Return the points in use and the process, unless it is out of date."""
        if self._version != self._trajectory.version:
            return {}
        return {"in_use": self._in_use, **self._gp.state()}

    def restore(self, state: StateDict) -> None:
        """Restore what `state` returned, after the trajectory was restored."""
        self.release()
        if "in_use" in state:
            self._in_use = state["in_use"]
            self._gp.restore(state, self._trajectory.x[self._in_use], self._trajectory.y[self._in_use])

    def at(self, x: FloatArray) -> DerivedGP:
        """Return the process conditioned on the points in use around x."""
        trajectory = self._trajectory
        if self._version != trajectory.version:  # the multipliers of constraints have changed, and with them all y
            self.release()
        wanted = trajectory.nearest(x, self._points)
        missing = np.zeros(len(trajectory), dtype=bool)
        missing[wanted] = True
        left = np.flatnonzero(~missing[self._in_use])
        missing[self._in_use] = False
        new = np.flatnonzero(missing)
        if len(left):  # at least as many are new
            into, new = new[: len(left)], new[len(left) :]
            self._gp.replace(left, trajectory.x[into], trajectory.y[into])
            self._in_use[left] = into
        self._gp.append(trajectory.x[new], trajectory.y[new])
        self._in_use = np.concatenate([self._in_use, new])
        return self._gp
