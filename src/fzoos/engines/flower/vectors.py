"""Shared by both sides of secure aggregation: how the arrays of a reply become one bounded vector, and the way back.

SecAgg+ adds integers modulo 2^32. A number v in [-1, 1] becomes one of 2^k + 1 integers, chosen at random between the
two next to it so that the mean is right; n clients fit if n (2^k + 1) < 2^32. The average is then off by less than
2^(1-k): for up to three clients k = 30, an error below 2e-9 of an array's range.

    symbol   meaning
    n        clients that take part
    k        bits of a quantised number
    R        range of an array: its numbers must lie in [-R, R]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Arrays

__all__ = ["CUBE", "MODULUS", "WEIGHT", "Layout", "levels"]

MODULUS = 2**32
WEIGHT = 2**30  # the heaviest client's weight, as the integer that SecAgg+ wants
CUBE = 2.0  # the range of x: the unit cube, with room for algorithms that may leave it a little


@dataclass(frozen=True)
class Layout:
    """Names, lengths and ranges of the arrays in a vector.

    Args:
        names: the names of the arrays.
        lengths: the number of entries of each array.
        reach: R of every array but x.
        cube: R of x, which lies in the unit cube, but for noise.

    Example:
        >>> import numpy as np
        >>> from fzoos.engines.flower.vectors import Layout
        >>> arrays = {"x": np.array([0.5, 1.0]), "c": np.array([-30.0])}
        >>> layout = Layout.of(arrays, reach=100.0)
        >>> layout.text()
        '100.0,2.0;c=1,x=2'
        >>> layout.join(arrays)
        array([-0.3 ,  0.25,  0.5 ])
        >>> Layout.parse("100.0,2.0;c=1,x=2").split(layout.join(arrays))
        {'c': array([-30.]), 'x': array([0.5, 1. ])}
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    reach: float
    cube: float = CUBE

    @classmethod
    def of(cls, arrays: Arrays, reach: float, cube: float = CUBE) -> Layout:
        """The layout of a message's arrays, in the order of their names."""
        for name, array in arrays.items():
            if array.ndim != 1:
                raise ValueError(f"array {name!r} has shape {array.shape}, secure aggregation adds vectors")
        names = tuple(sorted(arrays))
        return cls(names, tuple(len(arrays[name]) for name in names), float(reach), float(cube))

    @classmethod
    def parse(cls, text: str) -> Layout:
        """The layout that `text` describes; a `ValueError` if it describes none."""
        ranges, arrays = text.split(";")
        reach, cube = ranges.split(",")
        names, lengths = zip(*(item.split("=") for item in arrays.split(",")), strict=True)
        return cls(names, tuple(int(length) for length in lengths), float(reach), float(cube))

    def text(self) -> str:
        """The layout as it travels."""
        arrays = (f"{name}={length}" for name, length in zip(self.names, self.lengths, strict=True))
        return f"{self.reach!r},{self.cube!r};{','.join(arrays)}"

    @property
    def length(self) -> int:
        """Of the whole vector."""
        return sum(self.lengths)

    def join(self, arrays: Arrays) -> FloatArray:
        """One vector with entries in [-1, 1]; an array beyond its range is an error, since it would be cut silently."""
        for name in self.names:
            if np.max(np.abs(arrays[name]), initial=0.0) > self._range(name):
                raise ValueError(f"array {name!r} leaves [-{self._range(name):g}, {self._range(name):g}]")
        return np.concatenate([arrays[name] / self._range(name) for name in self.names])

    def split(self, vector: FloatArray) -> dict[str, FloatArray]:
        """The arrays of a vector."""
        parts = np.split(vector, np.cumsum(self.lengths)[:-1])
        return {name: part * self._range(name) for name, part in zip(self.names, parts, strict=True)}

    def _range(self, name: str) -> float:
        return self.cube if name == "x" else self.reach


def levels(clients: int) -> int:
    """2^k for so many clients.

    Example:
        >>> from math import log2
        >>> from fzoos.engines.flower.vectors import levels
        >>> [log2(levels(n)) for n in (2, 3, 4, 10, 1000)]
        [30.0, 30.0, 29.0, 28.0, 22.0]
    """
    k = 30
    while clients * ((1 << k) + 1) >= MODULUS:
        k -= 1
    return 1 << k
