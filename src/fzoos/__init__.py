"""Federated black-box optimisation with trajectory-informed surrogate gradients."""

from fzoos.algorithms import FedProx, FedZO, FZooS, ScaffoldI, ScaffoldII
from fzoos.errors import ObjectiveError
from fzoos.estimators import FiniteDifferences
from fzoos.federation.study import Study
from fzoos.kernels import Matern52, SquaredExponential
from fzoos.lengths import Constant, DistanceAware, Measured, Reciprocal, Theoretical
from fzoos.minimize import minimize
from fzoos.optimizers import SGD, Adam
from fzoos.people import People
from fzoos.program import Program, ProgramError
from fzoos.queries import ActiveQueries, InitialDesign, UnseenDirections
from fzoos.result import Record, Result
from fzoos.store import StoreError, load
from fzoos.surrogates.fit import FitLengthScale

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "ActiveQueries",
    "Adam",
    "Constant",
    "DistanceAware",
    "FZooS",
    "FedProx",
    "FedZO",
    "FiniteDifferences",
    "FitLengthScale",
    "InitialDesign",
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
    "UnseenDirections",
    "__version__",
    "load",
    "minimize",
]
