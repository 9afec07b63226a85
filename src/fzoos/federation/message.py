"""Messages: named arrays and scalars that know their size in bytes. Data, never code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fzoos.arrays import FloatArray

__all__ = ["Arrays", "Kind", "Message", "average"]

Arrays = Mapping[str, FloatArray]
Kind = Literal["refresh", "update", "payload", "iterate"]


@dataclass(frozen=True)
class Message:
    """One message between the server and a client.

    Args:
        kind: "refresh" and "update" are the server's requests, "payload" and "iterate" the client's replies to them.
        round: the round it belongs to.
        arrays: what is sent, float64.
        scalars: numbers sent beside the arrays, 8 bytes each.

    Example:
        >>> import numpy as np
        >>> from fzoos.federation.message import Message
        >>> Message("update", 1, {"x": np.zeros(300)}, {"seed": 7}).nbytes
        2408
    """

    kind: Kind
    round: int
    arrays: Arrays = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of content; the kind, the round and a transport's framing are not counted."""
        return sum(array.nbytes for array in self.arrays.values()) + 8 * len(self.scalars)


def average(parts: Sequence[Arrays], weights: FloatArray) -> dict[str, FloatArray]:
    """sum_i omega_i part_i for every named array, the weights renormalised over those who answered."""
    weights = weights / weights.sum()
    return {name: _mean(np.stack([part[name] for part in parts]), weights) for name in parts[0]}


def _mean(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The weighted mean over the first axis; rounding never takes it out of the values' range, nor x out of the box."""
    return np.clip(np.tensordot(weights, values, axes=1), values.min(axis=0), values.max(axis=0))
