"""FZooS: its settings, its client half, and the parts that only it uses."""

from fzoos.algorithms.fixed_fzoos.settings import FixedFZooS

__all__ = ["FixedFZooS"]
