"""What runs are made with: the algorithms, FZooS with what is known of the noise, and kinds of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fzoos import (
    Adam,
    DeComFL,
    FedCMA,
    FedHistory,
    FedZO,
    FixedFZooS,
    FZooS,
    HiSo,
    ScaffoldII,
)
from fzoos.algorithms import Algorithm
from fzoos.messages.precision import Precision
from fzoos.surrogates.noise import FittedNoise


def ours(**changes: Any) -> FixedFZooS:
    """FZooS with settings, which all tables of these parts are about; sigma^2 is the paper's 1e-6."""
    return FixedFZooS(**{"noise": 1e-6} | changes)


@dataclass(frozen=True)
class Setting:
    """How a run is made.

    Args:
        algorithm: with its settings.
        optimizer: of the local steps.
        precision: of the messages.
        knows_noise: whether the algorithm is told the standard deviation of the task's noise.
    """

    algorithm: Algorithm
    optimizer: Adam = field(default_factory=lambda: Adam(0.01))
    precision: Precision = "float64"
    knows_noise: bool = False


OURS = "FZooS"
FORMER = "FZooS.weights"

ALGORITHMS = {
    "FedZO": Setting(FedZO()),
    "ScaffoldII": Setting(ScaffoldII()),
    "FedHistory": Setting(FedHistory(alpha=0.5)),  # the runs were made with what the default was then
    "DeComFL": Setting(DeComFL()),
    "HiSo": Setting(HiSo(smoothing=0.01)),  # the same
    "FedCMA": Setting(FedCMA()),
    "FZooS, paper's settings": Setting(FZooS.paper(points=150, feature_points=500)),
    FORMER: Setting(FZooS.weights()),
    OURS: Setting(ours()),
}

NOISE = {
    "FZooS, noise known": Setting(ours(), knows_noise=True),
    "FZooS, noise fitted": Setting(ours(noise=FittedNoise())),
}

PAYLOADS = {
    "gradient, float64": Setting(ours(sends="gradient")),
    "gradient, float32": Setting(ours(sends="gradient"), precision="float32"),
    "gradient, float16": Setting(ours(sends="gradient"), precision="float16"),
    "gradient, stochastic": Setting(ours(sends="gradient"), precision="stochastic"),
    **{
        f"weights, M = {features}{', orthogonal' if orthogonal else ''}": Setting(
            ours(sends="weights", features=features, orthogonal=orthogonal)
        )
        for orthogonal in (False, True)
        for features in (300, 1000, 10_000)
    },
}

SETTINGS = ALGORITHMS | NOISE | PAYLOADS
"""By the label in the tables."""
