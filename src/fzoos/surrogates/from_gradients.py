"""A function that is known by its gradients at a few points only: a Gaussian process for it, up to a constant."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["GradientProcess"]


class GradientProcess:
    """Posterior mean of a process with k(x, x') = exp(-|x - x'|^2 / 2 l^2), given noisy gradients.

        Cov(grad(x), grad(x')) = k(x, x') (I - (x - x') (x - x')^T / l^2) / l^2

    Args:
        points: where the gradients are known, shape (n, d).
        gradients: shape (n, d).
        length: l.
        ridges: variance of each gradient's noise over the prior's 1 / l^2, shape (n,).

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.from_gradients import GradientProcess
        >>> points = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]])
        >>> bowl = GradientProcess(points, 2 * points, 10.0, np.full(3, 1e-12))       # |x|^2
        >>> round(bowl(np.array([0.1, 0.1]))[0] - bowl(np.zeros(2))[0], 5), bowl(np.array([0.05, 0.05]))[1].round(4)
        (0.02, array([0.1, 0.1]))
    """

    def __init__(self, points: FloatArray, gradients: FloatArray, length: float, ridges: FloatArray) -> None:
        count, dim = points.shape
        self._points, self._length = points, length
        gap = points[:, None] - points
        near = np.exp(-0.5 * np.sum(gap * gap, axis=-1) / length**2)
        blocks = near[:, :, None, None] * (np.eye(dim) - gap[..., :, None] * gap[..., None, :] / length**2)
        matrix = blocks.transpose(0, 2, 1, 3).reshape(count * dim, count * dim)
        matrix[np.diag_indices(count * dim)] += np.repeat(ridges, dim)
        self._weights = np.linalg.solve(matrix, gradients.ravel()).reshape(count, dim)  # times l^2

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Its mean, up to a constant, and the mean's gradient."""
        gap = x - self._points
        near = np.exp(-0.5 * np.sum(gap * gap, axis=1) / self._length**2)
        along = np.sum(gap * self._weights, axis=1)
        gradient = (near[:, None] * (self._weights - (along / self._length**2)[:, None] * gap)).sum(axis=0)
        return float(near @ along), gradient
