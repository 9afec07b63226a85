"""The few array operations that differ between NumPy and PyTorch, in one place.

Everything else in the surrogates is written against the array API standard, through `array_api_compat`, so that the
same lines run on NumPy and, on a GPU, on PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from array_api_compat import device as device_of
from numpy.typing import NDArray

__all__ = [
    "Array",
    "FloatArray",
    "check_device",
    "check_device_name",
    "cos_in_place",
    "device_of",
    "invert_lower",
    "namespace",
    "orthonormal_rows",
    "sin",
    "squared_distances",
    "to_device",
    "to_numpy",
]

Array = Any  # an array of any namespace: NumPy, PyTorch
FloatArray = NDArray[np.float64]

_BLOCK = 8192  # elements: buffers of this size stay in cache
_LEAF = 64  # rows: below this a triangular matrix is inverted like any other


def namespace(*arrays: Array) -> Any:
    """The array API namespace of the given arrays: NumPy 2 is its own."""
    return np if isinstance(arrays[0], np.ndarray) else array_namespace(*arrays)


def to_device(x: FloatArray, device: str | None) -> Array:
    """A NumPy array as it is (device None), or as a PyTorch tensor on a device such as "cpu" or "cuda"."""
    if device is None:
        return x
    import torch

    return torch.as_tensor(x, dtype=torch.float64, device=device)


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
    s += xp.vecdot(x, x)[:, None]
    s += xp.vecdot(y, y)
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
    xp = namespace(factor)
    inverse = xp.zeros_like(factor)

    def invert(start: int, end: int) -> None:
        if end - start <= _LEAF:
            inverse[start:end, start:end] = xp.tril(xp.linalg.inv(factor[start:end, start:end]))
            return
        half = (start + end) // 2
        invert(start, half)
        invert(half, end)
        product = factor[half:end, start:half] @ inverse[start:half, start:half]
        inverse[half:end, start:half] = -inverse[half:end, half:end] @ product

    invert(0, factor.shape[0])
    return inverse


def orthonormal_rows(count: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Random directions, shape (count, d): orthonormal, in groups of d where there are more than d."""
    groups = []
    for start in range(0, count, dim):
        q, r = np.linalg.qr(rng.standard_normal((dim, min(dim, count - start))))
        groups.append((q * np.sign(np.diag(r))).T)  # the signs make the distribution uniform (Haar)
    return np.concatenate(groups)
