"""Settings with which any algorithm is quick enough to be tested often, derived and not listed."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

import numpy as np

from fzoos.algorithms.base import Algorithm, Recipient, Round
from fzoos.federation.counts import cost_from
from fzoos.messages.message import Message

__all__ = ["as_table", "make_quick", "queries_of_a_round"]

_SMALL = (2, 4, 8, 16, 32)


def queries_of_a_round(algorithm: Algorithm, dim: int, round: int = 2, *, first: bool = False) -> int:
    """Return the queries of a client in a whole round, as they are planned before anything is measured.

    Args:
        algorithm: settings of an algorithm.
        dim: d of the problem.
        round: the number of the round, from 1.
        first: whether it is the client's first round.

    Example:
        >>> from fzoos import FedZO, ScaffoldI
        >>> from fzoos.testing import queries_of_a_round
        >>> queries_of_a_round(FedZO(), dim=3), queries_of_a_round(ScaffoldI(), dim=3)
        (210, 231)
    """
    half = algorithm.server(dim)
    kind, state = half.exchanges(round)[0], half.start(np.full(dim, 0.5))
    request = half.request(state, kind, Recipient(0, 0.5), Round(round, 0, np.ones(2)))
    return cost_from(algorithm, half, Message(kind, round, {}, request.scalars), first=first)


def make_quick(algorithm: Algorithm, dim: int = 2, limit: int = 12) -> Algorithm:
    """The algorithm itself where its rounds are cheap; otherwise with small whole numbers in its settings.

    Every whole number in the settings, and in the records among them, becomes the first of 2, 4, 8, ... that is below
    it and that the settings accept.

    Args:
        algorithm: settings of an algorithm.
        dim: d of the problem.
        limit: queries of a client in one round that are cheap enough.

    Example:
        >>> from fzoos import FedCMA, FedTrustRegion, FedZO
        >>> from fzoos.testing import make_quick
        >>> make_quick(FedZO()).local_steps, make_quick(FedZO()).differences.count, make_quick(FedCMA()).population
        (2, 2, 4)
        >>> make_quick(FedTrustRegion()) == FedTrustRegion()             # in two dimensions it is cheap
        True
    """
    if max(queries_of_a_round(algorithm, dim, round, first=round == 1) for round in (1, 2)) <= limit:
        return algorithm
    made: Algorithm = _with_small_numbers(algorithm)
    return made


def _with_small_numbers(settings: Any) -> Any:
    for f in fields(settings):
        value = getattr(settings, f.name)
        if is_dataclass(value):
            settings = _changed(settings, f.name, [_with_small_numbers(value)])
        elif isinstance(value, int) and not isinstance(value, bool):
            settings = _changed(settings, f.name, [small for small in _SMALL if small < value])
    return settings


def _changed(settings: Any, name: str, values: list[Any]) -> Any:
    """With the first of the values that is accepted; as it was if none is."""
    for value in values:
        try:
            return replace(settings, **{name: value})
        except ValueError:
            continue
    return settings


def as_table(algorithm: Algorithm) -> dict[str, Any]:
    """An algorithm as it stands in a study's file: its name, and the settings that are not the defaults.

    Example:
        >>> from fzoos import FedZO, FiniteDifferences
        >>> from fzoos.testing import as_table
        >>> as_table(FedZO(differences=FiniteDifferences(count=2)))
        {'name': 'fedzo', 'differences': {'name': 'FiniteDifferences', 'count': 2}}
    """
    return {"name": algorithm.name, **_changed_settings(algorithm)}


def _changed_settings(settings: Any) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for f in fields(settings):
        value = getattr(settings, f.name)
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if value == default:
            continue
        if is_dataclass(value):
            table[f.name] = {"name": type(value).__name__, **_changed_settings(value)}
        else:
            table[f.name] = False if value is None and is_dataclass(default) else value
    return table
