"""Problems to try algorithms on: the paper's, with what is known of their minima."""

from fzoos_experiments.tasks.base import Task
from fzoos_experiments.tasks.noisy import Noisy
from fzoos_experiments.tasks.synthetic import Ackley, Levy, Quadratic

__all__ = ["TASKS", "Ackley", "Levy", "Noisy", "Quadratic", "Task"]

TASKS: dict[str, type[Quadratic] | type[Ackley] | type[Levy]] = {t.name: t for t in (Quadratic, Ackley, Levy)}
"""By the name used on the command line."""
