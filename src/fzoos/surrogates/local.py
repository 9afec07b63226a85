"""The local surrogate: a derived Gaussian process kept in step with a growing trajectory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import Array, FloatArray, as_rows, device_of, namespace, stack_for_device
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.evidence import Ridge
from fzoos.surrogates.gp import DerivedGP
from fzoos.surrogates.kernels import Kernel

__all__ = ["LocalSurrogate", "LocalSurrogates"]


_LEAST_NOISE = 1e-12
_SPARE = 0.05  # points beyond the nearest n, over n
_NONE = np.empty(0, dtype=np.int64)
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

    @property
    def process(self) -> DerivedGP:
        """The process, as it was conditioned last."""
        return self._gp

    def data(self, index: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
        """Points of the trajectory and their observations; neighbours are not copied."""
        rows = as_rows(index)
        return self._trajectory.x[rows], self._trajectory.y[rows]

    @property
    def lacks(self) -> int | None:
        """How many points, the latest, are still to be added, if all are in use wherever x is; None: it depends."""
        trajectory = self._trajectory
        if self._points is not None or self._version != trajectory.version:
            return None
        return len(trajectory) - self._seen

    def observed(self, count: int) -> FloatArray:
        """What was observed at the so many points that were asked last."""
        return self._trajectory.y[-count:]

    def extended(self, count: int) -> None:
        """Those are now in the process."""
        self._seen += count
        self._in_use = np.arange(self._seen)

    def is_latest(self, index: NDArray[np.int64], count: int) -> bool:
        """Whether these are the so many points that were asked last."""
        return len(index) == count and int(index[0]) == len(self._trajectory) - count

    def at(self, x: FloatArray) -> DerivedGP:
        """The process conditioned on the points in use around x."""
        new = self.due(x)
        self._gp.append(*self.data(new))
        self.conditioned(x, new)
        return self._gp

    def due(self, x: FloatArray) -> NDArray[np.int64]:
        """The points that the process lacks to be that of x; it may be a new one."""
        if self._version != self._trajectory.version:  # multipliers of constraints have changed, and all observations
            self._clear()
        total = len(self._trajectory)
        all_in_use = len(self._in_use) == self._seen and (self._points is None or total <= self._points)
        if all_in_use or (self._chosen_at is not None and np.array_equal(x, self._chosen_at)):
            return np.arange(self._seen, total) if total > self._seen else _NONE
        chosen = self._trajectory.nearest(x, self._points)
        new = chosen[~np.isin(chosen, self._in_use)]
        if len(self._in_use) + len(new) > len(chosen) + self._spare:
            self._clear()
            return chosen
        return new

    def conditioned(self, x: FloatArray, new: NDArray[np.int64]) -> None:
        """The points that were due at x are now in the process."""
        if len(new):
            self._in_use = np.concatenate([self._in_use, new])
        self._chosen_at, self._seen = x.copy(), len(self._trajectory)


class LocalSurrogates:
    """The local surrogates of several clients: what they compute is one operation for all whose processes are alike.

    After `close` each has its process again.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.box import Box
        >>> from fzoos.objectives.trajectory import Trajectory
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.surrogates.local import LocalSurrogate, LocalSurrogates
        >>> clients = [Trajectory(lambda x, a=a: a * x.sum(), Box.of((0, 1), dim=2)) for a in (1.0, 2.0)]
        >>> for client in clients:
        ...     _ = client.query(np.eye(2))
        >>> several = LocalSurrogates([LocalSurrogate(c, SquaredExponential(1.0), 1e-6, None) for c in clients])
        >>> several.condition(np.zeros((2, 2)))
        >>> several.grad_mean(np.zeros((2, 2))).shape
        (2, 2)
    """

    def __init__(self, surrogates: Sequence[LocalSurrogate]) -> None:
        self._surrogates = surrogates
        self._groups: list[_Group] = []

    def condition(self, x: FloatArray, latest: Array | None = None) -> None:
        """Condition each on the points in use around its row of x, shape (N, d).

        Args:
            x: the places.
            latest: the last points of all trajectories, if they are on the device already, shape (N, m, d).
        """
        if self._extend(latest):
            return
        due = [surrogate.due(row) for surrogate, row in zip(self._surrogates, x, strict=True)]
        if not self._groups or not all(group.is_for(self._surrogates, due) for group in self._groups):
            self.close()
            self._groups = self._grouped(due)
        for group in self._groups:
            if len(due[group.members[0]]):
                group.append([(self._surrogates[i], due[i]) for i in group.members], latest)
        for surrogate, row, new in zip(self._surrogates, x, due, strict=True):
            surrogate.conditioned(row, new)

    def _extend(self, latest: Array | None) -> bool:
        """Where all points are in use, wherever x is, add the latest to all at once; whether that was all there was."""
        if len(self._groups) != 1 or not self._groups[0].is_of(self._surrogates):
            return False
        new = {surrogate.lacks for surrogate in self._surrogates}
        if new == {0}:
            return True
        if latest is None or len(latest) < 2 or new != {latest.shape[1]}:
            return False
        count = latest.shape[1]
        self._groups[0].process.append(latest, np.stack([surrogate.observed(count) for surrogate in self._surrogates]))
        for surrogate in self._surrogates:
            surrogate.extended(count)
        return True

    def _grouped(self, due: Sequence[NDArray[np.int64]]) -> list[_Group]:
        """Those whose processes are alike, and get as many points."""
        alike: dict[Hashable, list[int]] = {}
        for i, surrogate in enumerate(self._surrogates):
            alike.setdefault((surrogate.process.kind, len(due[i])), []).append(i)
        return [_Group(members, [self._surrogates[i].process for i in members]) for members in alike.values()]

    def grad_mean(self, x: Array) -> Array:
        """grad mu of each at its row of x, shape (N, d), on the device, where x is."""
        return self._each(x, lambda process, rows: process.grad_mean_there(rows), tuple(x.shape))

    def grad_uncertainty(self, x: Array) -> Array:
        """trace Sigma_grad of each at its points, on the device, where x is: shape (N, m, d) -> (N, m)."""
        return self._each(x, lambda process, rows: process.grad_uncertainty_there(rows), tuple(x.shape[:-1]))

    @property
    def prior_trace(self) -> FloatArray:
        """-2 kappa'(0) d of each, shape (N,)."""
        return np.array([surrogate.process.prior_trace for surrogate in self._surrogates])

    def _each(self, x: Array, compute: Callable[[DerivedGP, Array], Array], shape: tuple[int, ...]) -> Array:
        if len(self._groups) == 1 and len(x) > 1:
            return compute(self._groups[0].process, x)
        found = namespace(x).empty(shape, dtype=x.dtype, device=device_of(x))
        for group in self._groups:
            rows = group.members if len(group.members) > 1 else group.members[0]
            found[rows] = compute(group.process, x[rows])
        return found

    def close(self) -> None:
        """Let each have its own process."""
        for group in self._groups:
            group.hand_back()
        self._groups = []


