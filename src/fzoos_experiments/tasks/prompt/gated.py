"""The first half of a Llama's feed-forward part as one GPU kernel: two matrix products and the gate between them.

    y = silu(x G^T) * (x U^T),    x (m, w), G and U (inner, w), one below the other in one matrix

Apart, the products write 2 inner numbers for each row, which the gate reads again: that takes half as long as the
products themselves. Here a program has a tile of both products in registers, and only y is written.
"""

from __future__ import annotations

from fzoos_experiments.tasks.models import Tensor

try:
    import triton
    from triton import language as tl
except ImportError:  # PyTorch for CUDA brings it along; without it the products and the gate are PyTorch's
    triton = tl = None

__all__ = ["gated", "is_available"]

_ROWS, _COLUMNS, _DEPTH = 128, 128, 64  # of a tile: rows of x, columns of each product, numbers of a row at a time
_NEIGHBOURS = 8  # tiles of rows that are worked on together, so that they share what they read of the matrix


def is_available(width: int, inner: int) -> bool:
    """Whether the kernel can be built here, for matrices of some width and height: they must be whole tiles."""
    return triton is not None and width % _DEPTH == 0 and inner % _COLUMNS == 0


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _gated(  # type: ignore[no-untyped-def]
        x,
        matrix,
        y,
        count,
        WIDTH: tl.constexpr,
        INNER: tl.constexpr,
        ROWS: tl.constexpr,
        COLUMNS: tl.constexpr,
        DEPTH: tl.constexpr,
        NEIGHBOURS: tl.constexpr,
    ):
        across: tl.constexpr = INNER // COLUMNS
        group = tl.program_id(0) // (NEIGHBOURS * across)
        size = min(tl.cdiv(count, ROWS) - group * NEIGHBOURS, NEIGHBOURS)
        place = tl.program_id(0) % (NEIGHBOURS * across)
        row = (group * NEIGHBOURS + place % size) * ROWS + tl.arange(0, ROWS)
        column = place // size * COLUMNS + tl.arange(0, COLUMNS)
        k = tl.arange(0, DEPTH)
        mine = x + (row % count).to(tl.int64)[:, None] * WIDTH + k[None, :]  # beyond the last row: again from the first
        gates = matrix + column[None, :] * WIDTH + k[:, None]
        gate, up = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS, COLUMNS), tl.float32)
        for start in range(0, WIDTH, DEPTH):
            some = tl.load(mine + start)
            gate = tl.dot(some, tl.load(gates + start), gate)
            up = tl.dot(some, tl.load(gates + INNER * WIDTH + start), up)
        found = (gate * tl.sigmoid(gate) * up).to(y.dtype.element_ty)
        tl.store(y + row.to(tl.int64)[:, None] * INNER + column[None, :], found, mask=(row < count)[:, None])


def gated(x: Tensor, matrix: Tensor) -> Tensor:
    """silu(x G^T) * (x U^T), (..., w) -> (..., inner).

    Args:
        x: the rows, one after another in memory.
        matrix: G above U, (2 inner, w).
    """
    width, inner = x.shape[-1], len(matrix) // 2
    y = x.new_empty(*x.shape[:-1], inner)
    count = x.numel() // width
    grid = (-(-count // _ROWS) * (inner // _COLUMNS),)
    tile = {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "DEPTH": _DEPTH, "NEIGHBOURS": _NEIGHBOURS}
    _gated[grid](x, matrix, y, count, WIDTH=width, INNER=inner, **tile, num_warps=8, num_stages=3)
    return y
