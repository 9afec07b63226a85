r"""Correction lengths gamma_t: how far to trust the correction (global - local) at a local step.

========  ==========================================================================================
symbol    meaning
========  ==========================================================================================
t, r, T   local step (from 1), round (from 1), local steps a round
N, d, n   clients, dimension, points of the trajectory in use
G         heterogeneity: mean_i ||grad f_i - grad F||^2 is at most G
kappa     prior variance of a gradient coordinate, -2 kappa'(0)
omega     d + 2 (sqrt(d) + 1) log(1/delta): the surrogate's error is at most omega times its uncertainty
rho       factor in (0, 1] by which one query shrinks the uncertainty
epsilon   squared error of the random features' gradient
iota      mean squared distance from x to the trajectory
========  ==========================================================================================

G and epsilon are squared gradients of the standardised observations in the unit cube, the units of kappa.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fzoos._util.checks import check_number, check_positive
from fzoos.surrogates.kernels import Kernel

__all__ = ["Constant", "CorrectionLength", "DistanceAware", "Measured", "Moment", "Reciprocal", "Theoretical"]


@dataclass(frozen=True)
class Moment:
    """Where a client stands when it asks for gamma_t."""

    step: int  # t
    round: int  # r
    local_steps: int  # T
    clients: int  # N
    dim: int  # d
    kernel: Kernel
    noise: float  # sigma^2
    points: int  # n
    mean_squared_distance: Callable[[], float]  # iota; a function, as most lengths do not need it
    heterogeneity: float | None = None  # G as the surrogates measure it, in the objective's units
    uncertainty: float | None = None  # mean posterior trace of the clients' gradients at x_r, in the same units


class CorrectionLength(ABC):
    """Maps a moment of the run to gamma_t in [0, 1]."""

    @abstractmethod
    def __call__(self, moment: Moment) -> float:
        """gamma_t."""


@dataclass(frozen=True)
class Constant(CorrectionLength):
    """gamma_t = gamma at every step.

    Example:
        >>> from fzoos import FixedFZooS
        >>> from fzoos.algorithms.fixed_fzoos.correction_lengths import Constant
        >>> FixedFZooS(length=Constant(0.5)).length.gamma
        0.5
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, 0.0, 1.0)

    def __call__(self, moment: Moment) -> float:
        """gamma."""
        return self.gamma


@dataclass(frozen=True)
class Reciprocal(CorrectionLength):
    """gamma_t = 1/t: the whole correction at the first local step, less as x leaves the queried region."""

    def __call__(self, moment: Moment) -> float:
        """1/t."""
        return 1.0 / moment.step


@dataclass(frozen=True)
class Theoretical(CorrectionLength):
    """gamma = G / (G + 2 omega kappa rho^{(r-1) T} + 2 N epsilon) (Cor. 1).

    Args:
        heterogeneity: G, how far the clients' squared gradients are from their mean's.
        decay: rho, the factor by which one query shrinks the uncertainty.
        feature_error: epsilon, the squared error of the random features' gradient.
        delta: failure probability of the error bound, in omega.

    Example:
        >>> from fzoos.algorithms.fixed_fzoos.correction_lengths import Theoretical
        >>> length = Theoretical(heterogeneity=1.0, decay=0.99)
    """

    heterogeneity: float  # G
    decay: float = 0.99  # rho
    feature_error: float = 0.0  # epsilon
    delta: float = 0.1

    def __post_init__(self) -> None:
        check_positive("heterogeneity (G)", self.heterogeneity)
        check_number("decay (rho)", self.decay, 0.0, 1.0)
        check_number("feature_error (epsilon)", self.feature_error, 0.0)
        _check_probability(self.delta)

    def __call__(self, moment: Moment) -> float:
        """Cor. 1."""
        kappa = -2.0 * moment.kernel.dkappa0
        error = _omega(moment.dim, self.delta) * kappa * self.decay ** ((moment.round - 1) * moment.local_steps)
        return self.heterogeneity / (self.heterogeneity + 2.0 * error + 2.0 * moment.clients * self.feature_error)


@dataclass(frozen=True)
class DistanceAware(CorrectionLength):
    """gamma_t = G / (G + 2 (omega kappa - 4 omega h(iota) / (d + sigma^2 d / n) + N epsilon)) (Cor. 2).

    h(iota) = iota kappa'(iota)^2. The paper squares iota in Prop. 2; its proof and its Cor. 2 do not, nor do we.
    iota is the client's own mean squared distance, since it does not know the others' points.

    Example:
        >>> from fzoos.algorithms.fixed_fzoos.correction_lengths import DistanceAware
        >>> length = DistanceAware(heterogeneity=1.0)
    """

    heterogeneity: float  # G
    feature_error: float = 0.0  # epsilon
    delta: float = 0.1

    def __post_init__(self) -> None:
        check_positive("heterogeneity (G)", self.heterogeneity)
        check_number("feature_error (epsilon)", self.feature_error, 0.0)
        _check_probability(self.delta)

    def __call__(self, moment: Moment) -> float:
        """Cor. 2."""
        omega, kappa = _omega(moment.dim, self.delta), -2.0 * moment.kernel.dkappa0
        iota = moment.mean_squared_distance()
        h = iota * float(moment.kernel.dkappa(np.asarray(iota))) ** 2
        explained = 4.0 * omega * h / (moment.dim * (1.0 + moment.noise / max(moment.points, 1)))
        error = max(omega * kappa - explained, 0.0) + moment.clients * self.feature_error
        return self.heterogeneity / (self.heterogeneity + 2.0 * error)


@dataclass(frozen=True)
class Measured(CorrectionLength):
    """gamma = G / (G + c U), with G and U measured by the clients' surrogates at x_r.

    G = mean_i ||grad mu_i||^2 - ||mean_i grad mu_i||^2, how far the clients' gradients are from their mean; U, the mean
    posterior trace: how far they may be from the truth. One number of each per client and round travels. Where clients
    are alike, G is mostly error and the correction is left; where they differ, it is taken whole.

    Args:
        weight: c; 1 would be Cor. 1 for a surrogate whose error is as large as its variance says.

    Example:
        >>> from fzoos import FixedFZooS
        >>> from fzoos.algorithms.fixed_fzoos.correction_lengths import Measured
        >>> FixedFZooS(length=Measured(0.5)).length.weight
        0.5
    """

    weight: float = 0.3  # c

    def __post_init__(self) -> None:
        check_positive("weight (c)", self.weight)

    def __call__(self, moment: Moment) -> float:
        """G / (G + c U); 1 where nothing was measured."""
        g, u = moment.heterogeneity, moment.uncertainty
        if g is None or u is None:
            return 1.0
        total = g + self.weight * u
        return g / total if total > 0.0 else 1.0


def _omega(dim: int, delta: float) -> float:
    return dim + 2.0 * (math.sqrt(dim) + 1.0) * math.log(1.0 / delta)


def _check_probability(delta: float) -> None:
    check_number("delta", delta, 0.0, 1.0)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
