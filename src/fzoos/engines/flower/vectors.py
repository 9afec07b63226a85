"""Shared by both sides of secure aggregation: the arrays of a reply as one bounded vector, and back.

SecAgg+ adds integers modulo 2^32. A number v in [-1, 1] becomes one of 2^k + 1 integers, drawn from the two
nearest ones so that the mean is exact; n clients fit if n (2^k + 1) < 2^32. The average is then off by less than
2^(1-k): for up to three clients k = 30, an error below 2e-9 of an array's range.

    symbol   meaning
    n        number of clients that take part
    k        bits of a quantised number
    R        bound of an array: its numbers must lie in [-R, R]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Arrays

__all__ = ["CUBE", "MODULUS", "WEIGHT", "Layout", "levels"]

MODULUS = 2**32
WEIGHT = 2**30  # the largest weight, as the integer that SecAgg+ needs
CUBE = 2.0  # the bound of x: the unit cube, with room for algorithms that may leave it a little


@dataclass(frozen=True)
class Layout:
    """Names, lengths and bounds of the arrays in a vector."""

    names: tuple[str, ...]  # the names of the arrays
    lengths: tuple[int, ...]  # the number of entries of each array
    bound: float  # R of every array but x
    cube: float = CUBE  # R of x, which lies in the unit cube, except for noise

    @classmethod
    def of(cls, arrays: Arrays, bound: float, cube: float = CUBE) -> Layout:
        """Return the layout of a message's arrays, in the order of their names."""
        for name, array in arrays.items():
            if array.ndim != 1:
                raise ValueError(f"array {name!r} has shape {array.shape}, secure aggregation adds vectors")
        names = tuple(sorted(arrays))
        return cls(names, tuple(len(arrays[name]) for name in names), float(bound), float(cube))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Return the layout that `text` describes; raise a `ValueError` if it describes none."""
        bounds, arrays = text.split(";")
        bound, cube = bounds.split(",")
        names, lengths = zip(*(item.split("=") for item in arrays.split(",")), strict=True)
        return cls(names, tuple(int(length) for length in lengths), float(bound), float(cube))

    def text(self) -> str:
        """Return the layout as it is sent."""
        arrays = (f"{name}={length}" for name, length in zip(self.names, self.lengths, strict=True))
        return f"{self.bound!r},{self.cube!r};{','.join(arrays)}"

    @property
    def length(self) -> int:
        """The length of the vector."""
        return sum(self.lengths)

    def join(self, arrays: Arrays) -> FloatArray:
        """Return one vector with entries in [-1, 1]; raise for an array beyond its bound, which would be clipped."""
        for name in self.names:
            if np.max(np.abs(arrays[name]), initial=0.0) > self._bound(name):
                raise ValueError(f"array {name!r} leaves [-{self._bound(name):g}, {self._bound(name):g}]")
        return np.concatenate([arrays[name] / self._bound(name) for name in self.names])

    def split(self, vector: FloatArray) -> dict[str, FloatArray]:
        """Return the arrays of a vector."""
        parts = np.split(vector, np.cumsum(self.lengths)[:-1])
        return {name: part * self._bound(name) for name, part in zip(self.names, parts, strict=True)}

    def _bound(self, name: str) -> float:
        return self.cube if name == "x" else self.bound


def levels(clients: int) -> int:
    """Return 2^k for a number of clients."""
    k = 30
    while clients * ((1 << k) + 1) >= MODULUS:
        k -= 1
    return 1 << k
