"""Federated black-box optimisation with trajectory-informed surrogate gradients."""

from fzoos._util.old_names import OLD_ATTRIBUTES, OLD_MODULES, OLD_NAMES
from fzoos._util.renamed import keep_old_names
from fzoos.algorithms import (
    DeComFL,
    FedBPT,
    FedCMA,
    FedHistory,
    FedLBFGS,
    FedProx,
    FedZO,
    FixedFZooS,
    FZooS,
    HiSo,
    ScaffoldI,
    ScaffoldII,
)
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.algorithms.fixed_fzoos.correction_lengths import Constant, DistanceAware, Measured, Reciprocal, Theoretical
from fzoos.algorithms.fixed_fzoos.query_designs import ActiveQueries, InitialDesign, UnseenDirections
from fzoos.algorithms.fixed_fzoos.step_scale import TrustRegion
from fzoos.algorithms.optimizers import SGD, Adam
from fzoos.engines.ask_tell import Optimizer
from fzoos.federation.study import Study
from fzoos.minimize import minimize
from fzoos.objectives.manual import ManualObjective
from fzoos.objectives.parallel import Parallel
from fzoos.objectives.program import Program, ProgramError
from fzoos.objectives.space import Space
from fzoos.objectives.variables import Choice, Integer, Log, Real
from fzoos.result import ObjectiveError, Record, Result
from fzoos.runs.store import StoreError, load
from fzoos.surrogates.kernels import Matern52, SquaredExponential
from fzoos.surrogates.length_scale import FitLengthScale
from fzoos.surrogates.noise import FittedNoise, KnownNoise

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "ActiveQueries",
    "Adam",
    "Choice",
    "Constant",
    "DeComFL",
    "DistanceAware",
    "FZooS",
    "FedBPT",
    "FedCMA",
    "FedHistory",
    "FedLBFGS",
    "FedProx",
    "FedZO",
    "FiniteDifferences",
    "FitLengthScale",
    "FittedNoise",
    "FixedFZooS",
    "HiSo",
    "InitialDesign",
    "Integer",
    "KnownNoise",
    "Log",
    "ManualObjective",
    "Matern52",
    "Measured",
    "ObjectiveError",
    "Optimizer",
    "Parallel",
    "Program",
    "ProgramError",
    "Real",
    "Reciprocal",
    "Record",
    "Result",
    "ScaffoldI",
    "ScaffoldII",
    "Space",
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

keep_old_names(OLD_MODULES, OLD_NAMES, OLD_ATTRIBUTES)
