"""The few array operations that differ between NumPy and PyTorch, in one place.

Everything else in the surrogates is written against the array API standard, through `array_api_compat`, so that the
same lines run on NumPy and, on a GPU, on PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from array_api_compat import device as device_of
from numpy.typing import NDArray

from fzoos._util.cores import on_cores

__all__ = [
    "Array",
    "FloatArray",
    "as_rows",
    "check_device",
    "check_device_name",
    "clip",
    "cos_in_place",
    "device_of",
    "host_block",
    "invert_lower",
    "is_array",
    "namespace",
    "orthonormal_rows",
    "shared_to_device",
    "sin",
    "squared_distances",
    "stack",
    "stack_for_device",
    "take_rows",
    "to_device",
    "to_host",
    "to_numpy",
]

Array = Any  # an array of any namespace: NumPy, PyTorch
FloatArray = NDArray[np.float64]

_BLOCK = 8192  # elements: buffers of this size stay in cache
_shared: tuple[FloatArray, str | None, Array] | None = None  # the latest array that clients share
_LARGE = 1_000_000  # numbers that several cores copy sooner than one
_LEAF = 32  # rows: below this a triangular matrix is inverted like any other


def namespace(*arrays: Array) -> Any:
    """The array API namespace of the given arrays."""
    return array_namespace(*arrays)


def to_device(x: FloatArray, device: str | None) -> Array:
    """A NumPy array as it is (device None), or as a PyTorch tensor on a device such as "cpu" or "cuda"."""
    if device is None:
        return x
    import torch

    return torch.as_tensor(x, dtype=torch.float64, device=device)


def shared_to_device(x: FloatArray, device: str | None) -> Array:
    """The same, as one array for all clients of a process that are handed this very x one after another."""
    global _shared
    if _shared is None or _shared[0] is not x or _shared[1] != device:
        _shared = x, device, to_device(x, device)
    return _shared[2]


def host_block(shape: tuple[int, ...], device: str | None) -> FloatArray:
    """Room for numbers that will go to a device; a GPU reads it by itself, at several times the rate."""
    if device is None or not device.startswith("cuda"):
        return np.empty(shape)
    import torch

    block: FloatArray = torch.empty(shape, dtype=torch.float64, pin_memory=True).numpy()
    return block


def stack_for_device(arrays: Sequence[FloatArray], device: str | None) -> FloatArray:
    """Arrays of one shape, along a new first axis, where they can go to a device fast; large ones on several cores."""
    block = host_block((len(arrays), *arrays[0].shape), device)
    if block.size < _LARGE:
        return np.stack(arrays, out=block)
    on_cores(lambda i: np.copyto(block[i], arrays[i]), range(len(arrays)))
    return block


def as_rows(index: NDArray[np.int64]) -> Any:
    """The same rows, as a slice if they are neighbours, in order: these need not be copied."""
    if len(index) and index[-1] - index[0] == len(index) - 1:
        return slice(int(index[0]), int(index[-1]) + 1)
    return index


def check_device_name(device: str) -> tuple[str, int]:
    """Kind and number of "cpu", "cuda", or "cuda:1" for the second GPU; a ValueError if it is none of them."""
    kind, _, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
        raise ValueError(f"device must be cpu or cuda, got {device!r}")
    return kind, int(index or 0)


def check_device(device: str) -> None:
    """Raise a ValueError unless PyTorch is there and has that device."""
    kind, index = check_device_name(device)
    try:
        import torch
    except ImportError:
        raise ValueError(f'device {device!r} needs PyTorch: pip install "fzoos[torch]"') from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device!r} but PyTorch finds no CUDA device here; use device='cpu'")
    if kind == "cuda" and index >= torch.cuda.device_count():
        raise ValueError(f"device is {device!r} but there are only {torch.cuda.device_count()} CUDA devices here")


def to_numpy(x: Array) -> FloatArray:
    """The same values as a NumPy array."""
    values: FloatArray = x if is_numpy_array(x) else x.cpu().numpy()
    return values


def to_host(x: Array) -> FloatArray:
    """The same by way of memory that a GPU writes to by itself, at several times the rate: for what is not kept."""
    if is_numpy_array(x) or x.device.type != "cuda":
        return to_numpy(x)
    import torch

    block: FloatArray = torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x).numpy()
    return block


def take_rows(x: Array, rows: Array) -> Array:
    """Of each matrix, shape (N, n, d), some rows, shape (N, k): shape (N, k, d)."""
    return x[namespace(x).arange(len(x), device=device_of(x))[:, None], rows]


def clip(x: Array, low: FloatArray | float, high: FloatArray | float, out: FloatArray | None = None) -> Array:
    """x within bounds, which are numbers or NumPy arrays; `out` is for NumPy."""
    if isinstance(x, np.ndarray):
        return x.clip(low, high, out)
    if isinstance(low, np.ndarray) or isinstance(high, np.ndarray):  # a number needs no copy to the device
        low, high = (x.new_tensor(bound) for bound in (low, high))
    return x.clamp(low, high)


def is_array(x: Any) -> bool:
    """Whether x is an array of any namespace."""
    return hasattr(x, "shape")


def stack(arrays: Sequence[Array]) -> tuple[Array, bool]:
    """Arrays of one shape, along a new first axis; and whether that is a view of where they are.

    PyTorch tensors that lie in one block of memory at equal distances, as the parts of an earlier stack do, are not
    copied.
    """
    first = arrays[0]
    if is_numpy_array(first):
        return np.stack(arrays), False
    import torch

    begin, stride = first.storage_offset(), first.stride()
    step = arrays[1].storage_offset() - begin if len(arrays) > 1 else 0
    block = first.untyped_storage().data_ptr()
    if step > 0 and all(
        a.storage_offset() == begin + i * step and a.stride() == stride and a.untyped_storage().data_ptr() == block
        for i, a in enumerate(arrays)
    ):
        return torch.as_strided(first, (len(arrays), *first.shape), (step, *stride)), True
    return torch.stack(list(arrays)), False


def squared_distances(x: Array, y: Array) -> Array:
    """||x_i - y_j||^2 for all rows, shape (n, m), by one matrix product; leading axes are of several such tasks.

    The rows are first centred on the mean of y: |x|^2 + |y|^2 - 2 x.y loses the digits that the norms have in excess of
    the distances, so the origin must lie near the points whose small distances matter.
    """
    xp = namespace(x, y)
    centre = xp.mean(y, axis=-2, keepdims=True)
    x, y = x - centre, y - centre
    s = x @ y.mT
    s *= -2.0
    s += xp.vecdot(x, x)[..., :, None]
    s += xp.vecdot(y, y)[..., None, :]
    return np.maximum(s, 0.0, out=s) if is_numpy_array(s) else xp.clip(s, 0.0, None)


def _numpy_has_fast_tan() -> bool:
    """Whether NumPy was built with the vectorised tangent for this processor (AVX-512)."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return bool({"X86_V4", "AVX512_SKX"} & set(found))


