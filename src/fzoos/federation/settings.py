"""Algorithms and optimisers from plain tables, as they stand in a study's file.

What may stand there is what the dataclass's own annotations say (`_util/records.py`): a setting that is itself a record
is a table; where several kinds are possible, its "name" says which, the first of them if there is none:

    [algorithm]
    name = "fzoos"
    kernel = { name = "SquaredExponential", length_scale = 1.0 }
    active = { candidates = 100, picks = 5, radius = 0.01 }
    refresh = false                                              # none
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fzoos._util.records import choose_kind, read_record
from fzoos.algorithms import ALGORITHMS, find_algorithm
from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.optimizers import OPTIMIZERS, Optimizer

__all__ = ["make_algorithm", "make_optimizer"]


def make_algorithm(table: Mapping[str, Any]) -> Algorithm:
    """An algorithm's settings.

    Args:
        table: "name", and settings by their names; "preset" begins with one of the algorithm's `presets`, such as
            `preset = "paper"` of FZooS.

    Example:
        >>> from fzoos.federation.settings import make_algorithm
        >>> make_algorithm({"name": "fzoos", "features": 500, "refresh": {"candidates": 9, "picks": 2}}).refresh.picks
        2
    """
    named = _find(table)
    settings = {key: value for key, value in table.items() if key not in ("name", "preset")}
    preset = table.get("preset")
    cls = named.with_settings(settings, preset)
    if preset is not None and preset not in cls.presets:
        choice = ", ".join(cls.presets) or "none"
        raise ValueError(f"preset of {table['name']} must be one of {choice}, got {preset!r}")
    made: Algorithm = read_record("algorithm", cls, settings, getattr(cls, preset) if preset is not None else None)
    return made


def make_optimizer(table: Mapping[str, Any]) -> Optimizer:
    """An optimiser's settings.

    Example:
        >>> from fzoos.federation.settings import make_optimizer
        >>> make_optimizer({"name": "sgd", "learning_rate": 0.1})
        SGD(learning_rate=0.1)
    """
    cls, settings = choose_kind("optimizer", table, OPTIMIZERS)
    made: Optimizer = read_record("optimizer", cls, settings)
    return made


def _find(table: Any) -> type[Algorithm]:
    """The algorithm that a table names, in upper or lower case, or by its name of the last release."""
    name = table.get("name") if isinstance(table, Mapping) else None
    try:
        return find_algorithm(name if isinstance(name, str) else "")
    except ValueError:
        choose_kind("algorithm", table, ALGORITHMS)  # says what is wrong, as it does of all tables
        raise
