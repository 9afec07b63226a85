"""The derived Gaussian process: the gradient of a function, given only its values at some points.

============  ==========  ===================================================================
symbol        shape       meaning
============  ==========  ===================================================================
X, y          (n, d) (n,) the points in use and their standardised observations
D             (n, n)      squared distances among X
K             (n, n)      kappa(D)
alpha         (n,)        (K + sigma^2 I)^{-1} y
s             (n, m)      squared distances from X to m points of interest
c             (n, m)      2 kappa'(s), so that grad_x k(x, x_j) = c_j (x - x_j)
============  ==========  ===================================================================

    grad mu(x)          = sum_j alpha_j c_j (x - x_j)
    trace Sigma_grad(x) = -2 kappa'(0) d - sum_{j,j'} c_j c_j' [(K + sigma^2 I)^{-1}]_{jj'} (x - x_j).(x - x_j')

The inner products need no Gram matrix per x: (x - x_j).(x - x_j') = (s_j + s_j' - D_jj') / 2, and D is there already.
With A^{-1} = (K + sigma^2 I)^{-1} the double sum is (s c)^T A^{-1} c - c^T (A^{-1} o D) c / 2: for all candidates
together two matrix products of n x n by n x m, whatever d is.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from typing import Self

import numpy as np
from array_api_compat import is_numpy_array

from fzoos._util.arrays import Array, FloatArray, device_of, namespace, squared_distances, to_device, to_numpy
from fzoos._util.buffer import Buffer
from fzoos._util.panels import in_panels
from fzoos._util.together import Written, together
from fzoos.surrogates.cholesky import GrowingCholesky
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.standardise import Standardised

__all__ = ["DerivedGP"]

_STRIP = 64  # rows of W^T W at a time
_PANEL = 256  # rows of an n x n matrix worked on at a time, so that temporaries stay in cache


class DerivedGP:
    """Gaussian-process posterior of a gradient, growing as observations arrive.

    Args:
        kernel: the kernel, its length scale in units of the cube.
        noise: sigma^2, the ridge on the standardised observations.
        dim: d, the number of variables.
        device: None for NumPy, or a PyTorch device.
        amplitude: a, the prior's standard deviation in the units of y; None: that of the observations.

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

    def __init__(
        self, kernel: Kernel, noise: float, dim: int, device: str | None = None, amplitude: float | None = None
    ) -> None:
        like = to_device(np.empty(0), device)
        self.kernel, self.noise, self.dim, self.device, self._amplitude = kernel, noise, dim, device, amplitude
        self.factor = GrowingCholesky(like)
        self._x = Buffer(like, columns=dim)
        self._distances = Buffer(like)
        self._inverse = Buffer(like)
        self._y = np.empty(0)
        self._scaled_alpha: Array | None = None

    def __len__(self) -> int:
        return int(self._y.shape[-1])

    # Several at once

    @property
    def kind(self) -> Hashable:
        """Processes of the same kind can be joined."""
        settings = self.kernel, self.noise, self.dim, self.device, self._amplitude
        return *settings, self.factor.shape, *(buffer.shape for buffer in self._buffers)

    @property
    def _buffers(self) -> tuple[Buffer, Buffer, Buffer]:
        return self._x, self._distances, self._inverse

    @classmethod
    def joined(cls, processes: Sequence[Self]) -> Self:
        """Processes of one kind as one, whose arguments and answers have an axis more in front.

        On a device it works on their own arrays where these lie side by side. They are of no use until `hand_back`.
        """
        whole = copy(processes[0])
        whole.factor = GrowingCholesky.joined([process.factor for process in processes])
        columns = zip(*(process._buffers for process in processes), strict=True)
        whole._x, whole._distances, whole._inverse = map(Buffer.joined, columns)
        whole._y = np.stack([process._y for process in processes])
        whole._scaled_alpha = None
        return whole

    def hand_back(self, processes: Sequence[Self]) -> None:
        """Let each have its part of what they were joined to."""
        self.factor.hand_back([process.factor for process in processes])
        columns = zip(*(process._buffers for process in processes), strict=True)
        for buffer, parts in zip(self._buffers, columns, strict=True):
            buffer.hand_back(parts)
        for i, process in enumerate(processes):
            process._y = self._y[i]
            process._scaled_alpha = None if self._scaled_alpha is None else self._scaled_alpha[i]

    # Of one, or of several

    @property
    def prior_trace(self) -> float:
        """-2 kappa'(0) d, the uncertainty before any observation."""
        return -2.0 * self.kernel.dkappa0 * self.dim

    def append(self, x: Array, y: FloatArray) -> None:
        """Condition on more observations: x of shape (m, d), y of shape (m,), as observed (not standardised).

        x may be on the device already.
        """
        m = y.shape[-1]
        if not m:
            return
        points, distances = self._x.grow(m), self._distances.grow(m)
        self._y = np.concatenate([self._y, y], axis=-1)
        self._scaled_alpha = None
        cross, block = together(
            _append, Written(points), Written(distances), _in_order(x), self.kernel, self.noise, self.device
        )
        rows = self.factor.append(cross, block)
        together(_add_inverse, Written(self._inverse.grow(m)), rows)

    def grad_mean(self, x: Array) -> FloatArray:
        """grad mu(x) in the units of y, shape (d,); zero while there is no observation. x may be on the device."""
        if not len(self):
            return np.zeros(tuple(x.shape))
        gradient: FloatArray = together(_grad_mean_here, self._x.array, self._weights(), x, self.kernel, self.device)
        return gradient

    def grad_mean_there(self, x: Array) -> Array:
        """The same on the device, where x is."""
        if not len(self):
            return namespace(x).zeros_like(x)
        return _grad_mean(self._x.array, self._weights(), x, self.kernel, self.device)

    def mean(self, x: FloatArray) -> float:
        """mu(x) in the units of y; zero while there is no observation."""
        if not len(self):
            return 0.0
        above = together(_mean, self._x.array, self._weights(), x[None, :], self.kernel, self.device)
        return float(np.mean(self._y)) + float(above)

    @property
    def amplitude(self) -> float:
        """a in the units of y: given, or the likeliest, a^2 = y^T (K + sigma^2 I)^{-1} y / n.

        Observations close together differ by little, whatever the function does further on: their own standard
        deviation says nothing of it, their differences do.
        """
        if self._amplitude is not None:
            return self._amplitude
        if not len(self):
            return 1.0
        square = together(_fit, self._weights(), Standardised.of(self._y).values, self.device)
        return float(np.sqrt(max(self.scale * float(square) / len(self), 0.0)))

    def _weights(self) -> Array:
        """scale * alpha, computed once per set of observations."""
        if self._scaled_alpha is None:
            y = Standardised.of(self._y)
            w = self.factor.inverse_factor
            self._scaled_alpha = together(_scaled_alpha, w, y.values, np.asarray(y.scale), self.device)
        return self._scaled_alpha

    @property
    def scale(self) -> float:
        """What the standard deviations of the posterior are multiplied by to be in the units of y."""
        return Standardised.of(self._y).scale if self._amplitude is None else self._amplitude

    def grad_uncertainty(self, x: Array) -> FloatArray:
        """trace Sigma_grad at each row of x, for standardised observations: shape (m, d) -> (m,).

        x may be on the device already.
        """
        if not len(self):
            return np.full(tuple(x.shape[:-1]), self.prior_trace)
        reduction: FloatArray = together(
            _reduction_here,
            self._x.array,
            self._inverse.array,
            self._distances.array,
            to_device(x, self.device),
            self.kernel,
        )
        # The true value is never negative; rounding can make it so where the surrogate is certain.
        return np.maximum(self.prior_trace - reduction, 0.0)

    def grad_uncertainty_there(self, x: Array) -> Array:
        """The same on the device, where x is."""
        xp = namespace(x)
        if not len(self):
            return xp.full(tuple(x.shape[:-1]), self.prior_trace, dtype=x.dtype, device=device_of(x))
        reduction = _reduction(self._x.array, self._inverse.array, self._distances.array, x, self.kernel)
        return xp.clip(self.prior_trace - reduction, 0.0, None)


