"""The derived Gaussian process: the gradient of a function, given only its values at some points.

============  ==========  ===================================================================
symbol        shape       meaning
============  ==========  ===================================================================
X, y          (n, d) (n,) the points in use and their standardised observations
D             (n, n)      squared distances among X
K             (n, n)      kappa(D)
A             (n, n)      K + sigma^2 I
alpha         (n,)        A^{-1} y
s             (n, m)      squared distances from X to m points of interest
c             (n, m)      2 kappa'(s), so that grad_x k(x, x_j) = c_j (x - x_j)
============  ==========  ===================================================================

    grad mu(x)          = sum_j alpha_j c_j (x - x_j)                                                             (1)
    trace Sigma_grad(x) = -2 kappa'(0) d - sum_{j,j'} c_j c_j' [A^{-1}]_{jj'} (x - x_j).(x - x_j')                (2)

The inner products need no Gram matrix per x: (x - x_j).(x - x_j') = (s_j + s_j' - D_jj') / 2, and D is known. The
double sum is then (s c)^T A^{-1} c - c^T (A^{-1} o D) c / 2: for all candidates together two products of an n x n with
an n x m matrix, whatever d is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import Array, FloatArray, device_of, namespace, squared_distances, to_device, to_numpy
from fzoos._util.buffer import Buffer
from fzoos._util.states import StateDict
from fzoos.surrogates.cholesky import GrowingCholesky
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.standardise import Standardised

__all__ = ["DerivedGP"]

_PANEL = 256  # rows of an n x n matrix that are processed at a time, so that temporaries stay in cache


class DerivedGP:
    """The Gaussian-process posterior of a gradient, which grows as observations arrive.

    Args:
        kernel: the kernel, its length scale in units of the cube.
        noise: sigma^2, relative to the variance of the observations.
        dim: d, the number of variables.
        device: None for NumPy, or a PyTorch device.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.surrogates.gp import DerivedGP
        >>> gp = DerivedGP(SquaredExponential(1.0), noise=1e-8, dim=1)
        >>> x = np.linspace(0, 1, 6)[:, None]
        >>> gp.append(x, np.sin(x[:, 0]))
        >>> bool(abs(gp.grad_mean(np.array([0.5]))[0] - np.cos(0.5)) < 1e-3)
        True
    """

    def __init__(self, kernel: Kernel, noise: float, dim: int, device: str | None = None) -> None:
        like = to_device(np.empty(0), device)
        self.kernel, self.noise, self.dim, self.device = kernel, noise, dim, device
        self.factor = GrowingCholesky(like)  # of A
        self._x = Buffer(like, columns=dim)  # X
        self._distances = Buffer(like)  # D
        self._inverse = Buffer(like)  # A^{-1} of the points in use when it was last computed
        self._observed = Standardised.of(np.empty(0))  # y
        self._y = np.empty(0)  # in the objective's units
        self._alpha: Array | None = None

    def __len__(self) -> int:
        return len(self._y)

    @property
    def prior_trace(self) -> float:
        """-2 kappa'(0) d, the uncertainty before any observation."""
        return -2.0 * self.kernel.dkappa0 * self.dim

    @property
    def amplitude(self) -> float:
        """The prior's standard deviation by maximum likelihood, a^2 = y^T A^{-1} y / n, in the units of y.

        The standard deviation of observations close together does not tell how much the function varies further away;
        their differences do.
        """
        if not len(self):
            return 1.0
        y = to_device(self._observed.values, self.device)
        return self._observed.scale * math.sqrt(max(float(self._weights() @ y), 0.0) / len(self))

    def append(self, x: FloatArray, y: FloatArray) -> None:
        """Condition on more observations: x of shape (m, d), y of shape (m,) in the objective's units."""
        if not len(y):
            return
        n, m = len(self), len(y)
        self._x.append(to_device(x, self.device))
        distances = self._distances.grow(m)
        distances[n:, :] = self._distances_of(list(range(n, n + m)))
        distances[:n, n:] = distances[n:, :n].T
        self._extend_factor()
        self._observe(np.concatenate([self._y, y]))

    def replace(self, rows: NDArray[np.int64], x: FloatArray, y: FloatArray) -> None:
        """Replace the observations in these rows: D is updated, A is factorised again."""
        at = rows.tolist()
        self._x.array[at, :] = to_device(x, self.device)
        new = self._distances_of(at)
        self._distances.array[at, :] = new
        self._distances.array[:, at] = new.T
        self.factor, self._inverse = GrowingCholesky(new), Buffer(new)
        self._extend_factor()
        values = self._y.copy()
        values[rows] = y
        self._observe(values)

    def _distances_of(self, rows: list[int]) -> Array:
        """Return these rows of D."""
        points = self._x.array
        xp = namespace(points)
        z = points - xp.mean(points[rows, :], axis=0)  # without centring, rounding errors are relative to |x|^2
        squares = xp.vecdot(z, z)
        distances = xp.clip(squares[rows, None] + squares - 2.0 * (z[rows, :] @ z.T), 0.0, None)
        distances[list(range(len(rows))), rows] = 0.0  # exactly
        return distances

    def _extend_factor(self) -> None:
        """Append the missing rows to the factor of A = kappa(D) + sigma^2 I."""
        n, distances = len(self.factor), self._distances.array
        covariance = self.kernel.kappa(distances[n:, :])
        m = len(covariance)
        ridge = self.noise * namespace(distances).eye(m, dtype=distances.dtype, device=device_of(distances))
        self.factor.append(covariance[:, :n], covariance[:, n:] + ridge)

    def _observe(self, y: FloatArray) -> None:
        self._y, self._observed, self._alpha = y, Standardised.of(y), None

    def state(self) -> StateDict:
        """Return D, the factor and A^{-1}, whose last bits depend on how they grew; not the observations."""
        arrays = {"distances": self._distances.array, "factor": self.factor.inverse_factor}
        return {name: to_numpy(array) for name, array in (arrays | {"inverse": self._inverse.array}).items()}

    def restore(self, state: StateDict, x: FloatArray, y: FloatArray) -> None:
        """Restore what `state` returned, with these observations."""
        self._x.load(to_device(x, self.device))
        for name, buffer in (("distances", self._distances), ("factor", self.factor), ("inverse", self._inverse)):
            buffer.load(to_device(state[name], self.device))
        self._observe(y)

    def mean(self, x: FloatArray) -> float:
        """Return mu(x) in the units of y; zero without observations."""
        if not len(self):
            return 0.0
        s = squared_distances(self._x.array, to_device(x[None], self.device))[:, 0]
        return self._observed.mean + self._observed.scale * float(self._weights() @ self.kernel.kappa(s))

    def grad_mean(self, x: FloatArray) -> FloatArray:
        """Return grad mu(x) in the units of y, shape (d,), eq. (1); zero without observations."""
        if not len(self):
            return np.zeros(self.dim)
        offset = to_device(x, self.device) - self._x.array
        c = 2.0 * self.kernel.dkappa(namespace(offset).vecdot(offset, offset))
        return self._observed.scale * to_numpy((self._weights() * c) @ offset)

    def grad_uncertainty(self, points: FloatArray) -> FloatArray:
        """Return trace Sigma_grad at points, shape (m, d) -> (m,), eq. (2), in units of the amplitude squared."""
        if not len(self):
            return np.full(len(points), self.prior_trace)
        s = squared_distances(self._x.array, to_device(points, self.device))
        c = 2.0 * self.kernel.dkappa(s)
        sc, inverse, distances, xp = s * c, self._inverted(), self._distances.array, namespace(s)
        reduction = xp.zeros_like(s[0, :])
        for start in range(0, len(self), _PANEL):
            rows = slice(start, start + _PANEL)
            reduction += xp.vecdot(sc[rows, :], inverse[rows, :] @ c, axis=0)
            reduction -= 0.5 * xp.vecdot(c[rows, :], (inverse[rows, :] * distances[rows, :]) @ c, axis=0)
        # The exact value is never negative; rounding can make it so where the surrogate is certain.
        return np.maximum(self.prior_trace - to_numpy(reduction), 0.0)

    def _weights(self) -> Array:
        """Return alpha, which is computed once per set of observations."""
        if self._alpha is None:
            self._alpha = self.factor.solve(to_device(self._observed.values, self.device))
        return self._alpha

    def _inverted(self) -> Array:
        """Return A^{-1} = W^T W, to which the terms of new rows of W are added."""
        w, n = self.factor.inverse_factor, self._inverse.rows
        if n < len(w):
            inverse, new = self._inverse.grow(len(w) - n), w[n:, :]
            for start in range(0, len(w), _PANEL):
                rows = slice(start, start + _PANEL)
                inverse[rows, :] += new[:, rows].T @ new
        return self._inverse.array