_FAST_TAN = _numpy_has_fast_tan()


def cos_in_place(x: Array, amplitude: float = 1.0) -> Array:
    """Overwrite x with amplitude * cos(x), by the fastest accurate way; return it.

    NumPy's float64 cosine is not vectorised; its tangent is, on processors with AVX-512. So there we take
    cos x = 2 / (1 + t^2) - 1 with t = tan(x/2), in blocks that stay in cache. The error is at most a few units in the
    last place of 1, at the poles of the tangent too, where t is about 1e16 and the formula gives -1.
    """
    if not (_FAST_TAN and is_numpy_array(x) and x.flags.c_contiguous):
        x[...] = amplitude * namespace(x).cos(x)
        return x
    flat = x.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        block *= 0.5
        np.tan(block, out=block)
        np.square(block, out=block)
        block += 1.0
        np.divide(2.0 * amplitude, block, out=block)
        block -= amplitude
    return x


def sin(x: Array) -> Array:
    """sin(x) = 2 t / (1 + t^2) with t = tan(x/2), for the same reason as `cos_in_place`."""
    if not (_FAST_TAN and is_numpy_array(x)):
        return namespace(x).sin(x)
    t = np.tan(0.5 * x)
    return 2.0 * t / (1.0 + t * t)


def invert_lower(factor: Array) -> Array:
    """The inverse of a lower triangular matrix, [[A, 0], [B, C]]^-1 = [[A^-1, 0], [-C^-1 B A^-1, C^-1]], by halves.

    The array API standard has no triangular solve. SciPy's would bring its own pool of BLAS threads beside NumPy's:
    called in turns, as here, the two wait for each other and everything becomes several times slower.
    """
    inverse = namespace(factor).zeros_like(factor)
    _invert_lower(factor, inverse)
    return inverse


def _invert_lower(factor: Array, inverse: Array) -> None:
    n = factor.shape[-1]
    if n <= _LEAF:
        xp = namespace(factor)
        inverse[...] = xp.tril(xp.linalg.inv(factor))
        return
    h = n // 2
    _invert_lower(factor[..., :h, :h], inverse[..., :h, :h])
    _invert_lower(factor[..., h:, h:], inverse[..., h:, h:])
    inverse[..., h:, :h] = -inverse[..., h:, h:] @ (factor[..., h:, :h] @ inverse[..., :h, :h])


def orthonormal_rows(count: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Random directions, shape (count, d): orthonormal, in groups of d where there are more than d."""
    sizes = [min(dim, count - start) for start in range(0, count, dim)]
    return np.concatenate([_orthonormal(size, dim, rng) for size in sizes])


def _orthonormal(count: int, dim: int, rng: np.random.Generator) -> FloatArray:
    q, r = np.linalg.qr(rng.standard_normal((dim, count)))
    return (q * np.sign(np.diag(r))).T  # the signs make the distribution uniform (Haar)
