"""How finely the numbers of a message travel: what arrays become, how long they are, and how they are written.

============  ================  ======================================================================================
precision     bytes of n        what a number v becomes
============  ================  ======================================================================================
"float64"     8 n               v
"float32"     4 n               the nearest float32: 24 bits
"float16"     2 + 2 n           2^e times the nearest float16, 11 bits, of v / 2^e; e, 2 bytes, is one for the array,
                                such that its largest number is used well: arrays of 1e6 or 1e-9 keep their digits
"stochastic"  16 + n            one of 256 levels from the array's smallest number to its largest (8 bytes each): v lies
                                between two, a <= v < b, and becomes b with probability (v - a) / (b - a), otherwise a;
                                on average that is v. One or two numbers travel as they are: 8 n bytes
============  ================  ======================================================================================

An array of numbers in [0, 1] stays there, and its zeros and ones stay what they are: x does not leave the cube. What
has been rounded is not changed by rounding it again: the extremes of an array, which its scale or its levels are made
of, are themselves such numbers. So a message is rounded once, then computed with, written and read without a change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray

__all__ = ["PRECISIONS", "Precision", "check_precision", "read", "rounded", "size", "write"]

Precision = Literal["float64", "float32", "float16", "stochastic"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

_PER_NUMBER: dict[Precision, int] = {"float64": 8, "float32": 4, "float16": 2, "stochastic": 1}
_PER_ARRAY: dict[Precision, int] = {"float64": 0, "float32": 0, "float16": 2, "stochastic": 16}
_FRACTIONS = np.arange(256) / 255.0
_TOP = 15  # float16 goes up to 2^16: the largest number of an array is put between 2^14 and 2^15


def check_precision(value: Any) -> None:
    """Raise unless this is a precision."""
    if not isinstance(value, str) or value not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {value!r}")


def size(count: int, precision: Precision) -> int:
    """Return the bytes of an array of n numbers."""
    used = _used(precision, count)
    return _PER_ARRAY[used] + _PER_NUMBER[used] * count


def rounded(array: FloatArray, precision: Precision, rng: np.random.Generator | None = None) -> FloatArray:
    """Return the numbers as they will arrive, float64; only "stochastic" needs a random generator.

    Raises:
        ValueError: there is NaN or infinity, or what would become infinity.
    """
    if precision == "float64":
        return array
    if precision == "stochastic" and rng is None:
        raise ValueError("stochastic rounding needs a random generator")
    _check_finite(array)
    with np.errstate(over="ignore", invalid="ignore"):
        if rng is not None and _used(precision, array.size) == "stochastic":
            found = _stochastic(array, rng)
        else:
            found = _read(_write(array, precision), precision, array.shape)
    if not np.all(np.isfinite(found)):
        raise ValueError(f"holds numbers too large for {precision}")
    return found


def write(array: FloatArray, precision: Precision) -> bytes:
    """Return a rounded array as bytes.

    Raises:
        ValueError: it has not been rounded to this precision, so that other numbers would arrive.
    """
    if precision == "float64":
        return _write(array, precision)
    _check_finite(array)
    with np.errstate(over="ignore", invalid="ignore"):
        data = _write(array, precision)
        if not np.array_equal(_read(data, precision, array.shape), array):
            raise ValueError(f"has not been rounded to {precision}")
    return data


def read(data: bytes, precision: Precision, shape: Sequence[int]) -> FloatArray:
    """Return the array that `write` wrote.

    Raises:
        ValueError: `write` does not write that.
    """
    if precision == "float64":
        return _read(data, precision, shape)
    with np.errstate(over="ignore", invalid="ignore"):
        array = _read(data, precision, shape)
        _check_finite(array)
        if _write(array, precision) != data:
            raise ValueError(f"is not written as {precision} is")
    return array


def _used(precision: Precision, count: int) -> Precision:
    """How an array is written: two numbers are not shorter as two levels, which are these numbers."""
    return "float64" if precision == "stochastic" and count <= 2 else precision


def _write(array: FloatArray, precision: Precision) -> bytes:
    used = _used(precision, array.size)
    if used == "stochastic":
        low, top = _ends(array)
        codes = np.searchsorted(_levels(low, top), array.ravel())
        return np.array([low, top], "<f8").tobytes() + codes.astype(np.uint8).tobytes()
    if used == "float16":
        exponent = _exponent(array)
        return np.array(exponent, "<i2").tobytes() + np.ldexp(array, -exponent).astype("<f2").tobytes()
    return np.ascontiguousarray(array, "<f4" if used == "float32" else "<f8").tobytes()


def _read(data: bytes, precision: Precision, shape: Sequence[int]) -> FloatArray:
    count = math.prod(shape)
    used = _used(precision, count)
    if used == "stochastic":
        low, top = np.frombuffer(data, "<f8", 2).tolist()
        return _levels(low, top)[np.frombuffer(data, np.uint8, count, 16)].reshape(shape)
    if used == "float16":
        exponent = int(np.frombuffer(data, "<i2", 1)[0])
        return np.ldexp(np.frombuffer(data, "<f2", count, 2).astype(np.float64), exponent).reshape(shape)
    return np.frombuffer(data, "<f4" if used == "float32" else "<f8", count).astype(np.float64).reshape(shape)


def _exponent(array: FloatArray) -> int:
    """e of "float16", from the largest number as it is after rounding: a rounded array has the same."""
    fraction, exponent = math.frexp(float(np.max(np.abs(array), initial=0.0)))
    return exponent + math.frexp(float(np.float16(fraction)))[1] - _TOP


def _ends(array: FloatArray) -> tuple[float, float]:
    """Smallest and largest number; -0.0 is 0.0."""
    return float(array.min()) + 0.0, float(array.max()) + 0.0


def _levels(low: float, top: float) -> FloatArray:
    """256 numbers that do not fall, the first and the last exactly these two."""
    levels: FloatArray = np.minimum(low + (top - low) * _FRACTIONS, top)
    levels[-1] = top
    return levels


def _stochastic(array: FloatArray, rng: np.random.Generator) -> FloatArray:
    """v becomes b with probability (v - a) / (b - a), otherwise a."""
    levels = _levels(*_ends(array))
    below: NDArray[np.intp] = np.clip(np.searchsorted(levels, array, side="right") - 1, 0, 254)
    a, b = levels[below], levels[below + 1]
    chance = np.divide(array - a, b - a, out=np.zeros_like(a), where=b > a)
    found: FloatArray = np.where(rng.random(array.shape) < chance, b, a)
    return found


def _check_finite(array: FloatArray) -> None:
    if not np.all(np.isfinite(array)):
        raise ValueError("holds NaN or infinity")
