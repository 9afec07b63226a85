"""The paper's theory, measured: `fzoos reproduce theory`."""

from fzoos_experiments.paper.theory.report import reproduce_theory

__all__ = ["reproduce_theory"]
