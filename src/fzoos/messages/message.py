"""Messages: named arrays and scalars that know their size in bytes. Data, never code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fzoos._util.arrays import FloatArray
from fzoos.messages.precision import Precision, size

__all__ = ["Arrays", "Kind", "Message"]

Arrays = Mapping[str, FloatArray]
Kind = Literal["refresh", "update", "payload", "iterate", "value", "shared"]


@dataclass(frozen=True)
class Message:
    """One message between the server and a client.

    Args:
        kind: "refresh", "update" and "value" are the server's requests, "payload", "iterate" and "shared" the client's
            replies to them.
        round: the round it belongs to.
        arrays: what is sent: float64, rounded to the precision.
        scalars: numbers sent beside the arrays, 8 bytes each.
        precision: how finely the arrays travel; see `precision.py`.

    Example:
        >>> import numpy as np
        >>> from fzoos.messages.message import Message
        >>> Message("update", 1, {"x": np.zeros(300)}, {"seed": 7}).nbytes
        2408
        >>> Message("update", 1, {"x": np.zeros(300)}, {"seed": 7}, "float32").nbytes
        1208
    """

    kind: Kind
    round: int
    arrays: Arrays = field(default_factory=dict)
    scalars: Mapping[str, float] = field(default_factory=dict)
    precision: Precision = "float64"

    @property
    def nbytes(self) -> int:
        """Bytes of content; the kind, the round and a transport's framing are not counted."""
        return sum(size(array.size, self.precision) for array in self.arrays.values()) + 8 * len(self.scalars)
