"""Runs in a list: what each has reached and cost, without its rounds."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from fzoos._util.processes import is_gone

__all__ = ["Summary", "summaries_of"]


@dataclass(frozen=True)
class Summary:
    """A run in a list: id, name, when it began (seconds since 1970), status, and what it has reached and cost.

    `feasible` is that of the result: whether x meets the constraints of all clients.
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
    feasible: bool | None = None
    tags: tuple[str, ...] = ()


def summaries_of(db: sqlite3.Connection, run: int | None = None) -> list[Summary]:
    """Those of all runs, the oldest first, or of one; a run whose process is gone is not running.

    Args:
        db: a file of runs.
        run: the id of the only one that is read; None: all.
    """
    last = "FROM rounds WHERE run = runs.id ORDER BY round DESC LIMIT 1"
    text = (
        "SELECT id, name, started, status, host, pid, bytes_up + bytes_down, seconds, queries, tags, "
        f"(SELECT count(*) FROM rounds WHERE run = runs.id), (SELECT monitor {last}), (SELECT clients {last}) "
        "FROM runs WHERE ? IS NULL OR id = ? ORDER BY id"
    )
    found = []
    for row in db.execute(text, (run, run)):
        id, name, started, status, host, pid, total, seconds, queries, tags, rounds, monitor, clients = row
        status = "interrupted" if status == "running" and is_gone(host, pid) else status
        cost = sum(json.loads(queries)), total, seconds
        last_round = monitor, _feasible(clients)
        found.append(Summary(id, name, started, status, rounds, *cost, *last_round, tuple(json.loads(tags))))
    return found


def _feasible(clients: str | None) -> bool | None:
    """As the last round says; a list is shown even where that cannot be read."""
    try:
        found = json.loads(clients or "{}").get("feasible")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, bool) else None
