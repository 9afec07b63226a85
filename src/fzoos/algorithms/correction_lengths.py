r"""Correction lengths gamma_t: the weight of the correction (global - local) at a local step.

========  ==========================================================================================
symbol    meaning
========  ==========================================================================================
t, r, T   local step (from 1), round (from 1), local steps per round
N, d, n   clients, dimension, points of the trajectory in use
G         heterogeneity: mean_i ||grad f_i - grad F||^2 is at most G
kappa     prior variance of a gradient coordinate, -2 kappa'(0)
omega     d + 2 (sqrt(d) + 1) log(1/delta): the surrogate's error is at most omega times its uncertainty
rho       factor in (0, 1] by which one query shrinks the uncertainty
epsilon   squared error of the random features' gradient
iota      mean squared distance from x to the trajectory
E         squared error of the gradient by client i's weights, measured
========  ==========================================================================================

In Cor. 1 and Cor. 2, G and epsilon are squared gradients of standardised observations in the unit cube, like kappa.
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
    """The arguments of a correction length: the state of a client at a local step."""

    step: int  # t
    round: int  # r
    local_steps: int  # T
    clients: int  # N
    dim: int  # d
    kernel: Kernel
    noise: float  # sigma^2
    points: int  # n
    mean_squared_distance: Callable[[], float]  # iota; a function, as most lengths do not need it
    transfer_error: Callable[[], float]  # E of `Measured`, in the objective's units
    heterogeneity: float | None = None  # G as the surrogates measure it, in the same units


class CorrectionLength(ABC):
    """A map from a moment of the run to gamma_t in [0, 1]."""

    @abstractmethod
    def __call__(self, moment: Moment) -> float:
        """Return the correction length gamma_t of this local step."""


@dataclass(frozen=True)
class Constant(CorrectionLength):
    """gamma_t = gamma at every step.

    Example:
        >>> from fzoos import FZooS
        >>> from fzoos.algorithms.correction_lengths import Constant
        >>> FZooS(length=Constant(0.5)).length.gamma
        0.5
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, 0.0, 1.0)

    def __call__(self, moment: Moment) -> float:
        return self.gamma


@dataclass(frozen=True)
class Reciprocal(CorrectionLength):
    """gamma_t = 1/t: the whole correction at the first local step, less as x leaves the queried region."""

    def __call__(self, moment: Moment) -> float:
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
        >>> from fzoos.algorithms.correction_lengths import Theoretical
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
        kappa = -2.0 * moment.kernel.dkappa0
        error = _omega(moment.dim, self.delta) * kappa * self.decay ** ((moment.round - 1) * moment.local_steps)
        return self.heterogeneity / (self.heterogeneity + 2.0 * error + 2.0 * moment.clients * self.feature_error)


@dataclass(frozen=True)
class DistanceAware(CorrectionLength):
    """gamma_t = G / (G + 2 (omega kappa - 4 omega h(iota) / (d + sigma^2 d / n) + N epsilon)) (Cor. 2).

    h(iota) = iota kappa'(iota)^2. The paper squares iota in Prop. 2; its proof and its Cor. 2 do not, nor do we.
    iota is the client's own mean squared distance, since it does not know the others' points.

    Example:
        >>> from fzoos.algorithms.correction_lengths import DistanceAware
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
        omega, kappa = _omega(moment.dim, self.delta), -2.0 * moment.kernel.dkappa0
        iota = moment.mean_squared_distance()
        h = iota * float(moment.kernel.dkappa(np.asarray(iota))) ** 2
        explained = 4.0 * omega * h / (moment.dim * (1.0 + moment.noise / max(moment.points, 1)))
        error = max(omega * kappa - explained, 0.0) + moment.clients * self.feature_error
        return self.heterogeneity / (self.heterogeneity + 2.0 * error)


@dataclass(frozen=True)
class Measured(CorrectionLength):
    """gamma_t = G / (G + E), the optimum of Prop. 1 with both quantities measured; ours, not the paper's.

    By eq. 8 g_hat = (1 - gamma) grad mu_i + gamma (grad mu_hat + grad mu_i - grad mu_hat_i). With grad mu_i for
    grad f_i and mu_hat for F, its mean squared distance to grad F is (1 - gamma)^2 G + gamma^2 E, which G / (G + E)
    minimises: Cor. 1 has the same form, with a bound instead of E and an unknown constant G.

        G = mean_i ||grad mu_hat_i(x_r)||^2 - ||grad mu_hat(x_r)||^2     sent, one number per client and round
        E = ||grad mu_i(x) - grad mu_hat_i(x)||^2                        known to client i at every local step

    E is what client i's surrogate has learned at x since its weights were sent, plus the features' error. It is small
    at the first local step and grows as x leaves the points that all clients have queried. If clients are alike, G is
    mostly error and the correction is small; if they differ, gamma_t is almost 1.

    Example:
        >>> from fzoos import FZooS, Measured
        >>> FZooS(length=Measured()).length
        Measured()
    """

    def __call__(self, moment: Moment) -> float:
        """Return G / (G + E); 1 if nothing was measured, or if both are zero."""
        if moment.heterogeneity is None:
            return 1.0
        total = moment.heterogeneity + moment.transfer_error()
        return moment.heterogeneity / total if total > 0.0 else 1.0


def _omega(dim: int, delta: float) -> float:
    return dim + 2.0 * (math.sqrt(dim) + 1.0) * math.log(1.0 / delta)


def _check_probability(delta: float) -> None:
    check_number("delta", delta, 0.0, 1.0)
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
