"""Federated black-box optimisation with trajectory-informed surrogate gradients."""

from fzoos.algorithms import DeComFL, FedCMA, FedHistory, FedProx, FedZO, FZooS, HiSo, ScaffoldI, ScaffoldII
from fzoos.errors import ObjectiveError
from fzoos.estimators import FiniteDifferences
from fzoos.federation.study import Study
from fzoos.kernels import Matern52, SquaredExponential
from fzoos.lengths import Constant, DistanceAware, Measured, Reciprocal, Theoretical
from fzoos.minimize import minimize
from fzoos.noise import FittedNoise, KnownNoise
from fzoos.optimizers import SGD, Adam
from fzoos.people import People
from fzoos.program import Program, ProgramError
from fzoos.queries import ActiveQueries, InitialDesign, UnseenDirections
from fzoos.result import Record, Result
from fzoos.steps import TrustRegion
from fzoos.store import StoreError, load
from fzoos.surrogates.fit import FitLengthScale

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "ActiveQueries",
    "Adam",
    "Constant",
    "DeComFL",
    "DistanceAware",
    "FZooS",
    "FedCMA",
    "FedHistory",
    "FedProx",
    "FedZO",
    "FiniteDifferences",
    "FitLengthScale",
    "FittedNoise",
    "HiSo",
    "InitialDesign",
    "KnownNoise",
    "Matern52",
    "Measured",
    "ObjectiveError",
    "People",
    "Program",
    "ProgramError",
    "Reciprocal",
    "Record",
    "Result",
    "ScaffoldI",
    "ScaffoldII",
    "SquaredExponential",
    "StoreError",
    "Study",
    "Theoretical",
    "TrustRegion",
    "UnseenDirections",
    "__version__",
    "load",
    "minimize",
]
