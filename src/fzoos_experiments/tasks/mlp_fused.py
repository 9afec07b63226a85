"""The network of the module `mlp` as one GPU kernel: from rows of data to counts, nothing in between is stored.

The layers one by one write and read back 30 + 14 + 7 numbers a row and network; that traffic is what takes the time,
not the arithmetic. Here a program takes some rows, passes them through the three layers in registers and adds to the
confusion matrix of its network. The biases are columns of the matrices, with a one in front of each layer:

    W1' (32, 64) = [W1 b1 0; 0 1 0; 0]     W2' (16, 32) = [W2 b2 0; 0 1 0; 0]     W3' (16, 16) = [W3 b3 0; 0]

so that relu(W1' [x; 1; 0]) = [h1; 1; 0] and so on; the sizes are the powers of two that the tensor cores want. Products
are sums of three TF32 products each, which are as good as float32.

The floor: 4276 floating point operations a row and network as the formula stands, 5632 with the zeros, times three.
`benchmarks/speed/objectives.py --device cuda` prints the rate and the difference to float64.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos_experiments.tasks.models import Tensor, torch

try:
    import triton
    from triton import language as tl
except ImportError:  # PyTorch for CUDA brings it along; without it the layers go one by one
    triton = tl = None

__all__ = ["FusedConfusion", "is_available"]

_SIZES = (64, 32, 16, 16)  # of the layers with their ones, in place of 54, 30, 14, 7
_ROWS = 128  # at a time in one program
_BINS = 64  # 7 x 7 cells, and some to spare
_AT_ONCE = 1024  # networks


def is_available() -> bool:
    """Whether the kernel can be built here."""
    return triton is not None


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _count(x, y, packed, counts, turns, ROWS: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
        network = tl.program_id(0).to(tl.int64)
        i64, i32, i16 = tl.arange(0, 64), tl.arange(0, 32), tl.arange(0, 16)
        weights = packed + network * (64 * 32 + 32 * 16 + 16 * 16)
        w1 = tl.load(weights + i32[None, :] * 64 + i64[:, None])
        w2 = tl.load(weights + 64 * 32 + i16[None, :] * 32 + i32[:, None])
        w3 = tl.load(weights + 64 * 32 + 32 * 16 + i16[None, :] * 16 + i16[:, None])
        found = tl.zeros((64,), tl.int32)
        for turn in range(turns):
            row = (tl.program_id(1) * turns + turn) * ROWS + tl.arange(0, ROWS)
            h1 = tl.dot(tl.load(x + row[:, None] * 64 + i64[None, :]), w1, input_precision=PRECISION)
            h2 = tl.dot(tl.maximum(h1, 0.0), w2, input_precision=PRECISION)
            scores = tl.dot(tl.maximum(h2, 0.0), w3, input_precision=PRECISION)
            scores = tl.where(i16[None, :] < 7, scores, float("-inf"))
            found += tl.histogram(tl.load(y + row) + tl.argmax(scores, axis=1, tie_break_left=True), 64)
        tl.atomic_add(counts + network * 64 + i64, found, sem="relaxed")


class FusedConfusion:
    """Confusion matrices of many networks on one set of labelled rows, on a GPU; see `mlp.Confusion`.

    Args:
        features: X, shape (m, 54), standardised.
        labels: the true classes 0..6, shape (m,).
        device: a CUDA device.
        precision: "tf32x3", or "tf32" for a third of the arithmetic and three digits.
    """

    def __init__(self, features: FloatArray, labels: NDArray[Any], device: str, precision: str = "tf32x3") -> None:
        count, wide = features.shape
        self._turns = max(1, min(8, count // (64 * _ROWS)))  # blocks of one program, so that there are programs enough
        self._programs = -(-count // (self._turns * _ROWS))
        x = np.zeros((self._programs * self._turns * _ROWS, _SIZES[0]), dtype=np.float32)
        x[:count, :wide], x[:, wide] = features, 1.0
        y = np.full(len(x), 49, dtype=np.int32)  # rows that fill up the last program: bins that nobody reads
        y[:count] = 7 * np.asarray(labels)
        self._x, self._y = (torch.as_tensor(a, device=device) for a in (x, y))
        self._order = torch.as_tensor(_places(), device=device)
        self._device, self._precision = device, precision

    def __call__(self, theta: FloatArray) -> NDArray[np.int64]:
        """c[j, t, p]: how many rows of class t network j takes for class p; (n, d) -> (n, 7, 7)."""
        parts = [self._some(theta[k : k + _AT_ONCE]) for k in range(0, len(theta), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.zeros((0, 7, 7), dtype=np.int64)

    def _some(self, theta: FloatArray) -> NDArray[np.int64]:
        constants = np.tile(np.array([0.0, 1.0]), (len(theta), 1))
        numbers = np.hstack([theta, constants]).astype(np.float32)
        packed: Tensor = torch.as_tensor(numbers, device=self._device)[:, self._order]
        counts = torch.zeros((len(theta), _BINS), dtype=torch.int32, device=self._device)
        grid = (len(theta), self._programs)
        _count[grid](self._x, self._y, packed, counts, self._turns, ROWS=_ROWS, PRECISION=self._precision)
        found: NDArray[np.int64] = counts[:, :49].cpu().numpy().astype(np.int64).reshape(-1, 7, 7)
        return found


def _places() -> NDArray[np.int64]:
    """Where each entry of W1', W2' and W3' stands in [theta, 0, 1]."""
    from fzoos_experiments.tasks.mlp import DIM, LAYERS

    zero, one, start, places = DIM, DIM + 1, 0, []
    for layer, ((narrow, wide), (columns, rows)) in enumerate(zip(pairwise(LAYERS), pairwise(_SIZES), strict=True)):
        place = np.full((rows, columns), zero)
        place[:wide, :narrow] = start + np.arange(wide * narrow).reshape(wide, narrow)
        place[:wide, narrow] = start + wide * narrow + np.arange(wide)
        if layer < 2:
            place[wide, narrow] = one  # the one in front of the next layer
        places.append(place.ravel())
        start += wide * (narrow + 1)
    return np.concatenate(places)
