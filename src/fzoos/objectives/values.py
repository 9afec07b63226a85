"""How objectives are called, and the values that they return: reading, checking and joining them.

f has shape (n,); with constraints f and c_1, ..., c_k are the columns of a table of shape (n, 1 + k).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fzoos._util.arrays import FloatArray

__all__ = ["all_finite", "as_returned", "is_finite", "join_values", "read_values", "takes_keywords"]


def takes_keywords(objective: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Whether an objective takes named variables as keywords: it has a parameter for each, or takes any keyword."""
    try:
        parameters = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):
        return False
    by_name = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
    others = [p for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in names and p.default is p.empty]
    return not others and (set(names) <= by_name or anything)


def is_finite(values: FloatArray) -> NDArray[np.bool_]:
    """Which points have a finite value and finite constraints."""
    return np.isfinite(values) if values.ndim == 1 else np.all(np.isfinite(values), axis=1)


def all_finite(values: FloatArray) -> bool:
    """Whether all points have a finite value and finite constraints."""
    if values.size == 1:
        return math.isfinite(values.item())
    return bool(np.logical_and.reduce(np.isfinite(values), axis=None))


def join_values(parts: Sequence[FloatArray]) -> FloatArray:
    """Join values of several calls; those that failed before the number of constraints was known get NaN in each."""
    widths = {part.shape[1] for part in parts if part.ndim == 2}
    if not widths:
        return np.concatenate(parts)
    if len(widths) > 1 or any(part.ndim == 1 and np.any(np.isfinite(part)) for part in parts):
        raise ValueError("an objective must return the same number of constraints at every point")
    width = widths.pop()
    wide = [part if part.ndim == 2 else np.full((len(part), width), np.nan) for part in parts]
    return np.concatenate(wide)


def read_values(value: Any, shape: tuple[int, ...], vectorized: bool, who: str) -> FloatArray:
    """Read what an objective returned: f of shape (n,), or, if it is a pair (f, c), f and c of shape (n, 1 + k).

    Args:
        value: what it returned.
        shape: of the points, (n, d).
        vectorized: whether the objective was called with a batch; otherwise n is 1.
        who: the objective's name in error messages.
    """
    if not isinstance(value, tuple) or len(value) != 2 or (vectorized and shape[0] == 2 and np.ndim(value[0]) == 0):
        return _numbers(value, shape, vectorized, who)
    f = _numbers(value[0], shape, vectorized, who)
    c = _array(value[1], who)
    c = c.reshape(len(f), -1) if not vectorized or c.ndim == 1 else c
    if c.ndim != 2 or len(c) != len(f) or not c.shape[1]:
        wanted = f"of shape ({shape[0]}, k) for x of shape {shape}" if vectorized else "one or more numbers"
        raise ValueError(f"the {who} must return constraints {wanted}, got shape {np.shape(value[1])}")
    return np.column_stack([f, c])


def as_returned(values: FloatArray, single: bool = False) -> Any:
    """The pair or the numbers that an objective with these values returns: the inverse of `read_values`.

    Args:
        values: f of shape (n,), or f and c of shape (n, 1 + k).
        single: whether the objective was called with one point, not a batch.
    """
    if values.ndim == 1:
        return float(values[0]) if single else values
    f, c = values[:, 0], values[:, 1:]
    return (float(f[0]), c[0]) if single else (f, c)


def _numbers(value: Any, shape: tuple[int, ...], vectorized: bool, who: str) -> FloatArray:
    y = _array(value, who)
    if vectorized and y.shape != shape[:1]:
        raise ValueError(
            f"the vectorized {who} must return shape ({shape[0]},) for x of shape {shape}, got shape {y.shape}"
        )
    if not vectorized and y.size != 1:
        raise ValueError(
            f"the {who} must return one number for x of shape {shape[1:]}, got shape {y.shape}; is it vectorized?"
        )
    return y.reshape(-1)


def _array(value: Any, who: str) -> FloatArray:
    try:
        if value is None:
            raise TypeError
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"the {who} must return numbers, got {value!r}") from None
