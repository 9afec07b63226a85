"""FedLS: the least-squares problems of Moré and Wild, as sums of squares, with noise, or as sums of absolute values.

Each of the 53 problems is one of 22 vector functions r(x) with a number of variables and a start, which is the standard
start or ten times as far from the origin. Most functions are defined by Moré, Garbow and Hillstrom; the last four are
from the CUTEr collection.

References:
    J. J. Moré and S. M. Wild, "Benchmarking Derivative-Free Optimization Algorithms", SIAM Journal on Optimization,
    2009.
    J. J. Moré, B. S. Garbow and K. E. Hillstrom, "Testing Unconstrained Optimization Software", ACM Transactions on
    Mathematical Software, 1981.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count
from fzoos_experiments.suites.problem import SuiteProblem, split

__all__ = ["PROBLEMS", "LeastSquares", "Variant", "least_squares"]

Variant = Literal["smooth", "noisy", "absolute"]

_LARGEST = 1e30  # bound of residuals, whose exponentials overflow far from a solution
_NOISE = 1e-3  # relative noise of "noisy"


def _linear_full_rank(x: FloatArray, m: int) -> FloatArray:
    r: FloatArray = np.pad(x, (0, m - len(x))) - 2.0 * x.sum() / m - 1.0
    return r


def _linear_rank_1(x: FloatArray, m: int) -> FloatArray:
    return _count(m) * (_count(len(x)) @ x) - 1.0


def _linear_rank_1_zeros(x: FloatArray, m: int) -> FloatArray:
    """The first and last columns, and the first and last rows, are zero."""
    inner = np.arange(2.0, len(x)) @ x[1:-1]
    return np.append(np.arange(m - 1.0) * inner, 0.0) - 1.0


def _rosenbrock(x: FloatArray, m: int) -> FloatArray:
    return np.array([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])


def _helical_valley(x: FloatArray, m: int) -> FloatArray:
    """The angle is between -1/4 and 3/4 of a turn."""
    turn = np.arctan2(x[1], x[0]) / (2.0 * np.pi)
    turn += turn < -0.25 or (x[0] == 0.0 and x[1] < 0.0)
    turn = 0.25 if x[0] == 0.0 and x[1] != 0.0 else turn
    return np.array([10.0 * (x[2] - 10.0 * turn), 10.0 * (np.hypot(x[0], x[1]) - 1.0), x[2]])


def _powell_singular(x: FloatArray, m: int) -> FloatArray:
    a, b, c, d = x
    return np.array([a + 10 * b, np.sqrt(5) * (c - d), (b - 2 * c) ** 2, np.sqrt(10) * (a - d) ** 2])


def _freudenstein_roth(x: FloatArray, m: int) -> FloatArray:
    a, b = x
    return np.array([-13.0 + a + ((5.0 - b) * b - 2.0) * b, -29.0 + a + ((1.0 + b) * b - 14.0) * b])


def _bard(x: FloatArray, m: int) -> FloatArray:
    u = _count(15)
    v = 16.0 - u
    r: FloatArray = _BARD - x[0] - u / (x[1] * v + x[2] * np.minimum(u, v))
    return r


def _kowalik_osborne(x: FloatArray, m: int) -> FloatArray:
    u = _KOWALIK_U
    r: FloatArray = _KOWALIK_Y - x[0] * u * (u + x[1]) / (u * (u + x[2]) + x[3])
    return r


def _meyer(x: FloatArray, m: int) -> FloatArray:
    r: FloatArray = x[0] * np.exp(x[1] / (45.0 + 5.0 * _count(16) + x[2])) - _MEYER
    return r


def _watson(x: FloatArray, m: int) -> FloatArray:
    powers = (_count(29)[:, None] / 29.0) ** np.arange(len(x))
    slope = powers[:, :-1] @ (np.arange(1.0, len(x)) * x[1:])
    return np.append(slope - (powers @ x) ** 2 - 1.0, [x[0], x[1] - x[0] ** 2 - 1.0])


def _box_3d(x: FloatArray, m: int) -> FloatArray:
    t = _count(m) / 10.0
    r: FloatArray = np.exp(-t * x[0]) - np.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10.0 * t))
    return r


def _jennrich_sampson(x: FloatArray, m: int) -> FloatArray:
    i = _count(m)
    r: FloatArray = 2.0 + 2.0 * i - np.exp(i * x[0]) - np.exp(i * x[1])
    return r


def _brown_dennis(x: FloatArray, m: int) -> FloatArray:
    t = _count(m) / 5.0
    r: FloatArray = (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + np.sin(t) * x[3] - np.cos(t)) ** 2
    return r


def _chebyquad(x: FloatArray, m: int) -> FloatArray:
    """Means of the shifted Chebyshev polynomials T_1, ..., T_m, minus their integrals over [0, 1]."""
    before, now = np.ones_like(x), 2.0 * x - 1.0
    means = []
    for _ in range(m):
        means.append(now.mean())
        before, now = now, 2.0 * (2.0 * x - 1.0) * now - before
    i = _count(m)
    integrals = np.where(i % 2 == 0, -1.0 / np.maximum(i**2 - 1.0, 1.0), 0.0)
    return np.array(means) - integrals


def _brown_almost_linear(x: FloatArray, m: int) -> FloatArray:
    return np.append(x[:-1] + x.sum() - (len(x) + 1.0), x.prod() - 1.0)


def _osborne_1(x: FloatArray, m: int) -> FloatArray:
    t = 10.0 * np.arange(33)
    r: FloatArray = _OSBORNE_1 - (x[0] + x[1] * np.exp(-x[3] * t) + x[2] * np.exp(-x[4] * t))
    return r


def _osborne_2(x: FloatArray, m: int) -> FloatArray:
    t = np.arange(65) / 10.0
    bells = np.exp(-x[5:8, None] * (t - x[8:11, None]) ** 2)
    r: FloatArray = _OSBORNE_2 - x[0] * np.exp(-x[4] * t) - x[1:4] @ bells
    return r


def _bdqrtic(x: FloatArray, m: int) -> FloatArray:
    k, squares = len(x) - 4, x**2
    sums = squares[:k] + 2 * squares[1 : k + 1] + 3 * squares[2 : k + 2] + 4 * squares[3 : k + 3] + 5 * squares[-1]
    return np.append(3.0 - 4.0 * x[:k], sums)


def _cube(x: FloatArray, m: int) -> FloatArray:
    return np.append(x[0] - 1.0, 10.0 * (x[1:] - x[:-1] ** 3))


def _mancino(x: FloatArray, m: int) -> FloatArray:
    i = _count(len(x))
    return 1400.0 * x + (i - 50.0) ** 3 + _mancino_sums(x)


def _mancino_sums(x: FloatArray) -> FloatArray:
    i = _count(len(x))
    v = np.sqrt(x[:, None] ** 2 + i[:, None] / i)
    r: FloatArray = (v * (np.sin(np.log(v)) ** 5 + np.cos(np.log(v)) ** 5)).sum(axis=1)
    return r


def _heart_8(x: FloatArray, m: int) -> FloatArray:
    """Moments of two dipoles: with p = a + ib and z = t + iu, sums of p, p z, p z^2 and p z^3, real and imaginary."""
    p, z = x[:2] + 1j * x[2:4], x[4:6] + 1j * x[6:8]
    moments = np.array([(p * z**k).sum() for k in range(4)]) + np.array(
        [0.69 + 0.044j, 1.57 + 1.31j, 2.65 - 2.0j, 12.6 - 9.48j]
    )
    return np.stack([moments.real, moments.imag], axis=1).ravel()


def _numbers(text: str) -> FloatArray:
    return np.array([float(word) for word in text.split()])


def _count(n: int) -> FloatArray:
    return np.arange(1.0, n + 1.0)


def _mancino_start(n: int) -> FloatArray:
    return -8.710996e-4 * ((_count(n) - 50.0) ** 3 + _mancino_sums(np.zeros(n)))


_BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.1, 4.39])
_KOWALIK_U = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
_KOWALIK_Y = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
_MEYER = np.array(
    [34780.0, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]
)
_OSBORNE_1 = _numbers(
    """0.844 0.908 0.932 0.936 0.925 0.908 0.881 0.850 0.818 0.784 0.751 0.718 0.685 0.658 0.628 0.603 0.580 0.558 0.538
    0.522 0.506 0.490 0.478 0.467 0.457 0.448 0.438 0.431 0.424 0.420 0.414 0.411 0.406"""
)
_OSBORNE_2 = _numbers(
    """1.366 1.191 1.112 1.013 0.991 0.885 0.831 0.847 0.786 0.725 0.746 0.679 0.608 0.655 0.616 0.606 0.602 0.626 0.651
    0.724 0.649 0.649 0.694 0.644 0.624 0.661 0.612 0.558 0.533 0.495 0.500 0.423 0.395 0.375 0.372 0.391 0.396 0.405
    0.428 0.429 0.523 0.562 0.607 0.653 0.672 0.708 0.633 0.668 0.645 0.632 0.591 0.559 0.597 0.625 0.739 0.710 0.729
    0.720 0.636 0.581 0.428 0.292 0.162 0.098 0.054"""
)


@dataclass(frozen=True)
class LeastSquares:
    """One of the problems: a vector function, its size and its start.

    Args:
        name: the function.
        residuals: r, from x and m to m numbers.
        start: x0.
        m: the number of residuals.
        nonnegative: whether the sum of absolute values replaces negative coordinates by zero, as Moré and Wild do for
            functions with poles or overflows.
        smallest: the smallest known sum of squares and sum of absolute values.
    """

    name: str
    residuals: Callable[[FloatArray, int], FloatArray]
    start: FloatArray
    m: int
    nonnegative: bool
    smallest: tuple[float, float]

    @property
    def dim(self) -> int:
        """d, the number of variables."""
        return len(self.start)

    def squares(self, x: FloatArray) -> float:
        """The sum of the squares of the residuals.

        Example:
            >>> from fzoos_experiments.suites.least_squares import PROBLEMS
            >>> PROBLEMS[6].name, PROBLEMS[6].squares(PROBLEMS[6].start)    # (10 (1 - 1.44))^2 + 2.2^2
            ('rosenbrock', 24.199999999999996)
        """
        return float(np.sum(self._bounded(x) ** 2))

    def absolutes(self, x: FloatArray) -> float:
        """The sum of the absolute values of the residuals."""
        return float(np.sum(np.abs(self._bounded(np.maximum(x, 0.0) if self.nonnegative else x))))

    def _bounded(self, x: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            residuals = self.residuals(np.asarray(x, float), self.m)
        return np.nan_to_num(residuals, nan=_LARGEST, posinf=_LARGEST, neginf=-_LARGEST).clip(-_LARGEST, _LARGEST)


def _start(*x: float) -> Callable[[int], FloatArray]:
    return lambda n: np.array(x)


def _equal(value: float) -> Callable[[int], FloatArray]:
    return lambda n: np.full(n, value)


_FUNCTIONS: dict[str, tuple[Callable[[FloatArray, int], FloatArray], Callable[[int], FloatArray]]] = {
    "linear-full-rank": (_linear_full_rank, _equal(1.0)),
    "linear-rank-1": (_linear_rank_1, _equal(1.0)),
    "linear-rank-1-zeros": (_linear_rank_1_zeros, _equal(1.0)),
    "rosenbrock": (_rosenbrock, _start(-1.2, 1.0)),
    "helical-valley": (_helical_valley, _start(-1.0, 0.0, 0.0)),
    "powell-singular": (_powell_singular, _start(3.0, -1.0, 0.0, 1.0)),
    "freudenstein-roth": (_freudenstein_roth, _start(0.5, -2.0)),
    "bard": (_bard, _equal(1.0)),
    "kowalik-osborne": (_kowalik_osborne, _start(0.25, 0.39, 0.415, 0.39)),
    "meyer": (_meyer, _start(0.02, 4000.0, 250.0)),
    "watson": (_watson, _equal(0.5)),
    "box-3d": (_box_3d, _start(0.0, 10.0, 20.0)),
    "jennrich-sampson": (_jennrich_sampson, _start(0.3, 0.4)),
    "brown-dennis": (_brown_dennis, _start(25.0, 5.0, -5.0, -1.0)),
    "chebyquad": (_chebyquad, lambda n: _count(n) / (n + 1.0)),
    "brown-almost-linear": (_brown_almost_linear, _equal(0.5)),
    "osborne-1": (_osborne_1, _start(0.5, 1.5, 1.0, 0.01, 0.02)),
    "osborne-2": (_osborne_2, _start(1.3, 0.65, 0.65, 0.7, 0.6, 3.0, 5.0, 7.0, 2.0, 4.5, 5.5)),
    "bdqrtic": (_bdqrtic, _equal(1.0)),
    "cube": (_cube, _equal(0.5)),
    "mancino": (_mancino, _mancino_start),
    "heart-8": (_heart_8, _start(-0.3, -0.39, 0.3, -0.344, -1.2, 2.69, 1.59, -1.5)),
}
_NONNEGATIVE = {"bard", "kowalik-osborne", "jennrich-sampson", "brown-almost-linear", "osborne-1", "osborne-2"}

_ROWS = """\
linear-full-rank 9 45 1 36 22.5
linear-full-rank 9 45 10 36 22.5
linear-rank-1 7 35 1 8.380281690141 14.2
linear-rank-1 7 35 10 8.380281690141 14.2
linear-rank-1-zeros 7 35 1 9.880597014925 15.375
linear-rank-1-zeros 7 35 10 9.880597014925 15.375
rosenbrock 2 2 1 0 0
rosenbrock 2 2 10 0 0
helical-valley 3 3 1 0 0
helical-valley 3 3 10 0 0
powell-singular 4 4 1 0 0
powell-singular 4 4 10 0 0
freudenstein-roth 2 2 1 0 0
freudenstein-roth 2 2 10 0 0
bard 3 15 1 0.008214877306579 0.12433831573
bard 3 15 10 0.008214877306579 0.12433831573
kowalik-osborne 4 11 1 0.0003075056038492 0.038767973359
meyer 3 16 1 87.94585517034 26.337357961
watson 6 31 1 0.002287670053552 0.19357913433
watson 6 31 10 0.002287670053552 0.19357913433
watson 9 31 1 1.399760138082e-06 0.005107246107
watson 9 31 10 1.399760138082e-06 0.005107246107
watson 12 31 1 4.722381099666e-10 8.5454523249e-05
watson 12 31 10 4.722381099666e-10 8.5454523249e-05
box-3d 3 10 1 0 0
jennrich-sampson 2 10 1 124.3621823556 32.091941057
brown-dennis 4 20 1 85822.20162636 903.2343318
brown-dennis 4 20 10 85822.20162636 903.2343318
chebyquad 6 6 1 0 0
chebyquad 7 7 1 0 0
chebyquad 8 8 1 0.003516873725678 0.068697402851
chebyquad 9 9 1 0 0
chebyquad 10 10 1 0.004772713696375 0.10586257686
chebyquad 11 11 1 0.002799761551866 0.059272413841
brown-almost-linear 10 10 1 0 0
osborne-1 5 33 1 5.464894697483e-05 0.86670397023
osborne-2 11 65 1 0.04013773629355 1.1552475811
osborne-2 11 65 10 0.04013773629355 1.1552475811
bdqrtic 8 8 1 10.23897342132 7.1625
bdqrtic 10 12 1 18.28116175359 12.3625
bdqrtic 11 14 1 22.26059173488 14.9625
bdqrtic 12 16 1 26.27276639681 17.5625
cube 5 5 1 0 0
cube 6 6 1 0 0
cube 8 8 1 0 0
mancino 5 5 1 0 0
mancino 5 5 10 0 0
mancino 8 8 1 0 0
mancino 10 10 1 0 0
mancino 12 12 1 0 0
mancino 12 12 10 0 0
heart-8 8 8 1 0 0
heart-8 8 8 10 0 0"""


def _problems() -> tuple[LeastSquares, ...]:
    found = []
    for row in _ROWS.splitlines():
        name, n, m, factor, squares, absolutes = row.split()
        residuals, start = _FUNCTIONS[name]
        x0, smallest = float(factor) * start(int(n)), (float(squares), float(absolutes))
        found.append(LeastSquares(name, residuals, x0, int(m), name in _NONNEGATIVE, smallest))
    return tuple(found)


PROBLEMS = _problems()
"""The 53 problems, in the order of Moré and Wild."""


def least_squares(
    number: int,
    instance: int,
    *,
    variant: Variant = "smooth",
    clients: int = 4,
    heterogeneity: float = 1.0,
    seed: int = 0,
) -> SuiteProblem:
    """One of the problems, split over clients, in the box x0 +- 10 max(1, |x0|_inf).

    Args:
        number: 1 to 53, the position in `PROBLEMS`.
        instance: 0 is the published start; others move each of its coordinates at random by up to 0.1 max(1, |x0|_inf);
            1 to 3 are for tuning, the others for reporting.
        variant: "smooth": the sum of squares; "noisy": with an error of 0.1 % of F(x) in every query; "absolute": the
            sum of absolute values, which is not smooth.
        clients: N.
        heterogeneity: C, the size of the clients' differences as a share of F(x0) - F*.
        seed: the seed of the differences and of the noise.

    Example:
        >>> from fzoos_experiments.suites.least_squares import least_squares
        >>> problem = least_squares(7, instance=0)
        >>> problem.minimum, round(sum(f(problem.x0) for f in problem.objectives) / 4, 9)    # Rosenbrock's function
        (0.0, 24.2)
    """
    if variant not in get_args(Variant):
        raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {variant!r}")
    check_count("instance", instance)
    if not 1 <= number <= len(PROBLEMS):
        raise ValueError(f"number must be one of 1 to {len(PROBLEMS)}, got {number!r}")
    chosen = PROBLEMS[number - 1]
    size = max(1.0, float(np.abs(chosen.start).max()))
    bounds = np.stack([chosen.start - 10.0 * size, chosen.start + 10.0 * size], axis=1)
    moves = np.random.default_rng((number, instance)).uniform(-0.1, 0.1, chosen.dim)
    return split(
        chosen.absolutes if variant == "absolute" else chosen.squares,
        chosen.start + size * moves * (instance > 0),
        bounds,
        chosen.smallest[variant == "absolute"],
        clients=clients,
        heterogeneity=heterogeneity,
        seed=(number, instance, seed, clients),
        noise=_NOISE if variant == "noisy" else 0.0,
        relative=True,
    )
