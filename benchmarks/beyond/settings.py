"""What runs are made with: the algorithms, our algorithm with one change taken back, and kinds of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fzoos import (
    ActiveQueries,
    Adam,
    Constant,
    DeComFL,
    FedCMA,
    FedHistory,
    FedZO,
    FixedFZooS,
    FZooS,
    HiSo,
    InitialDesign,
    Reciprocal,
    ScaffoldII,
    UnseenDirections,
)
from fzoos.algorithms import Algorithm
from fzoos.messages.precision import Precision
from fzoos.surrogates.noise import FittedNoise


def ours(**changes: Any) -> FZooS:
    """The algorithm that all tables are about, with single settings changed.

    sigma^2 is the paper's 1e-6, so that nothing but the algorithms differs; the default has a row of its own.
    """
    return FixedFZooS(**{"noise": 1e-6} | changes)


@dataclass(frozen=True)
class Setting:
    """How a run is made.

    Args:
        algorithm: None: the loop is fed the true gradient of F, which nothing that asks for values can have.
        optimizer: of the local steps.
        precision: of the messages.
        knows_noise: whether the algorithm is told the standard deviation of the task's noise.
    """

    algorithm: Algorithm | None
    optimizer: Adam = field(default_factory=lambda: Adam(0.01))
    precision: Precision = "float64"
    knows_noise: bool = False


OURS = "FZooS"
FORMER = "FZooS.weights"
DEFAULT = "FZooS, sigma^2 = 1e-8 (default)"

EXACT = {
    "exact gradient": Setting(None),
    "exact gradient, steps doubled": Setting(None, Adam(0.02)),  # as long as the trust region lets them become
}
"""What can be had at best with these steps."""

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

WITH_DEFAULT = {DEFAULT: Setting(FZooS())}

NOISE = {
    "FZooS, noise known": Setting(ours(), knows_noise=True),
    "FZooS, noise fitted": Setting(ours(noise=FittedNoise())),
}

ABLATION = {
    "correction length 1": Setting(ours(length=Constant(1.0))),
    "correction length 1/t": Setting(ours(length=Reciprocal())),
    "no trust region": Setting(ours(steps=None)),
    "sends weights (M = 10 000)": Setting(ours(sends="weights", features=10_000)),
    "no correction in the first round": Setting(ours(refresh_first_round=False)),
    "refresh: most uncertain of 240": Setting(ours(refresh=ActiveQueries(240, 80, None))),
    "uniform initial design": Setting(ours(initial=InitialDesign(161, 0.01))),
    "2 queries a step, 71 a refresh": Setting(
        ours(active=ActiveQueries(100, 2, 0.01), refresh=UnseenDirections(71)),
    ),
    "Adam not restarted": Setting(ours(), Adam(0.01, restart=False)),
    "sigma^2 = 1e-8 (default)": Setting(ours(noise=1e-8)),
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

SETTINGS = EXACT | ALGORITHMS | WITH_DEFAULT | NOISE | ABLATION | PAYLOADS
"""By the label in the tables."""
