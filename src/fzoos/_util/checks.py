"""Argument checks whose errors name the argument, the given value and what was expected."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = ["check_count", "check_number", "check_positive", "check_type"]


def check_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> None:
    """Raise unless `value` is a finite real number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if not math.isfinite(number) or not low <= number <= high:
        raise ValueError(f"{name} must be a finite number{_range(low, high)}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Raise unless `value` is a finite real number above zero."""
    check_number(name, value)
    if value <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}")


def check_count(name: str, value: Any, low: int = 0) -> None:
    """Raise unless `value` is an integer of at least `low`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")


def _range(low: float, high: float) -> str:
    if low == -math.inf and high == math.inf:
        return ""
    if high == math.inf:
        return f" of at least {low:g}"
    return f" in [{low:g}, {high:g}]"


def check_type(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Raise unless `value` is of this kind; `optional`: or None."""
    if not isinstance(value, kind) and not (optional and value is None):
        raise TypeError(f"{name} must be {kind.__name__}{' or None' if optional else ''}, got {value!r}")
