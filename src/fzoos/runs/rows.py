"""What the columns of a file of runs hold, and the way back."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.result import Record

__all__ = ["array_of", "bytes_of", "finite", "record_of", "storable_text"]


def record_of(row: tuple[Any, ...]) -> Record:
    """A round, from its row."""
    names = ("round", "queries", "bytes_up", "bytes_down", "seconds", "step", "monitor")
    per_client = json.loads(row[8])
    return Record(
        **dict(zip(names, row, strict=False)),
        diagnostics={name: _number(value) for name, value in json.loads(row[7]).items()},
        queries_per_client=tuple(per_client["queries"]),
        distances=tuple(per_client["distances"]),
        failed=per_client.get("failed", 0),
        feasible=per_client.get("feasible"),
        cut=per_client.get("cut", 0),
        arrivals=tuple(map(tuple, per_client.get("arrivals", ()))),
        violation=per_client.get("violation"),
    )


def finite(value: float) -> float | None:
    """The number, or None for what JSON cannot hold."""
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def storable_text(words: str) -> str:
    """Text, perhaps of an exception, without the surrogates that SQLite cannot store."""
    return words.encode("utf-8", "backslashreplace").decode()


def array_of(body: bytes) -> FloatArray:
    """Numbers, from their bytes."""
    return np.frombuffer(body, "<f8").astype(np.float64)


def bytes_of(x: FloatArray) -> bytes:
    """Numbers as the bytes that are stored."""
    return np.ascontiguousarray(x, "<f8").tobytes()
