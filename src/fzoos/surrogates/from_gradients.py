"""A Gaussian process for a function of which only gradients at a few points are known: its mean, up to a constant."""

from __future__ import annotations

import math

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray

__all__ = ["GradientProcess"]

_sum = np.add.reduce  # np.sum without its overhead: this is called some fifty times a round
_SMALL = 200  # equations that take no longer to solve than the plane takes to find


class GradientProcess:
    """The posterior mean of a process with k(x, x') = exp(-|x - x'|^2 / 2 l^2), given noisy gradients.

        Cov(grad(x), grad(x')) = k(x, x') (I - (x - x') (x - x')^T / l^2) / l^2

    If n <= d, n (n - 1) equations are enough, and n more for the part that is orthogonal to all x - x'.

    Args:
        points: where the gradients are known, shape (n, d).
        gradients: shape (n, d).
        length: l.
        ridges: the variance of each gradient's noise over the prior's 1 / l^2, shape (n,).

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.from_gradients import GradientProcess
        >>> points = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]])
        >>> bowl = GradientProcess(points, 2 * points, 10.0, np.full(3, 1e-12))       # |x|^2
        >>> round(bowl(np.array([0.1, 0.1]))[0] - bowl(np.zeros(2))[0], 5), bowl(np.array([0.05, 0.05]))[1].round(4)
        (0.02, array([0.1, 0.1]))
    """

    def __init__(self, points: FloatArray, gradients: FloatArray, length: float, ridges: FloatArray) -> None:
        self._points, self._length2 = points, length**2
        gap = points[:, None] - points
        near = np.exp(-0.5 * _sum(gap * gap, 2) / length**2)
        if len(points) > points.shape[1] or points.size <= _SMALL:
            self._weights = _weights(near, gap, length, gradients, ridges)
            return
        # Fewer points than dimensions: coordinates orthogonal to the plane of the points are independent.
        basis = np.linalg.qr((points[1:] - points[0]).T)[0]
        within = gradients @ basis
        across = np.linalg.solve(near + np.diag(ridges), gradients - within @ basis.T)
        self._weights = across + _weights(near, gap @ basis, length, within, ridges) @ basis.T

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the mean at x, up to a constant, and its gradient."""
        gap = x - self._points
        near = _sum(gap * gap, 1)
        near /= -2.0 * self._length2
        np.exp(near, out=near)
        along = _sum(gap * self._weights, 1)
        gap *= (along / self._length2)[:, None]
        np.subtract(self._weights, gap, out=gap)
        gap *= near[:, None]
        return float(near @ along), _sum(gap, 0)

    @property
    def rounding(self) -> float:
        """The approximate rounding error of the mean near the last point."""
        terms = _sum((self._points[-1] - self._points) * self._weights, 1)
        return float(np.finfo(float).eps) * math.sqrt(float(terms @ terms))

    def curved(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean at x, its gradient and its second derivatives, shape (d, d)."""
        gap = x - self._points
        near = _sum(gap * gap, 1)
        near /= -2.0 * self._length2
        np.exp(near, out=near)
        along = _sum(gap * self._weights, 1)
        along *= near
        value = float(_sum(along))
        along /= self._length2
        bend: FloatArray = (
            (along / (2.0 * self._length2))[:, None] * gap - (near / self._length2)[:, None] * self._weights
        ).T @ gap
        bend = bend + bend.T
        diagonal = np.einsum("ii->i", bend)
        diagonal -= _sum(along)
        return value, near @ self._weights - along @ gap, bend


def _weights(near: FloatArray, gap: FloatArray, length: float, gradients: FloatArray, ridges: FloatArray) -> FloatArray:
    """Return the inverse covariance times the gradients, times l^2."""
    right = np.ascontiguousarray(gradients).ravel()
    matrix = _covariance(near, gap, length, ridges)
    _, weights, failed = scipy.linalg.lapack.dposv(matrix.T, right, lower=1, overwrite_a=1)
    if failed:  # with rounding it is not positive definite
        weights = np.linalg.solve(_covariance(near, gap, length, ridges), right)
    return np.asarray(weights, dtype=np.float64).reshape(gradients.shape)


def _covariance(near: FloatArray, gap: FloatArray, length: float, ridges: FloatArray) -> FloatArray:
    """Return the covariance of all coordinates of all gradients, over l^-2, with the ridges."""
    count, _, dim = gap.shape
    blocks = np.empty((count, dim, count, dim))
    scaled = gap * (near / -(length**2))[:, :, None]
    np.multiply(scaled.transpose(0, 2, 1)[:, :, :, None], gap[:, None], out=blocks)
    np.einsum("iaja->aij", blocks)[...] += near + np.diag(ridges)
    return blocks.reshape(count * dim, count * dim)
