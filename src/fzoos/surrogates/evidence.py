"""How likely observations are under a kernel, for every amplitude and noise, from one eigendecomposition.

========  =======  ====================================================================================
symbol    shape    meaning
========  =======  ====================================================================================
y         (n,)     observations, less their mean
K         (n, n)   kappa(D), with K = Q diag(e) Q^T
z         (n,)     Q^T y
a^2       scalar   amplitude: the prior variance of f
sigma^2   scalar   variance of the observation noise
lambda    scalar   sigma^2 / a^2: the ridge of a surrogate whose prior variance is 1
========  =======  ====================================================================================

The model is y ~ N(0, a^2 K + sigma^2 I). In the basis Q it is n independent numbers:

    log p(y) = -1/2 sum_i [ z_i^2 / (a^2 e_i + sigma^2) + log(a^2 e_i + sigma^2) + log 2 pi ].            (1)

Where only lambda is held, the likeliest amplitude has a closed form, and (1) becomes a function of lambda alone:

    a^2(lambda) = 1/n sum_i z_i^2 / (e_i + lambda).                                                        (2)

Either way a value costs O(n), so that a whole grid of them costs less than the decomposition.

Some designs say nothing of lambda: points in orthogonal directions at one distance from x share one e, and a^2 e +
sigma^2 is all that (1) sees of them; and a few points that drown in noise say nothing of a. So a weak prior is added to
(1), log10 lambda ~ N(-3, 2^2), which a handful of telling observations outvotes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos.surrogates.kernels import Kernel

__all__ = ["Evidence", "Ridge"]

_GRID = 40  # values of lambda that are looked at before the best of them is refined
_TINY = 1e-300
_MODE, _DECADES = 1e-3, 2.0  # of the prior on lambda


class Ridge(NamedTuple):
    """What a surrogate needs to know of noise."""

    ratio: float
    """lambda, what is added to the diagonal of K."""
    amplitude: float | None = None
    """a, in the units of y; None: the standard deviation of the points in use."""

    def resembles(self, other: Ridge) -> bool:
        """Whether both numbers are within a factor of 1.2."""
        if self.amplitude is None or other.amplitude is None:
            return self == other
        pairs = ((self.ratio, other.ratio), (self.amplitude, other.amplitude))
        return all(max(a, b) <= 1.2 * min(a, b) for a, b in pairs)


class Evidence:
    """log p(y) under one kernel.

    Args:
        kernel: the kernel, with its length scale.
        s: squared distances among the points, shape (n, n).
        y: observations, shape (n,), in any units.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.surrogates.evidence import Evidence
        >>> x = np.linspace(0, 3, 200)
        >>> y = np.sin(2 * x) + 0.1 * np.random.default_rng(0).standard_normal(200)
        >>> evidence = Evidence(SquaredExponential(0.8), (x[:, None] - x) ** 2, y)
        >>> ratio, a = evidence.fit(low=1e-6, high=10.0)
        >>> round(a * ratio**0.5, 2)                               # the noise's standard deviation
        0.1
    """

    def __init__(self, kernel: Kernel, s: FloatArray, y: FloatArray) -> None:
        eigenvalues, vectors = np.linalg.eigh(kernel.kappa(s))
        self._e = np.maximum(eigenvalues, 0.0)
        self._squares = (vectors.T @ (y - np.mean(y))) ** 2  # z^2

    def log_likelihood(self, amplitude: float, noise: float) -> float:
        """Eq. (1), for a and sigma."""
        variance = np.maximum(amplitude**2 * self._e + noise**2, _TINY)
        return -0.5 * float(np.sum(self._squares / variance + np.log(variance) + math.log(2.0 * math.pi)))

    def amplitude(self, ratio: float) -> float:
        """a(lambda), Eq. (2); 0 where all observations are equal."""
        return math.sqrt(float(np.mean(self._squares / (self._e + ratio))))

    def fit(self, low: float, high: float) -> Ridge:
        """The likeliest lambda in [low, high], and the amplitude that goes with it."""
        ratio = self._best(self.amplitude, low, high)
        return Ridge(ratio, self.amplitude(ratio))

    def fit_known(self, noise: float, low: float, high: float) -> Ridge:
        """The likeliest amplitude where sigma is known; lambda is cut to [low, high].

        Below `low` the noise is less than the ridge that arithmetic needs, and a is that of Eq. (2).
        """

        def amplitude(ratio: float) -> float:
            known = noise / math.sqrt(ratio)
            return max(self.amplitude(ratio), known) if ratio <= low else known

        ratio = self._best(amplitude, low, high)
        return Ridge(ratio, amplitude(ratio))

    def _best(self, amplitude: Callable[[float], float], low: float, high: float) -> float:
        """argmax over lambda of log p(y) with a = amplitude(lambda): a grid in log lambda, the best of it refined."""

        def negative(ratio: float) -> float:
            a = amplitude(ratio)
            prior = 0.5 * (math.log10(ratio / _MODE) / _DECADES) ** 2
            return prior - self.log_likelihood(a, a * math.sqrt(ratio))

        grid = np.geomspace(low, high, _GRID).tolist()
        values = [negative(ratio) for ratio in grid]
        best = int(np.argmin(values))
        bounds = (math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, _GRID - 1)]))
        refined = scipy.optimize.minimize_scalar(
            lambda g: negative(math.exp(g)), bounds=bounds, method="bounded", options={"xatol": 0.01}
        )
        return math.exp(refined.x) if refined.fun < values[best] else float(grid[best])
