"""The few array operations that differ between NumPy and PyTorch, in one place.

Everything else in the surrogates is written against the array API standard, through `array_api_compat`, so that the
same lines run on NumPy and, on a GPU, on PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import array_namespace, is_numpy_array
from array_api_compat import device as device_of
from numpy.typing import NDArray

__all__ = [
    "Array",
    "Buffer",
    "FloatArray",
    "cos",
    "device_of",
    "invert_lower",
    "namespace",
    "sin",
    "squared_distances",
    "to_device",
    "to_numpy",
]

Array = Any  # an array of any namespace: NumPy, PyTorch
FloatArray = NDArray[np.float64]

_BLOCK = 8192  # elements: two buffers of this size stay in the first-level cache


def namespace(*arrays: Array) -> Any:
    """The array API namespace of the given arrays."""
    return array_namespace(*arrays)


def to_device(x: FloatArray, device: str | None) -> Array:
    """A NumPy array as it is (device None), or as a PyTorch tensor on a device such as "cpu" or "cuda"."""
    if device is None:
        return x
    import torch

    return torch.as_tensor(x, dtype=torch.float64, device=device)


def to_numpy(x: Array) -> FloatArray:
    """The same values as a NumPy array."""
    values: FloatArray = x if is_numpy_array(x) else x.cpu().numpy()
    return values


def squared_distances(x: Array, y: Array) -> Array:
    """||x_i - y_j||^2 for all rows, shape (n, m), by one matrix product.

    The rows are first centred on the mean of y: |x|^2 + |y|^2 - 2 x.y loses the digits that the norms have in excess of
    the distances, so the origin must lie near the points whose small distances matter.
    """
    xp = namespace(x, y)
    centre = xp.mean(y, axis=0)
    x, y = x - centre, y - centre
    s = x @ y.T
    s *= -2.0
    s += xp.sum(x * x, axis=1)[:, None]
    s += xp.sum(y * y, axis=1)[None, :]
    return xp.clip(s, 0.0, None)


def _numpy_has_fast_tan() -> bool:
    """Whether NumPy was built with the vectorised tangent for this processor (AVX-512)."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return bool({"X86_V4", "AVX512_SKX"} & set(found))


_FAST_TAN = _numpy_has_fast_tan()


def cos(x: Array) -> Array:
    """cos(x), by the fastest accurate way.

    NumPy's float64 cosine is not vectorised (17 ns an element where the vectorised tangent takes 1.4 ns), so there
    cos x = 2 / (1 + t^2) - 1 with t = tan(x/2), in blocks that stay in cache. The error is at most a few units in the
    last place of 1, at the poles of the tangent too, where t is about 1e16 and the formula gives -1.
    """
    if not (_FAST_TAN and is_numpy_array(x)):
        return namespace(x).cos(x)
    out = np.empty_like(x, order="C")
    source, target = np.ravel(x), out.reshape(-1)
    for start in range(0, source.size, _BLOCK):
        block = target[start : start + _BLOCK]
        np.multiply(source[start : start + _BLOCK], 0.5, out=block)
        np.tan(block, out=block)
        np.square(block, out=block)
        block += 1.0
        np.divide(2.0, block, out=block)
        block -= 1.0
    return out


def sin(x: Array) -> Array:
    """sin(x) = 2 t / (1 + t^2) with t = tan(x/2), for the same reason as `cos`."""
    if not (_FAST_TAN and is_numpy_array(x)):
        return namespace(x).sin(x)
    t = np.tan(0.5 * x)
    return 2.0 * t / (1.0 + t * t)


def invert_lower(factor: Array) -> Array:
    """The inverse of a lower triangular matrix (the array API standard has no triangular solve)."""
    if is_numpy_array(factor):
        inverse, _ = scipy.linalg.lapack.dtrtri(factor, lower=1)
        return np.ascontiguousarray(inverse)
    import torch

    return torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=False)


class Buffer:
    """A matrix that grows at its lower right corner without copying what is there each time.

    The storage doubles when it is full, so that n appends copy O(n) entries in all.

    Args:
        columns: fixed number of columns, or None for a square matrix that grows in both directions.
    """

    def __init__(self, like: Array, columns: int | None = None) -> None:
        self._like = like
        self._columns = columns
        self._storage = self._allocate(16)
        self.rows = 0

    def _allocate(self, capacity: int) -> Array:
        xp = namespace(self._like)
        shape = (capacity, capacity if self._columns is None else self._columns)
        return xp.zeros(shape, dtype=self._like.dtype, device=device_of(self._like))

    def grow(self, rows: int) -> Array:
        """Make room for `rows` more rows (and columns, if square) of zeros; return the whole matrix."""
        old, self.rows = self.rows, self.rows + rows
        if self.rows > self._storage.shape[0]:
            storage = self._allocate(max(self.rows, 2 * self._storage.shape[0]))
            width = old if self._columns is None else self._columns
            storage[:old, :width] = self._storage[:old, :width]
            self._storage = storage
        return self.array

    @property
    def array(self) -> Array:
        """The matrix so far: a view, valid until the next growth."""
        return self._storage[: self.rows, : self.rows if self._columns is None else self._columns]
