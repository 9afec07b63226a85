"""What rows of a journal hold: requests, and queries with their values and constraints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray

__all__ = ["Query", "Request", "odd_name", "query_of"]


@dataclass(frozen=True)
class Request:
    """A request in the journal, and what was replied, if anything was yet."""

    id: int
    body: bytes
    replied: bool
    reply: bytes | None  # None though replied: the server had gone on without an answer
    generator: dict[str, Any]  # the random generator's state after the reply


@dataclass(frozen=True)
class Query:
    """A query in the journal."""

    x: FloatArray
    y: float | None
    round: int
    step: int
    purpose: str
    c: FloatArray | None = None  # constraints, if the objective has any

    @property
    def values(self) -> FloatArray:
        """f, shape (1,), or f and c, shape (1, 1 + k)."""
        y = np.array([np.nan if self.y is None else self.y])
        return y if self.c is None else np.concatenate([y, self.c])[None]


def query_of(numbers: FloatArray, y: float, round: int, step: int, purpose: str) -> Query:
    """From a row, in which constraints may follow x."""
    purpose, _, count = purpose.partition("+")
    if not count:
        return Query(numbers, y, round, step, purpose)
    return Query(numbers[: -int(count)], y, round, step, purpose, numbers[-int(count) :])


def odd_name(value: float) -> str | None:
    """The name of a number that SQLite would give back as another one."""
    if math.isnan(value):
        return "nan"
    return "-0.0" if value == 0.0 and math.copysign(1.0, value) < 0.0 else None
