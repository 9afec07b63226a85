r"""How far from x to ask, given noise: the distance at which a star of queries leaves the gradient least uncertain.

========  =======  =========================================================================================
symbol    shape    meaning
========  =======  =========================================================================================
m         scalar   queries of the star, in orthonormal directions u_1, ..., u_m; x itself is asked too
h         scalar   their distance from x
lambda    scalar   sigma^2 / a^2, the variance of the noise over that of the function
kappa     scalar   the kernel as a function of squared distance, kappa(0) = 1
b, e      scalar   kappa(h^2), kappa(2 h^2): between x and a point, between two points
========  =======  =========================================================================================

The covariance of the gradient at x with the observation at x + h u_j is 2 kappa'(h^2) (-h u_j), with that at x it is
zero. The u_j are orthonormal, so of (K + lambda I)^{-1} only the diagonal of the star's block counts:

    trace Sigma_grad(x) = -2 kappa'(0) d - 4 h^2 kappa'(h^2)^2 tr S^{-1}                                            (1)

S is what is left of the star's block when x has been eliminated. It is a multiple of the identity plus one of 1 1^T:

    S = (1 + lambda - e) I + (e - b^2 / (1 + lambda)) 1 1^T
    tr S^{-1} = (m - 1) / (1 + lambda - e) + 1 / (1 + lambda - e + m (e - b^2 / (1 + lambda)))                      (2)

Close to x the differences drown in noise, far from it the function has forgotten its slope at x. For the squared
exponential and many points, t = h^2 / l^2 solves (1 - t)(1 + lambda) = exp(-t):

    h = l sqrt(1 + W(-exp(-1) / (1 + lambda))),   about l (2 lambda)^{1/4} for little noise and l for much.         (3)

(W is Lambert's function.) The best distance grows with the fourth root of the noise's variance only; it needs no query.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from fzoos._util.checks import check_count, check_number
from fzoos.surrogates.kernels import Kernel

__all__ = ["best_distance", "best_radius", "explained"]

_NEAREST, _FURTHEST = 1e-5, 4.0  # in length scales: beyond them nothing is best


def explained(kernel: Kernel, ratio: float, count: int, distance: float) -> float:
    """By how much a star of queries reduces the trace of the gradient's covariance at its centre, Eq. (1) and (2).

    Args:
        kernel: its length scale included.
        ratio: lambda, the variance of the noise over that of the function.
        count: m, the number of points around x.
        distance: h, how far they are from x.

    Example:
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.algorithms.fixed_fzoos.radius import explained
        >>> kernel = SquaredExponential(1.0)
        >>> prior = -2 * kernel.dkappa0 * 10                         # in 10 dimensions
        >>> round(explained(kernel, ratio=1e-4, count=10, distance=0.1) / prior, 3)
        0.976
    """
    s = distance * distance
    b, e = float(kernel.kappa(np.asarray(s))), float(kernel.kappa(np.asarray(2.0 * s)))
    slope = float(kernel.dkappa(np.asarray(s)))
    apart = 1.0 + ratio - e
    together = apart + count * (e - b * b / (1.0 + ratio))
    return 4.0 * s * slope * slope * ((count - 1) / apart + 1.0 / together)


def best_distance(kernel: Kernel, ratio: float, count: int) -> float:
    """h, the distance of the star's points from x that explains most.

    Args:
        kernel: its length scale included.
        ratio: lambda; the floor of a noise model, 1e-6, stands for none.
        count: m, the number of points around x.

    Example:
        >>> from fzoos.surrogates.kernels import Matern52
        >>> from fzoos.algorithms.fixed_fzoos.radius import best_distance
        >>> [round(best_distance(Matern52(8.0), ratio, 300), 2) for ratio in (1e-6, 1e-3, 1.0)]
        [0.19, 1.04, 4.98]
    """
    check_number("ratio (lambda)", ratio, 0.0)
    check_count("count (m)", count, low=1)
    if ratio <= 0.0:
        raise ValueError("ratio (lambda) must be positive: without noise the best distance is zero")

    def negative(log_h: float) -> float:
        return -explained(kernel, ratio, count, math.exp(log_h) * kernel.length_scale)

    grid = np.linspace(math.log(_NEAREST), math.log(_FURTHEST), 60)
    best = int(np.argmin([negative(g) for g in grid]))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = scipy.optimize.minimize_scalar(negative, bounds=bounds, method="bounded", options={"xatol": 1e-4})
    return math.exp(float(found.x)) * kernel.length_scale


def best_radius(kernel: Kernel, ratio: float, dim: int, count: int, at_most: float = 0.15) -> float:
    """The same as a radius of `InitialDesign` and `UnseenDirections`, whose points are at the distance sqrt(d) radius.

    Args:
        kernel: its length scale included.
        ratio: lambda, the variance of the noise over that of the function.
        dim: d, the number of variables.
        count: m, the number of points around x.
        at_most: the largest radius, as a share of the box. Eq. (1) believes the kernel at any distance. Far from x the
            function is not what a kernel with one length scale expects, and that error grows with the distance, while
            most of what there is to gain has been gained.

    Example:
        >>> from fzoos.surrogates.kernels import Matern52
        >>> from fzoos.algorithms.fixed_fzoos.radius import best_radius
        >>> round(best_radius(Matern52(8.0), 1e-6, dim=300, count=300), 3)      # what was found by trying is 0.01
        0.011
    """
    check_count("dim (d)", dim, low=1)
    return min(best_distance(kernel, ratio, count) / math.sqrt(dim), at_most)
