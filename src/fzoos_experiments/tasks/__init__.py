"""Problems to try algorithms on: the paper's, with what is known of their minima."""

from fzoos_experiments.tasks.synthetic import Ackley, Levy, Quadratic

__all__ = ["TASKS", "Ackley", "Levy", "Quadratic"]

TASKS: dict[str, type[Quadratic] | type[Ackley] | type[Levy]] = {t.name: t for t in (Quadratic, Ackley, Levy)}
"""The synthetic tasks by their names on the command line."""