# What the methods compute, of one process or, with leading axes, of those of several clients.


def _in_order(x: Array) -> Array:
    return np.ascontiguousarray(x) if is_numpy_array(x) else x


def _append(
    points: Array, distances: Array, x: Array, kernel: Kernel, noise: float, device: str | None
) -> tuple[Array, Array]:
    """Put x and its squared distances in the last rows; its rows of K + sigma^2 I, left and right of the diagonal."""
    m = x.shape[-2]
    n = points.shape[-2] - m
    points[..., n:, :] = to_device(x, device)
    to_new = squared_distances(points, points[..., n:, :]).mT  # centred on the new points
    identity = namespace(points).eye(m, dtype=points.dtype, device=device_of(points))
    to_new[..., n:] *= 1.0 - identity  # a point's distance to itself is exactly zero
    distances[..., n:, :] = to_new
    distances[..., :n, n:] = to_new[..., :n].mT
    covariance = in_panels(kernel.kappa, to_new)
    return covariance[..., :n], covariance[..., n:] + noise * identity


def _add_inverse(inverse: Array, rows: Array) -> Array:
    """A^{-1} = W^T W grows by what the new rows of W add to it."""
    m, size = rows.shape[-2:]
    if m == size and is_numpy_array(rows) and rows.ndim == 2:
        return _square(rows, inverse)
    for start in range(0, size, _PANEL):
        panel = slice(start, start + _PANEL)
        lower = rows[..., max(start - size + m, 0) :, :]  # the rows above are zero here: W is lower triangular
        inverse[..., panel, :] += lower[..., panel].mT @ lower
    return inverse


