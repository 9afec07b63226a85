"""Federated black-box optimisation with trajectory-informed surrogate gradients."""

from typing import TYPE_CHECKING

from fzoos._util.lazy_package import load_on_use

if TYPE_CHECKING:
    from fzoos.algorithms import (
        Auto,
        DeComFL,
        FedBPT,
        FedCMA,
        FedHistory,
        FedLBFGS,
        FedLineSearch,
        FedProx,
        FedTrustRegion,
        FedZO,
        FZooS,
        HiSo,
        ScaffoldI,
        ScaffoldII,
    )
    from fzoos.algorithms.correction_lengths import Constant, DistanceAware, Measured, Reciprocal, Theoretical
    from fzoos.algorithms.finite_differences import FiniteDifferences
    from fzoos.algorithms.optimizers import SGD, Adam
    from fzoos.algorithms.query_designs import ActiveQueries
    from fzoos.engines.ask_tell import AskTell
    from fzoos.federation.limits import Stop
    from fzoos.federation.study import Study
    from fzoos.minimize import minimize
    from fzoos.objectives.manual import ManualObjective
    from fzoos.objectives.parallel import Parallel
    from fzoos.objectives.prior import WithPrior
    from fzoos.objectives.program import Program, ProgramError
    from fzoos.objectives.space import Space
    from fzoos.objectives.variables import Choice, Integer, Log, Real
    from fzoos.result import ObjectiveError, Record, Result
    from fzoos.runs.store import StoreError, load
    from fzoos.surrogates.kernels import Matern52, SquaredExponential

__version__ = "0.2.0.dev0"

__all__ = [
    "SGD",
    "ActiveQueries",
    "Adam",
    "AskTell",
    "Auto",
    "Choice",
    "Constant",
    "DeComFL",
    "DistanceAware",
    "FZooS",
    "FedBPT",
    "FedCMA",
    "FedHistory",
    "FedLBFGS",
    "FedLineSearch",
    "FedProx",
    "FedTrustRegion",
    "FedZO",
    "FiniteDifferences",
    "HiSo",
    "Integer",
    "Log",
    "ManualObjective",
    "Matern52",
    "Measured",
    "ObjectiveError",
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
    "Stop",
    "StoreError",
    "Study",
    "Theoretical",
    "WithPrior",
    "__version__",
    "load",
    "minimize",
]

load_on_use(
    __name__,
    {
        "fzoos.algorithms": "Auto DeComFL FZooS FedBPT FedCMA FedHistory FedLBFGS FedLineSearch FedProx "
        "FedTrustRegion FedZO HiSo ScaffoldI ScaffoldII",
        "fzoos.algorithms.correction_lengths": "Constant DistanceAware Measured Reciprocal Theoretical",
        "fzoos.algorithms.finite_differences": "FiniteDifferences",
        "fzoos.algorithms.optimizers": "SGD Adam",
        "fzoos.algorithms.query_designs": "ActiveQueries",
        "fzoos.engines.ask_tell": "AskTell",
        "fzoos.federation.limits": "Stop",
        "fzoos.federation.study": "Study",
        "fzoos.minimize": "minimize",
        "fzoos.objectives.manual": "ManualObjective",
        "fzoos.objectives.parallel": "Parallel",
        "fzoos.objectives.prior": "WithPrior",
        "fzoos.objectives.program": "Program ProgramError",
        "fzoos.objectives.space": "Space",
        "fzoos.objectives.variables": "Choice Integer Log Real",
        "fzoos.result": "ObjectiveError Record Result",
        "fzoos.runs.store": "StoreError load",
        "fzoos.surrogates.kernels": "Matern52 SquaredExponential",
    },
)
