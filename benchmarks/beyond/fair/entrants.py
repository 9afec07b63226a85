"""Who takes part, and what is tried for each rival: the same number of settings for everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fzoos import (
    SGD,
    Adam,
    DeComFL,
    FedCMA,
    FedHistory,
    FedLBFGS,
    FedProx,
    FedZO,
    FiniteDifferences,
    HiSo,
    ScaffoldI,
    ScaffoldII,
)
from fzoos.algorithms import Algorithm
from fzoos.algorithms.fedzo import FiniteDifferenceAlgorithm

OURS, OURS_FEW = "FedLineSearch", "FedTrustRegion"  # what `Auto` runs on the problems of 300 and of few dimensions
TRIES = 50  # of each rival on each problem

OPTIMIZERS: Sequence[Adam | SGD] = (
    *(Adam(rate) for rate in (0.01, 0.03, 0.1)),
    *(SGD(rate) for rate in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)),
)
DIFFERENCES = (0.001, 0.01, 0.03, 0.1, 0.3)  # lambda of Gaussian directions, which are sqrt(d) long

# Orthonormal directions have length 1 and make gradients d times too short, which SGD has to make good for; with a
# proximal term of gamma = 1 it diverges from 2 on.
ORTHONORMAL_OPTIMIZERS: Sequence[Adam | SGD] = (
    *(Adam(rate) for rate in (0.01, 0.03, 0.1)),
    *(SGD(rate) for rate in (0.01, 0.03, 0.1, 0.3, 1.0, 1.5, 1.9)),
)
ORTHONORMAL_DIFFERENCES = (0.01, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Try:
    """A rival with settings.

    Args:
        words: how the settings are stored and printed.
        algorithm: with its settings.
    """

    words: str
    algorithm: Algorithm


def _descending(
    kind: type[FiniteDifferenceAlgorithm],
    optimizers: Sequence[Adam | SGD] = OPTIMIZERS,
    differences: Sequence[float] = DIFFERENCES,
    directions: str = "gaussian",
    **settings: float,
) -> list[Try]:
    """Optimiser, step and finite difference."""
    return [
        Try(
            f"{type(optimizer).__name__}({optimizer.learning_rate:g}), difference {step:g}",
            kind(optimizer=optimizer, differences=FiniteDifferences(20, step, directions), **settings),  # type: ignore[arg-type]
        )
        for optimizer in optimizers
        for step in differences
    ]


def _cma() -> list[Try]:
    """First deviation and population."""
    return [
        Try(f"deviation {deviation:g}, population {population}", FedCMA(population=population, deviation=deviation))
        for deviation in (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
        for population in (6, 11, 21, 32, 42)
    ]


def _lbfgs() -> list[Try]:
    """Finite difference and longest step."""
    return [
        Try(f"difference {difference:g}, reach {reach:g}", FedLBFGS(difference=difference, reach=reach))
        for difference in (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.4)
        for reach in (0.02, 0.05, 0.15, 0.4, 1.0)
    ]


RIVALS: dict[str, list[Try]] = {
    "FedZO": _descending(FedZO),
    "FedProx, gamma = 1, orthonormal": _descending(
        FedProx, ORTHONORMAL_OPTIMIZERS, ORTHONORMAL_DIFFERENCES, "orthonormal", gamma=1.0
    ),
    "FedProx, gamma = 0.1": _descending(FedProx),
    "ScaffoldI": _descending(ScaffoldI),
    "ScaffoldII": _descending(ScaffoldII),
    "DeComFL": _descending(DeComFL),
    "HiSo": _descending(HiSo),
    "FedHistory": _descending(FedHistory),
    "FedCMA": _cma(),
    "FedLBFGS": _lbfgs(),
}
"""By the label in the tables. The first FedProx is what the paper's authors run, the second the library's default."""