def _square(w: FloatArray, square: FloatArray) -> FloatArray:
    """W^T W of a lower triangular W: what is below the diagonal, n^3 / 3 operations, and its mirror image."""
    for start in range(0, len(w), _STRIP):
        end = start + _STRIP
        strip = w[start:, start:end].T @ w[start:, :end]
        square[start:end, :end] = strip
        square[:start, start:end] = strip[:, :start].T
    return square


def _scaled_alpha(w: Array, values: FloatArray, scale: FloatArray, device: str | None) -> Array:
    """scale * W^T (W y)."""
    y = to_device(values, device)[..., None]
    return to_device(scale, device)[..., None] * (w.mT @ (w @ y))[..., 0]


def _dot(alpha: Array, y: Array) -> FloatArray:
    """alpha^T y."""
    return to_numpy(alpha @ y if alpha.ndim == 1 else namespace(alpha).vecdot(alpha, y))


def _fit(alpha: Array, y: FloatArray, device: str | None) -> FloatArray:
    """alpha^T y, y being on the host."""
    return _dot(alpha, to_device(y, device))


def _mean(points: Array, alpha: Array, x: FloatArray, kernel: Kernel, device: str | None) -> FloatArray:
    """sum_j alpha_j kappa(s_j)."""
    s = squared_distances(points, to_device(x, device))[..., 0]
    return _dot(alpha, kernel.kappa(s))


def _grad_mean(points: Array, alpha: Array, x: Array, kernel: Kernel, device: str | None) -> Array:
    """sum_j alpha_j c_j (x - x_j)."""
    offset = to_device(x, device)[..., None, :] - points
    c = 2.0 * kernel.dkappa(namespace(offset).sum(offset * offset, axis=-1))
    return ((alpha * c)[..., None, :] @ offset)[..., 0, :]


def _grad_mean_here(points: Array, alpha: Array, x: Array, kernel: Kernel, device: str | None) -> FloatArray:
    """The same, on the host."""
    return to_numpy(_grad_mean(points, alpha, x, kernel, device))


def _reduction(points: Array, inverse: Array, distances: Array, x: Array, kernel: Kernel) -> Array:
    """(s c)^T A^{-1} c - c^T (A^{-1} o D) c / 2 at each row of x."""
    s = squared_distances(points, x)
    xp = namespace(s)
    c = 2.0 * kernel.dkappa(s)
    sc = s * c
    reduction = xp.zeros_like(s[..., 0, :])
    for start in range(0, s.shape[-2], _PANEL):
        panel = slice(start, start + _PANEL)
        rows = inverse[..., panel, :]
        reduction += xp.sum(sc[..., panel, :] * (rows @ c), axis=-2)
        reduction -= 0.5 * xp.sum(c[..., panel, :] * ((rows * distances[..., panel, :]) @ c), axis=-2)
    return reduction


def _reduction_here(points: Array, inverse: Array, distances: Array, x: Array, kernel: Kernel) -> FloatArray:
    """The same, on the host."""
    return to_numpy(_reduction(points, inverse, distances, x, kernel))