class _Group:
    """Processes of the same kind, joined; one alone stays as it is."""

    def __init__(self, members: Sequence[int], processes: Sequence[DerivedGP]) -> None:
        self.members, self._own = members, processes
        self.process = processes[0] if len(processes) == 1 else DerivedGP.joined(processes)

    def is_of(self, surrogates: Sequence[LocalSurrogate]) -> bool:
        """Whether all of these are in it."""
        return len(self._own) == len(surrogates) and all(
            surrogate.process is own for surrogate, own in zip(surrogates, self._own, strict=True)
        )

    def is_for(self, surrogates: Sequence[LocalSurrogate], due: Sequence[NDArray[np.int64]]) -> bool:
        """Whether they still are what the surrogates have, and get as many points."""
        count = len(due[self.members[0]])
        return all(
            surrogates[i].process is own and len(due[i]) == count
            for i, own in zip(self.members, self._own, strict=True)
        )

    def append(self, due: Sequence[tuple[LocalSurrogate, NDArray[np.int64]]], latest: Array | None) -> None:
        """Add the points that are due; those that are the latest of all are on the device already."""
        data = [surrogate.data(new) for surrogate, new in due]
        if len(data) == 1:
            self.process.append(*data[0])
            return
        y = np.stack([y for _, y in data])
        if latest is not None and all(surrogate.is_latest(new, latest.shape[1]) for surrogate, new in due):
            self.process.append(latest if len(latest) == len(due) else latest[list(self.members)], y)
        else:
            self.process.append(stack_for_device([points for points, _ in data], self.process.device), y)

    def hand_back(self) -> None:
        if len(self._own) > 1:
            self.process.hand_back(self._own)
