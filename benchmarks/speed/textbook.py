"""FZooS as one would first write it, to be timed beside ours: fresh factorisations, explicit Jacobians, no reuse.

The same mathematics as `fzoos` with the squared exponential kernel; one client, one round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Textbook:
    """One client; settings as in the paper, with the nearest points that its authors used."""

    objective: Callable[[Array], Array]
    frequencies: Array  # V, (M, d)
    phases: Array  # b, (M,)
    x: Array  # the trajectory, (n, d)
    y: Array  # (n,)
    rng: np.random.Generator
    length_scale: float = 1.0
    noise: float = 1e-6

    def nearest(self, x: Array, count: int) -> tuple[Array, Array, float]:
        """The nearest points, their standardised observations, and the scale."""
        order = np.argsort(np.sum((self.x - x) ** 2, axis=1))[:count]
        y = self.y[order]
        scale = float(np.std(y)) or 1.0
        return self.x[order], (y - np.mean(y)) / scale, scale

    def kernel(self, a: Array, b: Array) -> Array:
        distances: Array = np.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=2)
        return np.exp(-0.5 * distances / self.length_scale**2)

    def jacobian(self, x: Array, points: Array) -> Array:
        return -self.kernel(points, x[None, :]) * (x - points) / self.length_scale**2

    def gradient(self, x: Array) -> Array:
        points, y, scale = self.nearest(x, 150)
        k = self.kernel(points, points) + self.noise * np.eye(len(points))
        gradient: Array = scale * self.jacobian(x, points).T @ np.linalg.solve(k, y)
        return gradient

    def trace(self, x: Array, points: Array) -> float:
        k = self.kernel(points, points) + self.noise * np.eye(len(points))
        j = self.jacobian(x, points)
        covariance = np.eye(len(x)) / self.length_scale**2 - j.T @ np.linalg.solve(k, j)
        return float(np.trace(covariance))

    def feature_gradient(self, x: Array, w: Array) -> Array:
        amplitude = np.sqrt(2.0 / len(self.phases))
        jacobian = -amplitude * np.sin(self.frequencies @ x + self.phases)[:, None] * self.frequencies
        gradient: Array = jacobian.T @ w
        return gradient

    def weights(self, x: Array) -> Array:
        points, y, scale = self.nearest(x, 500)
        phi = np.sqrt(2.0 / len(self.phases)) * np.cos(points @ self.frequencies.T + self.phases)
        w: Array = scale * phi.T @ np.linalg.solve(phi @ phi.T + self.noise * np.eye(len(points)), y)
        return w

    def query(self, points: Array) -> None:
        self.x = np.concatenate([self.x, points])
        self.y = np.concatenate([self.y, self.objective(points)])

    def query_actively(self, x: Array, candidates: int, picks: int, radius: float) -> None:
        drawn = x + self.rng.uniform(-radius, radius, (candidates, len(x)))
        points, _, _ = self.nearest(x, 150)
        uncertain = np.argsort([-self.trace(candidate, points) for candidate in drawn])
        self.query(drawn[uncertain[:picks]])

    def round(self, x: Array, w: Array, local_steps: int, learning_rate: float = 0.01) -> Array:
        """T local steps, then the refresh at x and the new weights."""
        own = self.weights(x)
        m, v = np.zeros_like(x), np.zeros_like(x)
        for t in range(1, local_steps + 1):
            correction = self.feature_gradient(x, w) - self.feature_gradient(x, own)
            g = self.gradient(x) + correction / t
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            x = x - learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            if t < local_steps:
                self.query_actively(x, 100, 5, 0.01)
        self.query(x[None, :])
        self.query_actively(x, 200, 50, 0.01)
        return self.weights(x)
