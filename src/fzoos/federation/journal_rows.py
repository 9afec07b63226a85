"""The rows of a journal, their links, and marks in it."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.sqlite import link_of

__all__ = ["CHAINED", "Mark", "Query", "Request", "has_been_at", "is_as_written", "odd_name", "query_of"]

CHAINED = {  # the columns of each table that are part of its links
    "requests": ("digest", "body"),
    "queries": ("request", "round", "step", "purpose", "x", "y", "c", "error", "asked"),
    "replies": ("request", "body", "generator"),
}

Mark = dict[str, tuple[int, bytes]]
"""A place in a journal: the number of rows of each table, and the link of the last one."""


@dataclass(frozen=True)
class Request:
    """A request in the journal, and its reply, if there is one yet."""

    id: int
    body: bytes
    replied: bool
    reply: bytes | None  # None though replied: the server continued without a reply
    generator: dict[str, Any]  # the state of the random generator after the reply


@dataclass(frozen=True)
class Query:
    """A query in the journal."""

    x: FloatArray
    y: float | None
    round: int
    step: int
    purpose: str
    c: FloatArray | None = None  # values of constraints

    @property
    def values(self) -> FloatArray:
        """f, shape (1,), or f and c, shape (1, 1 + k)."""
        y = np.array([np.nan if self.y is None else self.y])
        return y if self.c is None else np.concatenate([y, self.c])[None]


def query_of(x: bytes, y: float | None, c: bytes | None, odd: str | None, round: int, step: int, purpose: str) -> Query:
    """A query from a row without an error; `odd` is the name of a y that SQLite cannot store."""
    value = float(odd) if y is None and odd is not None else y
    constraints = None if c is None else np.frombuffer(c, "<f8")
    return Query(np.frombuffer(x, "<f8"), value, round, step, purpose, constraints)


def odd_name(value: float) -> str | None:
    """The name of a number that SQLite would return as another one."""
    if math.isnan(value):
        return "nan"
    return "-0.0" if value == 0.0 and math.copysign(1.0, value) < 0.0 else None


def has_been_at(db: sqlite3.Connection, mark: Mark) -> bool:
    """Whether a journal has the rows of a mark: their links are digests of all rows before them."""
    if mark.keys() != CHAINED.keys():
        return False
    try:
        found = [
            db.execute(f"SELECT link FROM {table} WHERE id = ?", (count,)).fetchone() == (link,) or not count
            for table, (count, link) in mark.items()
        ]
    except (sqlite3.Error, OverflowError):
        return False
    return all(found)


def is_as_written(db: sqlite3.Connection, request: int) -> bool:
    """Whether a request and its reply are unchanged, by their own links."""
    replies = db.execute("SELECT id FROM replies WHERE request = ?", (request,)).fetchall()
    for table, id in [("requests", request), *(("replies", id) for (id,) in replies)]:
        text = f"SELECT link, {', '.join(CHAINED[table])} FROM {table} WHERE id = ?"
        before = db.execute(f"SELECT link FROM {table} WHERE id = ?", (id - 1,)).fetchone() or (b"",)
        link, *row = db.execute(text, (id,)).fetchone()
        if not isinstance(before[0], bytes) or link != link_of(before[0], row):
            return False
    return True
