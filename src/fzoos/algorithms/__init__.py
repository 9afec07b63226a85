"""The algorithms; a new one is one file here and one line in `registry.py`."""

from typing import TYPE_CHECKING

from fzoos._util.lazy_package import load_on_use

if TYPE_CHECKING:
    from fzoos.algorithms.auto import Auto
    from fzoos.algorithms.base import Algorithm
    from fzoos.algorithms.decomfl import DeComFL
    from fzoos.algorithms.fedbpt import FedBPT
    from fzoos.algorithms.fedcma import FedCMA
    from fzoos.algorithms.fedhistory import FedHistory
    from fzoos.algorithms.fedlbfgs import FedLBFGS
    from fzoos.algorithms.fedprox import FedProx
    from fzoos.algorithms.fedzo import FedZO
    from fzoos.algorithms.fzoos import FZooS
    from fzoos.algorithms.hiso import HiSo
    from fzoos.algorithms.line_search import FedLineSearch
    from fzoos.algorithms.registry import ALGORITHMS, find_algorithm
    from fzoos.algorithms.scaffold import ScaffoldI, ScaffoldII
    from fzoos.algorithms.trust_region import FedTrustRegion

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Auto",
    "DeComFL",
    "FZooS",
    "FedBPT",
    "FedCMA",
    "FedHistory",
    "FedLBFGS",
    "FedLineSearch",
    "FedProx",
    "FedTrustRegion",
    "FedZO",
    "HiSo",
    "ScaffoldI",
    "ScaffoldII",
    "find_algorithm",
]

load_on_use(
    __name__,
    {
        "fzoos.algorithms.auto": "Auto",
        "fzoos.algorithms.base": "Algorithm",
        "fzoos.algorithms.decomfl": "DeComFL",
        "fzoos.algorithms.fedbpt": "FedBPT",
        "fzoos.algorithms.fedcma": "FedCMA",
        "fzoos.algorithms.fedhistory": "FedHistory",
        "fzoos.algorithms.fedlbfgs": "FedLBFGS",
        "fzoos.algorithms.fedprox": "FedProx",
        "fzoos.algorithms.fedzo": "FedZO",
        "fzoos.algorithms.fzoos": "FZooS",
        "fzoos.algorithms.hiso": "HiSo",
        "fzoos.algorithms.line_search": "FedLineSearch",
        "fzoos.algorithms.registry": "ALGORITHMS find_algorithm",
        "fzoos.algorithms.scaffold": "ScaffoldI ScaffoldII",
        "fzoos.algorithms.trust_region": "FedTrustRegion",
    },
)
