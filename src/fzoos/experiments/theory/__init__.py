"""The paper's theory, measured: `fzoos reproduce theory`."""

from fzoos.experiments.theory.report import reproduce_theory

__all__ = ["reproduce_theory"]
