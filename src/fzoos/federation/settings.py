"""Algorithms and optimisers from plain tables, as they stand in a study's file.

A setting that is itself a record is a table; where several kinds are possible, its "name" says which, the first of
them if there is none:

    [algorithm]
    name = "fzoos"
    kernel = { name = "SquaredExponential", length_scale = 1.0 }
    active = { candidates = 100, picks = 5, radius = 0.01 }
    refresh = false                                              # none
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from fzoos.algorithms import ALGORITHMS, find_algorithm
from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.algorithms.fzoos.correction_lengths import Constant, DistanceAware, Measured, Reciprocal, Theoretical
from fzoos.algorithms.fzoos.query_designs import ActiveQueries, InitialDesign, UnseenDirections
from fzoos.algorithms.fzoos.step_scale import TrustRegion
from fzoos.algorithms.optimizers import SGD, Adam, Optimizer
from fzoos.surrogates.kernels import Matern52, SquaredExponential
from fzoos.surrogates.length_scale import FitLengthScale
from fzoos.surrogates.noise import FittedNoise, KnownNoise

__all__ = ["make_algorithm", "make_optimizer"]

_OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "sgd": SGD}
_RECORDS: dict[str, tuple[type, ...]] = {  # which records a setting can be; the first needs no name
    "kernel": (Matern52, SquaredExponential),
    "length": (Constant, DistanceAware, Measured, Reciprocal, Theoretical),
    "active": (ActiveQueries,),
    "refresh": (ActiveQueries, UnseenDirections),
    "initial": (InitialDesign,),
    "steps": (TrustRegion,),
    "fit": (FitLengthScale,),
    "noise": (KnownNoise, FittedNoise),
    "differences": (FiniteDifferences,),
}

_NUMBERS = frozenset({"noise"})  # settings that can be a plain number too


def make_algorithm(table: Mapping[str, Any]) -> Algorithm:
    """An algorithm's settings.

    Args:
        table: "name", and settings by their names; `preset = "paper"` or `"weights"` begins with those of FZooS.

    Example:
        >>> from fzoos.federation.settings import make_algorithm
        >>> make_algorithm({"name": "fzoos", "features": 500, "refresh": {"candidates": 9, "picks": 2}}).refresh.picks
        2
    """
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"algorithm must be a table with a name, one of {', '.join(ALGORITHMS)}; got {table!r}")
    cls, settings = find_algorithm(table["name"]), {key: value for key, value in table.items() if key != "name"}
    preset = settings.pop("preset", None)
    presets = [name for name in ("paper", "weights") if hasattr(cls, name)]
    if preset is not None and preset not in presets:
        raise ValueError(f"preset of {table['name']} must be one of {', '.join(presets) or 'none'}, got {preset!r}")
    made: Algorithm = _make("algorithm", cls, settings, getattr(cls, preset) if preset else cls)
    return made


def make_optimizer(table: Mapping[str, Any]) -> Optimizer:
    """An optimiser's settings.

    Example:
        >>> from fzoos.federation.settings import make_optimizer
        >>> make_optimizer({"name": "sgd", "learning_rate": 0.1})
        SGD(learning_rate=0.1)
    """
    cls, settings = _choose("optimizer", table, _OPTIMIZERS)
    made: Optimizer = _make("optimizer", cls, settings)
    return made


def _choose(what: str, table: Any, kinds: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    if not isinstance(table, Mapping):
        raise ValueError(f"{what} must be a table with a name, got {table!r}")
    name = table.get("name")
    if not isinstance(name, str) or name not in kinds:
        raise ValueError(f"{what}: name must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name], {key: value for key, value in table.items() if key != "name"}


def _make(what: str, cls: Any, settings: Mapping[str, Any], maker: Callable[..., Any] | None = None) -> Any:
    """What a table describes, by its class or by another maker of it; an error names the place in the table."""
    known = {f.name: f for f in fields(cls)}
    old_names: Mapping[str, str] = getattr(cls, "renamed_fields", {})
    settings = {old_names.get(name, name): value for name, value in settings.items()}
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"{what}: there is no setting {name!r}; the settings are {', '.join(known)}")
        if isinstance(known[name].default, bool) and not isinstance(value, bool):
            raise TypeError(f"{what}.{name} must be true or false, got {value!r}")
    for name, f in known.items():
        if name not in settings and f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"{what}: {name} is missing")
    values = {name: _value(f"{what}.{name}", name, value) for name, value in settings.items()}
    try:
        return (maker or cls)(**values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from None


def _value(where: str, name: str, value: Any) -> Any:
    if name not in _RECORDS or (name in _NUMBERS and not isinstance(value, Mapping)):
        return value
    if value is False:
        return None
    kinds = {cls.__name__: cls for cls in _RECORDS[name]}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where} must be a table, or false for none, got {value!r}")
    if "name" not in value:
        value = {"name": next(iter(kinds)), **value}
    cls, settings = _choose(where, value, kinds)
    return _make(where, cls, settings)
