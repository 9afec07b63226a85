"""The rows of a file of runs as Python objects, and numbers and text as SQLite stores them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.result import Record, Result

__all__ = [
    "LONGEST_NAME",
    "LONGEST_TAG",
    "MOST_TAGS",
    "StoredRun",
    "Summary",
    "array_of",
    "bytes_of",
    "checked_name",
    "checked_tags",
    "client_columns",
    "plain",
    "record_of",
    "storable_text",
]

LONGEST_NAME = 200  # characters
LONGEST_TAG = 60  # characters
MOST_TAGS = 20  # of a run


@dataclass(frozen=True)
class Summary:
    """A run in a list: what it is, what it has reached and what it has cost.

    Attributes:
        id: its number in the file.
        name: its name.
        started: when it began, in seconds since 1970.
        status: as in `Result`.
        rounds: complete rounds.
        queries: queries of all clients.
        bytes: bytes up and down.
        seconds: how long it has taken.
        monitor: F(x) after the last round, if it is known.
        feasible: whether that x meets the constraints of all clients.
        tags: labels that users have given it.
        start: F(x0), if there was a monitor.
        minimum: F*, the smallest value of F, if the task knows it.
        task: what was minimised, the same text for all seeds; empty if it is not known.
    """

    id: int
    name: str
    started: float
    status: str
    rounds: int
    queries: int
    bytes: int
    seconds: float
    monitor: float | None
    feasible: bool | None
    tags: tuple[str, ...]
    start: float | None
    minimum: float | None
    task: str


@dataclass(frozen=True)
class StoredRun:
    """A run with everything that its file has of it, apart from x after each round and the values of the queries."""

    path: Path  # the file
    summary: Summary  # the run's row in a list of runs
    settings: dict[str, Any]  # the settings it was started with
    result: Result  # the run's result so far
    failures: list[tuple[int, int, str]]  # round, client and reason of each reply that did not come
    extra: dict[str, Any]  # epsilon and delta, if it was private

    @property
    def name(self) -> str:
        """FILE:ID, by which commands find the run."""
        return f"{self.path}:{self.summary.id}"

    @property
    def clients(self) -> list[str]:
        """The names of all clients."""
        return [self.client(i) for i in range(len(self.result.queries_per_client))]

    def client(self, index: int) -> str:
        """The name of a client: that of its site, in a study."""
        sites = self.settings.get("sites")
        return str(sites[index]) if isinstance(sites, list) and 0 <= index < len(sites) else f"client {index}"


def record_of(row: Sequence[Any]) -> Record:
    """The record of a round, from the columns `round` to `clients` of its row."""
    names = ("round", "queries", "bytes_up", "bytes_down", "seconds", "step", "monitor")
    per_client = json.loads(row[8])
    return Record(
        **dict(zip(names, row, strict=False)),
        diagnostics={name: math.nan if value is None else value for name, value in json.loads(row[7]).items()},
        queries_per_client=tuple(per_client["queries"]),
        distances=tuple(per_client["distances"]),
        failed=per_client.get("failed", 0),
        feasible=per_client.get("feasible"),
        cut=per_client.get("cut", 0),
        arrivals=tuple(map(tuple, per_client.get("arrivals", ()))),
        violation=per_client.get("violation"),
    )


def client_columns(record: Record) -> str:
    """What a record says of the clients, as JSON; what is zero, empty or not known is left out."""
    optional = plain({"feasible": record.feasible, "violation": record.violation})
    optional |= {name: getattr(record, name) or None for name in ("failed", "cut", "arrivals")}
    known = {name: value for name, value in optional.items() if value is not None}
    return json.dumps({"queries": record.queries_per_client, "distances": record.distances} | known)


def plain(value: Any) -> Any:
    """The same as the lists, numbers and text that JSON has; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def checked_name(name: Any) -> str:
    """A name as it is stored: on one line, without spaces around it."""
    text = " ".join(storable_text(name).split()) if isinstance(name, str) else ""
    if not text.isprintable() or not 0 < len(text) <= LONGEST_NAME:
        raise ValueError(f"name must have 1 to {LONGEST_NAME} printable characters, got {name!r}")
    return text


def checked_tags(tags: Iterable[Any]) -> tuple[str, ...]:
    """Tags as they are stored: without spaces around them, in order, each once."""
    tags = list(tags)
    if not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"tags must be strings, got {tags!r}")
    found = tuple(sorted({" ".join(storable_text(tag).split()) for tag in tags}))
    if len(found) > MOST_TAGS:
        raise ValueError(f"tags must be at most {MOST_TAGS}, got {len(found)}")
    for tag in found:
        if not tag.isprintable() or not 0 < len(tag) <= LONGEST_TAG:
            raise ValueError(f"a tag must have 1 to {LONGEST_TAG} printable characters, got {tag!r}")
    return found


def storable_text(words: str) -> str:
    """Text, perhaps of an exception, without the surrogates that SQLite cannot store."""
    return words.encode("utf-8", "backslashreplace").decode()


def array_of(body: bytes) -> FloatArray:
    """An array, from its bytes."""
    return np.frombuffer(body, "<f8").astype(np.float64)


def bytes_of(x: FloatArray) -> bytes:
    """The bytes of an array."""
    return np.ascontiguousarray(x, "<f8").tobytes()
