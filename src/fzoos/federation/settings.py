"""Algorithms from plain tables, as they stand in a study's file.

What may stand there is what the dataclass's own annotations say (`_util/records.py`): a setting that is itself a record
is a table; where several kinds are possible, its "name" says which, the first of them if there is none:

    [algorithm]
    name = "fzoos"
    local_steps = 10
    optimizer = { name = "adam", learning_rate = 0.01 }
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

__all__ = ["make_algorithm"]


def make_algorithm(table: Mapping[str, Any]) -> Algorithm:
    """An algorithm's settings.

    Args:
        table: "name", and settings by their names.

    Example:
        >>> from fzoos.federation.settings import make_algorithm
        >>> make_algorithm({"name": "fzoos", "features": 500, "refresh": {"candidates": 9, "picks": 2}}).refresh.picks
        2
    """
    cls = _find(table)
    made: Algorithm = read_record("algorithm", cls, {key: value for key, value in table.items() if key != "name"})
    return made


def _find(table: Any) -> type[Algorithm]:
    """The algorithm that a table names, in upper or lower case."""
    name = table.get("name") if isinstance(table, Mapping) else None
    try:
        return find_algorithm(name if isinstance(name, str) else "")
    except ValueError:
        choose_kind("algorithm", table, ALGORITHMS)  # says what is wrong, as it does of all tables
        raise
