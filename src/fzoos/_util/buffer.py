"""Matrices that grow."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

from array_api_compat import is_numpy_array

from fzoos._util.arrays import Array, device_of, namespace, stack
from fzoos._util.together import together

__all__ = ["Buffer"]

_LONG = 4  # times the room there is: who reserves wants few copies, and room that is not touched takes no memory


class Buffer:
    """A matrix that grows at its lower right corner without copying what is there each time.

    The storage grows by a quarter when it is full: all copies together are a few times the final size, and a square
    matrix takes at most 1.6 times its room. NumPy's of fixed width grow by a half: rows that are not touched take no
    memory. On a device, clients in step have theirs in one block, so that to join them needs no copy.

    Args:
        like: an array of the same namespace and device.
        columns: fixed number of columns, or None for a square matrix that grows in both directions.

    Attributes:
        rows: how many there are.
        array: the matrix so far: a view, valid until the next growth.
    """

    array: Array

    def __init__(self, like: Array, columns: int | None = None) -> None:
        self._columns = columns
        self.rows = 0
        self._storage = namespace(like).zeros((0, 0), dtype=like.dtype, device=device_of(like))
        self._enlarge(16)
        self.array = self._storage[:0, : 0 if columns is None else columns]

    @property
    def _lazy(self) -> bool:
        """Whether rows that are not touched take no memory."""
        return self._columns is not None and is_numpy_array(self._storage)

    def _enlarge(self, capacity: int) -> None:
        old, shape = self._storage, (capacity, capacity if self._columns is None else self._columns)
        self._storage = _enlarged(old, shape) if is_numpy_array(old) else together(_enlarged, old, shape)

    def grow(self, rows: int) -> Array:
        """Make room for `rows` more rows (and columns, if square) of zeros; return the whole matrix."""
        self.rows += rows
        now = self._storage.shape[-2]
        if self.rows > now:
            self._enlarge(max(self.rows, now * 3 // 2 if self._lazy else now * 5 // 4))
        self._look()
        return self.array

    def reserve(self, rows: int) -> None:
        """See to it that it can grow by so many rows where it is, and then for long."""
        if self.rows + rows > self._storage.shape[-2]:
            self._enlarge(max(self.rows + rows, _LONG * self._storage.shape[-2]))

    def beyond(self, rows: int) -> Array:
        """The place of the next rows, for which there must be room."""
        return self._storage[..., self.rows : self.rows + rows, :]

    def append(self, rows: Array) -> None:
        """Add rows to a matrix of fixed width."""
        first = self.rows
        self.grow(len(rows))[..., first:, :] = rows

    def _look(self) -> None:
        rows = self.rows
        self.array = self._storage[..., :rows, :rows] if self._columns is None else self._storage[..., :rows, :]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and what there is room for: buffers that agree in it can be joined."""
        return self.rows, *self._storage.shape

    @classmethod
    def joined(cls, buffers: Sequence[Self]) -> Self:
        """Buffers of one shape as one whose matrix has an axis more in front; what comes of it, `hand_back` tells."""
        whole = copy(buffers[0])
        whole._storage, _ = stack([buffer._storage for buffer in buffers])
        whole._look()
        return whole

    def hand_back(self, buffers: Sequence[Self]) -> None:
        """Let each have its part of what they were joined to."""
        for buffer, storage in zip(buffers, self._storage, strict=True):
            buffer._storage, buffer.rows = storage, self.rows
            buffer._look()


def _enlarged(old: Array, shape: tuple[int, int]) -> Array:
    """A matrix of zeros with the old one in its upper left corner."""
    new = namespace(old).zeros((*old.shape[:-2], *shape), dtype=old.dtype, device=device_of(old))
    rows, columns = old.shape[-2:]
    new[..., :rows, :columns] = old
    return new
