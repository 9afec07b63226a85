"""The numbers of a request beside its arrays: a frozen record in which every field has a range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Self

from fzoos.messages.codec import MessageError

__all__ = ["RoundScalars", "Scalars", "SeededScalars", "number", "whole"]

_MANY = 2**40


def number(low: float, high: float, **default: Any) -> Any:
    """Declare a field that holds a number of this range."""
    return field(metadata={"range": (low, high), "type": float}, **default)


def whole(low: int = 0, high: int = _MANY, **default: Any) -> Any:
    """Declare a field that holds a whole number of this range."""
    return field(metadata={"range": (low, high), "type": int}, **default)


class Scalars:
    """Base class of the records; a field that has its default is not sent."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all numbers in a message."""
        return tuple(f.name for f in fields(cls))  # type: ignore[arg-type]

    def scalars(self) -> dict[str, float]:
        """Return the numbers that are sent."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}  # type: ignore[arg-type]

    @classmethod
    def of(cls, scalars: Mapping[str, float]) -> Self:
        """Read the record from the numbers of a request.

        Raises:
            MessageError: a number is unknown, missing, or not one that a server may send.
        """
        made: Self = _parsed(cls, tuple(scalars.items()))  # type: ignore[arg-type]
        return made


@lru_cache(maxsize=1024)  # the same request is read half a dozen times on its way
def _parsed(cls: Any, items: tuple[tuple[str, float], ...]) -> Any:
    known = {f.name: f for f in fields(cls)}
    unknown = dict(items).keys() - known.keys()
    if unknown:
        raise MessageError(f"scalar {min(unknown)!r} is not expected; these are: {', '.join(sorted(known))}")
    try:
        return cls(**{name: _checked(known[name], value) for name, value in items})
    except TypeError:
        raise MessageError(f"a request must have {', '.join(known)}; got {', '.join(dict(items))}") from None


def _checked(spec: Any, value: float) -> float:
    low, high = spec.metadata["range"]
    if not math.isfinite(value) or not low <= value <= high:
        raise MessageError(f"scalar {spec.name!r} must be in {low:g}..{high:g}, got {value:g}")
    kind = spec.metadata["type"]
    if kind is not float and value != int(value):
        raise MessageError(f"scalar {spec.name!r} must be a whole number, got {value}")
    return kind(value)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class RoundScalars(Scalars):
    """The numbers that most algorithms send."""

    cut: int = whole(default=0)  # the size to which the budget cuts the round, such as its local steps; 0: it is whole


@dataclass(frozen=True, kw_only=True)
class SeededScalars(RoundScalars):
    """The numbers that algorithms send which draw common random numbers."""

    seed: int = whole(0, 2**64)  # shared by all clients
