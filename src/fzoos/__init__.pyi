"""What can be imported from here; `load_on_use` reads it, too."""

from fzoos.algorithms import Auto as Auto
from fzoos.algorithms import DeComFL as DeComFL
from fzoos.algorithms import FedBPT as FedBPT
from fzoos.algorithms import FedCMA as FedCMA
from fzoos.algorithms import FedHistory as FedHistory
from fzoos.algorithms import FedLBFGS as FedLBFGS
from fzoos.algorithms import FedLineSearch as FedLineSearch
from fzoos.algorithms import FedProx as FedProx
from fzoos.algorithms import FedTrustRegion as FedTrustRegion
from fzoos.algorithms import FedZO as FedZO
from fzoos.algorithms import FZooS as FZooS
from fzoos.algorithms import HiSo as HiSo
from fzoos.algorithms import ScaffoldI as ScaffoldI
from fzoos.algorithms import ScaffoldII as ScaffoldII
from fzoos.algorithms.correction_lengths import Constant as Constant
from fzoos.algorithms.correction_lengths import DistanceAware as DistanceAware
from fzoos.algorithms.correction_lengths import Measured as Measured
from fzoos.algorithms.correction_lengths import Reciprocal as Reciprocal
from fzoos.algorithms.correction_lengths import Theoretical as Theoretical
from fzoos.algorithms.finite_differences import FiniteDifferences as FiniteDifferences
from fzoos.algorithms.optimizers import SGD as SGD
from fzoos.algorithms.optimizers import Adam as Adam
from fzoos.algorithms.query_designs import ActiveQueries as ActiveQueries
from fzoos.engines.ask_tell import AskTell as AskTell
from fzoos.federation.limits import Stop as Stop
from fzoos.federation.study import Study as Study
from fzoos.minimize import minimize as minimize
from fzoos.objectives.manual import ManualObjective as ManualObjective
from fzoos.objectives.parallel import Parallel as Parallel
from fzoos.objectives.prior import WithPrior as WithPrior
from fzoos.objectives.program import Program as Program
from fzoos.objectives.program import ProgramError as ProgramError
from fzoos.objectives.space import Space as Space
from fzoos.objectives.variables import Choice as Choice
from fzoos.objectives.variables import Integer as Integer
from fzoos.objectives.variables import Log as Log
from fzoos.objectives.variables import Real as Real
from fzoos.result import ObjectiveError as ObjectiveError
from fzoos.result import Record as Record
from fzoos.result import Result as Result
from fzoos.runs.reader import load as load
from fzoos.runs.store import StoreError as StoreError
from fzoos.surrogates.kernels import Matern52 as Matern52
from fzoos.surrogates.kernels import SquaredExponential as SquaredExponential

__version__: str
