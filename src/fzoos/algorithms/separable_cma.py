r"""The separable CMA-ES: an evolution strategy that learns one step size for each coordinate (Ros & Hansen 2008).

==========  =======  ================================================================================================
symbol      shape    meaning
==========  =======  ================================================================================================
m           (n,)     mean of the distribution N(m, sigma^2 diag(C)) that points are drawn from
sigma       scalar   its step size
C           (n,)     its covariance, of which only the diagonal is stored; D = sqrt(C)
lambda, mu  scalar   points of a generation, and how many of them, the best, are used: mu = floor(lambda / 2)
w           (mu,)    weights of those, w_k proportional to ln(mu + 1) - ln k; mu_w = 1 / sum w_k^2
p_s, p_c    (n,)     evolution paths: decaying sums of the steps that m made, for sigma and for C
c_s, d_s    scalar   rate of p_s and damping of sigma
c_c         scalar   rate of p_c
c_1, c_mu   scalar   rates of C: for the path and for the spread of the best points
chi         scalar   expected length of a vector from N(0, I)
==========  =======  ================================================================================================

A generation, where x_(1), x_(2), ... are its points from the best to the worst and y_(k) = (x_(k) - m) / sigma:

    x_k   = m + sigma D z_k,  z_k ~ N(0, I),  k = 1..lambda                                                          (1)
    y     = sum_k w_k y_(k),  m <- m + sigma y                                                                       (2)
    p_s   <- (1 - c_s) p_s + sqrt(c_s (2 - c_s) mu_w) y / D                                                          (3)
    sigma <- sigma exp((c_s / d_s) (||p_s|| / chi - 1))                                                              (4)
    p_c   <- (1 - c_c) p_c + h sqrt(c_c (2 - c_c) mu_w) y                                                            (5)
    C     <- (1 - c_1 - c_mu + c_1 (1 - h) c_c (2 - c_c)) C + c_1 p_c^2 + c_mu sum_k w_k y_(k)^2                     (6)

h is 0 while p_s is much longer than expected, so that fast moves do not stretch C, and 1 otherwise.
"""

from __future__ import annotations

import math

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["SeparableCMA"]

_LARGEST_SIGMA = 1e32
_TINY = 1e-8  # the variance that stands for one that rounding made negative


class SeparableCMA:
    """One search: `ask` for a generation of points, then `tell` what they are worth.

    Args:
        mean: m of the first generation, at least two coordinates.
        deviations: standard deviations of the first generation, one for each coordinate.
        population: lambda, the number of points in a generation.
        seed: the seed of the points that are drawn.

    Reference:
        R. Ros and N. Hansen, "A Simple Modification in CMA-ES Achieving Linear Time and Space Complexity", PPSN 2008.
        The rates c_1 and c_mu are those of N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv:1604.00772, with
        c_mu times (n + 2) / 3, as Ros and Hansen have it; so are they in the package cmaes, which gives the same bits.
    """

    def __init__(self, mean: FloatArray, deviations: FloatArray, population: int, seed: int) -> None:
        n, self._population = len(mean), population
        mu = population // 2
        raw = np.array([math.log(mu + 1) - math.log(k + 1) for k in range(mu)])
        self._w: FloatArray = raw / sum(raw)
        mu_w = self._mu_w = float(1 / sum(self._w**2))
        self._c_1 = 2 / ((n + 1.3) ** 2 + mu_w)
        full = 2 / mu_w / (n + math.sqrt(2)) ** 2 + (1 - 1 / mu_w) * min(1, (2 * mu_w - 1) / ((n + 2) ** 2 + mu_w))
        self._c_mu = (n + 2) / 3 * full
        self._c_c = 4 / (n + 4)
        self._c_s = (mu_w + 2) / (n + mu_w + 3)
        self._d_s = 1 + 2 * max(0, math.sqrt((mu_w - 1) / (n + 1)) - 1) + self._c_s
        self._chi = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
        self.mean, self._variances = mean.copy(), deviations**2
        self.sigma = 1.0  # in units of that of the first generation: only sigma sqrt(C) matters
        self._p_s, self._p_c, self._generation = np.zeros(n), np.zeros(n), 0
        self._rng = np.random.RandomState(seed)

    @property
    def forgets_all(self) -> bool:
        """Whether c_1 + c_mu > 1, as for a large population in few dimensions: C would not stay positive."""
        return self._c_1 + self._c_mu > 1.0

    @property
    def deviations(self) -> FloatArray:
        """sigma sqrt(C), the standard deviation of each coordinate."""
        s: FloatArray = self.sigma * np.sqrt(np.maximum(self._variances, 0.0))
        return s

    def ask(self) -> FloatArray:
        """Return the points of a generation, shape (lambda, n)."""
        z = self._rng.randn(self._population, len(self.mean))
        points: FloatArray = self.mean + self.sigma * (self._roots() * z)  # Eq. (1)
        return points

    def tell(self, points: FloatArray, worth: FloatArray) -> None:
        """Move the distribution towards the points whose worth is smallest; only the order matters.

        Other points may stand in for some of those of the generation.
        """
        self._generation += 1
        best = points[np.argsort(worth, kind="stable")[: len(self._w)]]
        y_k = (best - self.mean) / self.sigma
        y = np.sum(y_k.T * self._w, axis=1)
        self.mean += self.sigma * y  # Eq. (2)
        follow = math.sqrt(self._c_s * (2 - self._c_s) * self._mu_w)
        self._p_s = (1 - self._c_s) * self._p_s + follow * (y / self._roots())  # Eq. (3)
        length = float(np.linalg.norm(self._p_s))
        grown = self.sigma * np.exp((self._c_s / self._d_s) * (length / self._chi - 1))  # Eq. (4)
        self.sigma = min(float(grown), _LARGEST_SIGMA)
        # h: whether p_s is about as long as that of a search without direction, after this number of generations.
        started = 1 - (1 - self._c_s) ** (2 * (self._generation + 1))
        h = float(length / math.sqrt(started) < (1.4 + 2 / (len(y) + 1)) * self._chi)
        c_c, c_1, c_mu = self._c_c, self._c_1, self._c_mu
        self._p_c = (1 - c_c) * self._p_c + h * math.sqrt(c_c * (2 - c_c) * self._mu_w) * y  # Eq. (5)
        spread = np.sum(self._w[:, None] * y_k**2, axis=0)
        stays = 1 + c_1 * ((1 - h) * c_c * (2 - c_c)) - c_1 - c_mu * np.sum(self._w)
        self._variances = stays * self._variances + c_1 * self._p_c**2 + c_mu * spread  # Eq. (6)

    def _roots(self) -> FloatArray:
        """Return the diagonal of D, the standard deviation of each coordinate."""
        roots: FloatArray = np.sqrt(np.where(self._variances < 0, _TINY, self._variances))
        return roots
