"""Digests of rows of a database, alone or linked to the row before."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

__all__ = ["link_of"]


def link_of(before: bytes, row: Iterable[Any]) -> bytes:
    """SHA-256 over the row before and this one, each value with its type and length.

    Args:
        before: the link of the row before; empty for the first one, and for a row that stands alone.
        row: its values, as SQLite gives them.

    Example:
        >>> from fzoos._util.links import link_of
        >>> link_of(b"", [1, "a"]) == link_of(b"", ["1", "a"])
        False
    """
    digest = hashlib.sha256(before)
    for value in row:
        if isinstance(value, float):
            data = struct.pack("<d", value)
        elif isinstance(value, bytes):
            data = value
        else:
            data = repr(value).encode()
        digest.update(struct.pack("<cQ", type(value).__name__[0].encode(), len(data)))
        digest.update(data)
    return digest.digest()
