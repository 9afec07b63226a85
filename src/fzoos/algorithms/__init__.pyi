"""What can be imported from here; `load_on_use` reads it, too."""

from fzoos.algorithms.auto import Auto as Auto
from fzoos.algorithms.base import Algorithm as Algorithm
from fzoos.algorithms.decomfl import DeComFL as DeComFL
from fzoos.algorithms.fedbpt import FedBPT as FedBPT
from fzoos.algorithms.fedcma import FedCMA as FedCMA
from fzoos.algorithms.fedhistory import FedHistory as FedHistory
from fzoos.algorithms.fedlbfgs import FedLBFGS as FedLBFGS
from fzoos.algorithms.fedprox import FedProx as FedProx
from fzoos.algorithms.fedzo import FedZO as FedZO
from fzoos.algorithms.fzoos import FZooS as FZooS
from fzoos.algorithms.hiso import HiSo as HiSo
from fzoos.algorithms.line_search import FedLineSearch as FedLineSearch
from fzoos.algorithms.registry import ALGORITHMS as ALGORITHMS
from fzoos.algorithms.registry import find_algorithm as find_algorithm
from fzoos.algorithms.scaffold import ScaffoldI as ScaffoldI
from fzoos.algorithms.scaffold import ScaffoldII as ScaffoldII
from fzoos.algorithms.trust_region import FedTrustRegion as FedTrustRegion
