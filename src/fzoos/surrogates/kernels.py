r"""Isotropic kernels k(x, x') = kappa(s), s = ||x - x'||^2.

========  =======  ==============================================================
symbol    shape    meaning
========  =======  ==============================================================
s         any      squared distance between two points of the unit cube
l         scalar   length scale, in units of the unit cube
kappa     as s     the kernel as a function of s, kappa(0) = 1
kappa'    as s     its derivative with respect to s
V         (M, d)   spectral frequencies: k(x, x') = E_v cos(v . (x - x'))
========  =======  ==============================================================

All that a surrogate needs of a kernel follows from these four: the gradient is
grad_x k(x, x') = 2 kappa'(s) (x - x'), and the prior covariance of the gradient is -2 kappa'(0) I.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import Array, FloatArray, namespace
from fzoos._util.checks import check_positive

__all__ = ["Kernel", "Matern52", "SquaredExponential"]


@dataclass(frozen=True)
class Kernel(ABC):
    """An isotropic kernel.

    Args:
        length_scale: l, in units of the unit cube (the search box scaled to [0, 1] in every coordinate).
    """

    length_scale: float = 1.0  # l

    def __post_init__(self) -> None:
        check_positive("length_scale", self.length_scale)

    @abstractmethod
    def kappa(self, s: Array) -> Array:
        """Return kappa(s), the covariance of f at two points whose squared distance is s."""

    @abstractmethod
    def dkappa(self, s: Array) -> Array:
        """Return kappa'(s), the derivative of `kappa` with respect to s."""

    @property
    @abstractmethod
    def dkappa0(self) -> float:
        """kappa'(0); the prior variance of each gradient coordinate is -2 kappa'(0)."""

    @abstractmethod
    def frequencies(self, count: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Draw `count` vectors of the kernel's spectral density in `dim` dimensions."""


@dataclass(frozen=True)
class SquaredExponential(Kernel):
    r"""kappa(s) = exp(-s / (2 l^2)); its spectrum is N(0, I / l^2).

    Example:
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> SquaredExponential(2.0).dkappa0
        -0.125
    """

    def kappa(self, s: Array) -> Array:
        return namespace(s).exp(s * (-0.5 / self.length_scale**2))

    def dkappa(self, s: Array) -> Array:
        return self.kappa(s) * self.dkappa0

    @property
    def dkappa0(self) -> float:
        return -0.5 / self.length_scale**2

    def frequencies(self, count: int, dim: int, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal((count, dim)) / self.length_scale


@dataclass(frozen=True)
class Matern52(Kernel):
    r"""kappa = (1 + a + a^2/3) exp(-a) with a = sqrt(5 s) / l; its spectrum is a multivariate t.

    The t has 5 degrees of freedom and scale 1 / l. With da/ds = 5 / (2 l^2 a) and d kappa / da = -(a/3)(1 + a) exp(-a),
    the singular 1/a cancels: kappa'(s) = -(5 / (6 l^2)) (1 + a) exp(-a), which is finite at s = 0.

    Example:
        >>> from fzoos.surrogates.kernels import Matern52
        >>> round(Matern52(1.0).dkappa0, 4)
        -0.8333
    """

    def _scaled(self, s: Array) -> Array:
        return namespace(s).sqrt(s) * (math.sqrt(5.0) / self.length_scale)

    def kappa(self, s: Array) -> Array:
        a = self._scaled(s)
        return (1.0 + a + a * a / 3.0) * namespace(s).exp(-a)

    def dkappa(self, s: Array) -> Array:
        a = self._scaled(s)
        return self.dkappa0 * (1.0 + a) * namespace(s).exp(-a)

    @property
    def dkappa0(self) -> float:
        return -5.0 / (6.0 * self.length_scale**2)

    def frequencies(self, count: int, dim: int, rng: np.random.Generator) -> FloatArray:
        normal = rng.standard_normal((count, dim))
        chi2 = rng.chisquare(5.0, size=(count, 1))
        return normal * np.sqrt(5.0 / chi2) / self.length_scale
