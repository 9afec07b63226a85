"""Noise of the observations: given by the user, or fitted.

A surrogate on standardised observations has one number for noise, the ridge lambda = sigma^2 / a^2: the variance of the
noise over the prior variance of the function. sigma alone does not give it. Observations a short way from each other
differ by little of the function's range, and the kernel says how little: a, the amplitude that the function has over a
length scale, is what makes their differences likely (`surrogates/evidence.py`). So a is fitted in any case, and sigma
where it is not known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fzoos._util.arrays import FloatArray, squared_distances
from fzoos._util.checks import check_count, check_positive
from fzoos.surrogates.evidence import Evidence, Ridge
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.standardise import Standardised

__all__ = ["FittedNoise", "KnownNoise", "NoiseModel"]

_FEWEST = 3  # points from which something can be learned


class NoiseModel(ABC):
    """Says which ridge a client's surrogate has; found anew once a round, and never sent."""

    points: int
    floor: ClassVar[float] = 1e-6  # lambda without noise
    ceiling: ClassVar[float] = 10.0  # beyond it, lambda only scales the gradient

    @abstractmethod
    def _fit(self, evidence: Evidence, scale: float) -> Ridge:
        """The likeliest ridge of observations that were divided by `scale`, in their units."""

    def ridge(self, kernel: Kernel, x: FloatArray, y: FloatArray) -> Ridge:
        """The ridge for these points, shape (n, d), and their observations, shape (n,)."""
        if len(y) < _FEWEST:
            return Ridge(self.floor)
        s = squared_distances(x, x)
        np.fill_diagonal(s, 0.0)
        return self.evaluate(kernel, s, y)[0]

    def evaluate(self, kernel: Kernel, s: FloatArray, y: FloatArray) -> tuple[Ridge, float]:
        """The ridge, and log p(y / scale) with it; s are squared distances, shape (n, n)."""
        observed = Standardised.of(y)
        if not np.any(observed.values):
            return Ridge(self.floor), 0.0
        evidence = Evidence(kernel, s, observed.values)
        ratio, amplitude = self._fit(evidence, observed.scale)
        assert amplitude is not None
        return Ridge(ratio, amplitude * observed.scale), evidence.log_likelihood(amplitude, amplitude * ratio**0.5)


@dataclass(frozen=True)
class KnownNoise(NoiseModel):
    """The standard deviation of the observation noise is known, in the objective's units.

    Args:
        sigma: standard deviation of one observation.
        points: at most this many points, the nearest, enter the likelihood of the amplitude.

    Example:
        >>> from fzoos import FixedFZooS, KnownNoise
        >>> FixedFZooS(noise=KnownNoise(0.1)).noise.sigma
        0.1
    """

    sigma: float
    points: int = 300

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        check_count("points", self.points, low=_FEWEST)

    def _fit(self, evidence: Evidence, scale: float) -> Ridge:
        return evidence.fit_known(self.sigma / scale, self.floor, self.ceiling)


@dataclass(frozen=True)
class FittedNoise(NoiseModel):
    """The noise is not known: every client fits it to its own observations by marginal likelihood.

    Noise shows where observations close to each other differ. A design whose points all have the same distance from
    each other tells nothing of it; queries at several distances do, and so does a point that was asked twice. What the
    kernel cannot explain counts as noise too: fit the length scale along with it (`fit=FitLengthScale()`).

    Args:
        points: at most this many points, the nearest, enter the likelihood.

    Example:
        >>> from fzoos import FittedNoise, FixedFZooS
        >>> FixedFZooS(noise=FittedNoise()).noise.points
        300
    """

    points: int = 300

    def __post_init__(self) -> None:
        check_count("points", self.points, low=_FEWEST)

    def _fit(self, evidence: Evidence, scale: float) -> Ridge:
        return evidence.fit(self.floor, self.ceiling)
