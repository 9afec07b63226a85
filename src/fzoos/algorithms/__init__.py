"""The algorithms; a new one is one file here and one line in `ALGORITHMS`."""

from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.decomfl import DeComFL
from fzoos.algorithms.fedcma import FedCMA
from fzoos.algorithms.fedhistory import FedHistory
from fzoos.algorithms.fedprox import FedProx
from fzoos.algorithms.fedzo import FedZO
from fzoos.algorithms.fzoos import FZooS
from fzoos.algorithms.hiso import HiSo
from fzoos.algorithms.scaffold import ScaffoldI, ScaffoldII

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "DeComFL",
    "FZooS",
    "FedCMA",
    "FedHistory",
    "FedProx",
    "FedZO",
    "HiSo",
    "ScaffoldI",
    "ScaffoldII",
]

ALGORITHMS: dict[str, type[Algorithm]] = {
    a.name: a
    for a in (
        FedZO,
        FedProx,
        ScaffoldI,
        ScaffoldII,
        DeComFL,
        HiSo,
        FedHistory,
        FedCMA,
        FZooS,
    )
}
"""By the name used on the command line, in the order of tables and legends."""
