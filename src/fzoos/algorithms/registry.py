"""Which algorithms there are; a new one is one file beside this one, and one line in `ALGORITHMS`."""

from __future__ import annotations

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
from fzoos.algorithms.scaffold import ScaffoldI, ScaffoldII
from fzoos.algorithms.trust_region import FedTrustRegion

__all__ = ["ALGORITHMS", "find_algorithm"]

ALGORITHMS: dict[str, type[Algorithm]] = {
    a.name: a
    for a in (
        FedZO,
        FedProx,
        ScaffoldI,
        ScaffoldII,
        FZooS,
        Auto,
        FedTrustRegion,
        FedLineSearch,
        DeComFL,
        HiSo,
        FedHistory,
        FedCMA,
        FedBPT,
        FedLBFGS,
    )
}
"""By the name used on the command line, in the order of tables and legends."""


def find_algorithm(name: str) -> type[Algorithm]:
    """An algorithm by its name, in upper or lower case.

    Example:
        >>> from fzoos.algorithms import find_algorithm
        >>> find_algorithm("FedCMA").label
        'FedCMA'
    """
    found = name.lower()
    if found not in ALGORITHMS:
        raise ValueError(f"there is no algorithm {name!r}; choose from {', '.join(ALGORITHMS)}")
    return ALGORITHMS[found]
