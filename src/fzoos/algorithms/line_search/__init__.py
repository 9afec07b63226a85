"""FedLineSearch: slopes from designs around x and line searches along them, for many dimensions."""

from fzoos.algorithms.line_search.settings import FedLineSearch

__all__ = ["FedLineSearch"]
