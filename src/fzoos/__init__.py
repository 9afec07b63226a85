"""Federated black-box optimisation with trajectory-informed surrogate gradients."""

from typing import TYPE_CHECKING

from fzoos._util.lazy_package import load_on_use
from fzoos._util.old_names import OLD_MODULES, OLD_NAMES
from fzoos._util.renamed import keep_old_attributes, keep_old_modules

if TYPE_CHECKING:
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
    from fzoos.algorithms.fixed_fzoos.correction_lengths import (
        Constant,
        DistanceAware,
        Measured,
        Reciprocal,
        Theoretical,
    )
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

load_on_use(
    __name__,
    {
        "fzoos.algorithms": "DeComFL FedBPT FedCMA FedHistory FedLBFGS FedProx FedZO FixedFZooS FZooS HiSo "
        "ScaffoldI ScaffoldII",
        "fzoos.algorithms.finite_differences": "FiniteDifferences",
        "fzoos.algorithms.fixed_fzoos.correction_lengths": "Constant DistanceAware Measured Reciprocal Theoretical",
        "fzoos.algorithms.fixed_fzoos.query_designs": "ActiveQueries InitialDesign UnseenDirections",
        "fzoos.algorithms.fixed_fzoos.step_scale": "TrustRegion",
        "fzoos.algorithms.optimizers": "SGD Adam",
        "fzoos.engines.ask_tell": "Optimizer",
        "fzoos.federation.study": "Study",
        "fzoos.minimize": "minimize",
        "fzoos.objectives.manual": "ManualObjective",
        "fzoos.objectives.parallel": "Parallel",
        "fzoos.objectives.program": "Program ProgramError",
        "fzoos.objectives.space": "Space",
        "fzoos.objectives.variables": "Choice Integer Log Real",
        "fzoos.result": "ObjectiveError Record Result",
        "fzoos.runs.store": "StoreError load",
        "fzoos.surrogates.kernels": "Matern52 SquaredExponential",
        "fzoos.surrogates.length_scale": "FitLengthScale",
        "fzoos.surrogates.noise": "FittedNoise KnownNoise",
    },
)
keep_old_modules(OLD_MODULES, OLD_NAMES)
keep_old_attributes(__name__)
