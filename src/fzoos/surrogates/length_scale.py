"""A length scale by marginal likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray, squared_distances
from fzoos._util.checks import check_count, check_positive
from fzoos.surrogates.cholesky import GrowingCholesky
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.noise import NoiseModel
from fzoos.surrogates.standardise import Standardised

__all__ = ["FitLengthScale", "fit_length_scale", "log_marginal_likelihood"]


@dataclass(frozen=True)
class FitLengthScale:
    """Fit the kernel's length scale by marginal likelihood, once a round.

    Every client fits its own to the points nearest to x; log l is averaged with the payload (8 bytes), and all clients
    use that one l in the next round. It must be the same for all: the random features depend on it.

    Args:
        low: smallest length scale tried, in units of the unit cube.
        high: largest length scale tried.
        points: at most this many points, the nearest, enter the likelihood.

    Example:
        >>> from fzoos import FixedFZooS, FitLengthScale
        >>> FixedFZooS(fit=FitLengthScale(low=0.1, high=30.0)).fit.high
        30.0
    """

    low: float = 0.05
    high: float = 20.0
    points: int = 300

    def __post_init__(self) -> None:
        check_positive("low", self.low)
        check_positive("high", self.high)
        if self.low >= self.high:
            raise ValueError(f"low must be below high = {self.high:g}, got {self.low:g}")
        check_count("points", self.points, low=3)


def log_marginal_likelihood(kernel: Kernel, noise: float, s: FloatArray, y: FloatArray) -> float:
    """log p(y) = -(y^T A^{-1} y + log det A + n log 2 pi) / 2 with A = kappa(s) + sigma^2 I.

    Args:
        kernel: the kernel, with its length scale.
        noise: sigma^2.
        s: squared distances among the points, shape (n, n).
        y: standardised observations, shape (n,).
    """
    factor = GrowingCholesky(s)
    factor.append(s[:, :0], kernel.kappa(s) + noise * np.eye(len(y)))
    return -0.5 * (float(y @ factor.solve(y)) + factor.log_determinant() + len(y) * math.log(2.0 * math.pi))


def fit_length_scale(
    kernel: Kernel, noise: float | NoiseModel, x: FloatArray, y: FloatArray, settings: FitLengthScale
) -> float:
    """The length scale in [low, high] under which y is likeliest; the kernel's own for fewer than 3 points.

    With a noise model, every length scale is judged with the ridge that the model finds for it: both are searched.
    There a weak prior keeps l near the kernel's own (log l within 1) where the points say nothing of it, as those of an
    orthogonal design do.
    """
    if len(y) < 3:
        return kernel.length_scale
    s = squared_distances(x, x)
    np.fill_diagonal(s, 0.0)
    values = Standardised.of(y).values

    def negative(log_l: float) -> float:
        tried = kernel.with_length_scale(math.exp(log_l))
        if isinstance(noise, NoiseModel):
            return -noise.evaluate(tried, s, y)[1] + 0.5 * (log_l - math.log(kernel.length_scale)) ** 2
        return -log_marginal_likelihood(tried, noise, s, values)

    bounds = (math.log(settings.low), math.log(settings.high))
    return math.exp(
        float(scipy.optimize.minimize_scalar(negative, bounds=bounds, method="bounded", options={"xatol": 0.01}).x)
    )
