"""A small multilayer perceptron, evaluated for many parameter vectors together.

=========  ==================  ==========================================================================
symbol     shape               meaning
=========  ==================  ==========================================================================
n, m       scalar              parameter vectors, rows of data
d          scalar              parameters: 2189 for the layers 54-30-14-7
theta      (n, d)              parameter vectors: W1, b1, W2, b2, W3, b3, each matrix row by row
W_l, b_l   (n, out, in), ...   weights and biases of layer l, as PyTorch's `Linear` has them
X          (m, 54)             standardised features
=========  ==================  ==========================================================================

The network is h1 = relu(W1 x + b1), h2 = relu(W2 h1 + b2), logits = W3 h2 + b3, and predicts the class of the largest
logit (of equal ones, the first). The order of the parameters is that of `torch.nn.utils.parameters_to_vector` for the
same network made of `torch.nn.Linear`.

`Confusion` stores the data as columns. The first layer of all n networks is one matrix product (30 n, 54) by (54, m),
and the other two are batched products whose long side is m, in blocks of rows that fit into the cache. The rows are
sorted by their 44 binary columns (wilderness area, soil type), so that most of these are constant in a block: once per
block their contribution to the first layer is added to its bias, and the product runs over the 10 to 15 varying
columns. The sums are the same up to rounding.

A row costs 2 (54 30 + 30 14 + 14 7) = 4276 floating point operations per network, and 2 (14 30 + 30 14 + 14 7) = 1876
with 13 varying columns and the bias: 43 ns and 19 ns at 100 Gflop/s of one core in float32.
`benchmarks/speed/objectives.py` measures the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fzoos._util.arrays import FloatArray
from fzoos_experiments.tasks.models import Tensor, torch

__all__ = ["CLASSES", "DIM", "LAYERS", "Confusion", "logits", "pack", "unpack"]

LAYERS = (54, 30, 14, 7)
"""Features, two hidden layers, classes."""
CLASSES = LAYERS[-1]
DIM = sum(wide * (narrow + 1) for narrow, wide in pairwise(LAYERS))
"""d = 2189."""

_AT_ONCE = 16  # parameter vectors
_BLOCK = {"cpu": 1 << 14, "cuda": 1 << 22}  # rows times parameter vectors: hidden layers of 2 MB, of 500 MB


def pack(weights: list[FloatArray], biases: list[FloatArray]) -> FloatArray:
    """One parameter vector, shape (d,), from the layers' weights, each (out, in), and biases, each (out,).

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.mlp import LAYERS, pack, unpack
        >>> theta = np.arange(2189.0)
        >>> weights, biases = unpack(theta)
        >>> [w.shape for w in weights], [b.shape for b in biases]
        ([(30, 54), (14, 30), (7, 14)], [(30,), (14,), (7,)])
        >>> bool(np.all(pack(weights, biases) == theta))
        True
    """
    return np.concatenate([part.ravel() for layer in zip(weights, biases, strict=True) for part in layer])


def unpack(theta: Any) -> tuple[list[Any], list[Any]]:
    """Weights and biases as views of parameter vectors of NumPy or PyTorch, with the same leading axes.

    Args:
        theta: shape (..., d).

    Returns:
        Weights, each (..., out, in), and biases, each (..., out), as for `pack`.
    """
    if theta.shape[-1] != DIM:
        raise ValueError(f"theta must have d = {DIM} values in its last axis, got shape {tuple(theta.shape)}")
    weights, biases, start = [], [], 0
    for narrow, wide in pairwise(LAYERS):
        middle, end = start + wide * narrow, start + wide * (narrow + 1)
        weights.append(theta[..., start:middle].reshape(*theta.shape[:-1], wide, narrow))
        biases.append(theta[..., middle:end])
        start = end
    return weights, biases


def logits(theta: Any, x: Any) -> Any:
    """The logits of one network, (d,) and (m, 54) -> (m, 7), for training; NumPy's or PyTorch's.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.mlp import logits
        >>> logits(np.zeros(2189), np.ones((3, 54))).shape
        (3, 7)
    """
    weights, biases = unpack(theta)
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = (x @ w.T + b).clip(0.0)
    return x @ weights[-1].T + biases[-1]


@dataclass(frozen=True)
class _Block:
    """A block of rows of the data, as columns."""

    varying: Tensor  # (k,) columns of X that vary in the block
    x: Tensor  # (k + 1, rows) their values, and ones for the bias
    start: Tensor  # (rows,) K times the true class: where its row of the confusion matrix starts


class Confusion:
    """Confusion matrices of many networks on one set of labelled rows.

    Args:
        features: X, shape (m, 54), standardised.
        labels: the true classes 0..6, shape (m,).
        device: a PyTorch device such as "cpu" or "cuda".
        block: rows times parameter vectors per block; None: a size that suits the device.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.mlp import Confusion
        >>> rng = np.random.default_rng(0)
        >>> confusion = Confusion(rng.normal(size=(100, 54)), rng.integers(0, 7, 100))
        >>> counts = confusion(rng.normal(size=(5, 2189)))
        >>> counts.shape, counts.sum(axis=(1, 2))
        ((5, 7, 7), array([100, 100, 100, 100, 100]))

    Deviations: float32, so that the class of a row whose two largest logits agree to about seven digits may differ from
    that in float64.
    """

    def __init__(self, features: ArrayLike, labels: ArrayLike, device: str = "cpu", block: int | None = None) -> None:
        x = np.asarray(features, dtype=np.float32)
        y = np.asarray(labels, dtype=np.int64)
        if x.ndim != 2 or x.shape[1] != LAYERS[0] or not len(x):
            raise ValueError(f"features must have shape (m, {LAYERS[0]}) with m >= 1, got {x.shape}")
        if y.shape != x.shape[:1]:
            raise ValueError(f"labels must have shape {x.shape[:1]} as features has rows, got {y.shape}")
        if y.min() < 0 or y.max() >= CLASSES:
            raise ValueError(f"labels must be classes 0..{CLASSES - 1}, got {y.min()}..{y.max()}")
        order = _by_binary_columns(x)
        self._x, self._y = x[order], y[order]
        self._device = device
        self._block = block or _BLOCK["cuda" if device.startswith("cuda") else "cpu"]
        self._plans: dict[int, tuple[list[_Block], Tensor]] = {}

    def __call__(self, theta: FloatArray) -> NDArray[np.int64]:
        """Count c[j, t, p], the rows of class t that network j predicts as class p; (n, d) -> (n, 7, 7)."""
        if not len(theta):
            return np.zeros((0, CLASSES, CLASSES), dtype=np.int64)
        parts = math.ceil(len(theta) / _AT_ONCE)
        with torch.inference_mode():
            counts = [
                self._count(torch.as_tensor(part, dtype=torch.float32, device=self._device)).cpu().numpy()
                for part in np.array_split(theta, parts)
            ]
        return np.concatenate(counts)

    def _count(self, theta: Tensor) -> Tensor:
        """Count for a few networks, block by block."""
        n = len(theta)
        blocks, constants = self._plan(n)
        (w1, w2, w3), (b1, b2, b3) = unpack(theta)
        first = torch.cat([w1, b1[..., None]], dim=2).reshape(n * LAYERS[1], LAYERS[0] + 1)
        w2, w3, b2, b3 = w2.contiguous(), w3.contiguous(), b2[..., None], b3[..., None]
        biases = first @ constants  # of each block
        start = CLASSES**2 * torch.arange(n, device=theta.device)[:, None]
        counts = torch.zeros(n * CLASSES**2, dtype=torch.int64, device=theta.device)
        for j, block in enumerate(blocks):
            h1 = (torch.cat([first[:, block.varying], biases[:, j : j + 1]], dim=1) @ block.x).relu_()
            h2 = torch.baddbmm(b2, w2, h1.view(n, LAYERS[1], -1)).relu_()
            cells = start + block.start + _largest(torch.baddbmm(b3, w3, h2))
            counts += torch.bincount(cells.view(-1), minlength=len(counts))
        return counts.view(n, CLASSES, CLASSES)

    def _plan(self, n: int) -> tuple[list[_Block], Tensor]:
        """The blocks for n networks, and a matrix (55, blocks) with the constant values of each block in its column."""
        rows = 1 << round(math.log2(max(self._block / n, 1.0)))
        if rows not in self._plans:
            self._plans[rows] = self._make_plan(rows)
        return self._plans[rows]

    def _make_plan(self, rows: int) -> tuple[list[_Block], Tensor]:
        blocks, constants = [], []
        for start in range(0, len(self._x), rows):
            x, y = self._x[start : start + rows], self._y[start : start + rows]
            varying = np.flatnonzero(x.min(axis=0) != x.max(axis=0))
            constant = np.append(x[0], np.float32(1.0))
            constant[varying] = 0.0
            columns = np.vstack([x[:, varying].T, np.ones((1, len(x)), dtype=np.float32)])
            blocks.append(_Block(*(torch.as_tensor(a, device=self._device) for a in (varying, columns, CLASSES * y))))
            constants.append(constant)
        return blocks, torch.as_tensor(np.stack(constants, axis=1), device=self._device)


def _by_binary_columns(x: NDArray[np.float32]) -> NDArray[np.int64]:
    """An order of the rows in which rows with equal values of the binary columns are adjacent."""
    binary = np.all((x == x.min(axis=0)) | (x == x.max(axis=0)), axis=0)
    if not binary.any():
        return np.arange(len(x))
    return np.lexsort(x[:, binary].T)


def _largest(scores: Tensor) -> Tensor:
    """The first class with the largest score in each column, (n, 7, rows) -> (n, rows).

    With M_k the largest score of classes 0..k, it is the number of k with M_k < M_6. On a CPU argmax takes twenty times
    as long, because it is not vectorised over columns.
    """
    so_far = [scores[:, 0]]
    for k in range(1, CLASSES):
        so_far.append(torch.maximum(so_far[-1], scores[:, k]))
    before = (so_far[0] < so_far[-1]).view(torch.int8)
    for highest in so_far[1:-1]:
        before += (highest < so_far[-1]).view(torch.int8)
    return before
