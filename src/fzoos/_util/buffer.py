"""Matrices to which rows are appended."""

from __future__ import annotations

from fzoos._util.arrays import Array, device_of, namespace

__all__ = ["Buffer"]


class Buffer:
    """A matrix that grows at its lower right corner without being copied each time.

    The first block gets storage of its size, later storage has room for twice what is in it: all copies together are
    at most as large as the final matrix. Rows of NumPy arrays that have not been written to take no memory.

    Args:
        like: an array of the same namespace and device.
        columns: fixed number of columns, or None for a square matrix that grows in both directions.

    Attributes:
        rows: the number of rows.
        array: the matrix: a view, valid until the next growth.
    """

    array: Array

    def __init__(self, like: Array, columns: int | None = None) -> None:
        self._columns = columns
        self.rows = 0
        self._storage = namespace(like).zeros((0, columns or 0), dtype=like.dtype, device=device_of(like))
        self.array = self._storage

    def grow(self, rows: int) -> Array:
        """Add `rows` rows (and columns, if square) of zeros; return the whole matrix."""
        old, first = self._storage, not self.rows
        self.rows += rows
        if self.rows > old.shape[0]:
            capacity = self.rows if first else 2 * self.rows
            shape = (capacity, self._columns or capacity)
            self._storage = namespace(old).zeros(shape, dtype=old.dtype, device=device_of(old))
            self._storage[: old.shape[0], : old.shape[1]] = old
        self.array = self._storage[: self.rows, : self._columns or self.rows]
        return self.array

    def append(self, rows: Array) -> None:
        """Add rows to a matrix of fixed width."""
        first = self.rows
        self.grow(rows.shape[0])[first:, :] = rows

    def load(self, array: Array) -> None:
        """Replace the whole matrix."""
        self._storage = self.array = array
        self.rows = array.shape[0]
