"""The numbers that a steering server sends with each request: a frozen record, every field with its range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields
from functools import lru_cache
from typing import Any, Self

from fzoos.messages.codec import MessageError

__all__ = ["Instructions", "number", "whole"]

_MANY = 2**40


def number(low: float, high: float, **default: Any) -> Any:
    """A field that holds a number of this range."""
    return field(metadata={"range": (low, high), "type": float}, **default)


def whole(low: int = 0, high: int = _MANY, **default: Any) -> Any:
    """A field that holds a whole number of this range."""
    return field(metadata={"range": (low, high), "type": int}, **default)


class Instructions:
    """Base of the record; a field that has its default does not travel."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of all the numbers, as they are called in a message."""
        return tuple(f.name for f in fields(cls))  # type: ignore[arg-type]

    def scalars(self) -> dict[str, float]:
        """As they travel."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}  # type: ignore[arg-type]

    @classmethod
    def of(cls, scalars: Mapping[str, float]) -> Self:
        """From a request.

        Raises:
            MessageError: a number is missing, or not one that a server may send.
        """
        made: Self = _parsed(cls, tuple(scalars.items()))  # type: ignore[arg-type]
        return made


@lru_cache(maxsize=1024)  # the same request is read half a dozen times on its way
def _parsed(cls: Any, items: tuple[tuple[str, float], ...]) -> Any:
    known = {f.name: f for f in fields(cls)}
    try:
        return cls(**{name: _checked(known[name], value) for name, value in items if name in known})
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
