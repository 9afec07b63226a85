"""FZooS without settings: its two halves, and the parts that only it uses."""

from fzoos.algorithms.fzoos.settings import FZooS

__all__ = ["FZooS"]
