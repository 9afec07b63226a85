"""Runs in a list: what each has reached and cost, without its rounds."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from fzoos._util.processes import is_gone

__all__ = ["Summary", "summaries_of"]


@dataclass(frozen=True)
class Summary:
    """A run in a list: id, name, when it began (seconds since 1970), status, and what it has reached and cost."""

    id: int
    name: str
    started: float
    status: str
    rounds: int
    queries: int
    bytes: int
    seconds: float
    monitor: float | None


def summaries_of(db: sqlite3.Connection, run: int | None = None) -> list[Summary]:
    """Those of all runs, the oldest first, or of one; a run whose process is gone is not running.

    Args:
        db: a file of runs.
        run: the id of the only one that is read; None: all.
    """
    text = (
        "SELECT id, name, started, status, host, pid, bytes_up + bytes_down, seconds, queries, "
        "(SELECT count(*) FROM rounds WHERE run = runs.id), "
        "(SELECT monitor FROM rounds WHERE run = runs.id ORDER BY round DESC LIMIT 1) FROM runs "
        "WHERE ? IS NULL OR id = ? ORDER BY id"
    )
    found = []
    for id, name, started, status, host, pid, total, seconds, queries, rounds, monitor in db.execute(text, (run, run)):
        status = "interrupted" if status == "running" and is_gone(host, pid) else status
        found.append(Summary(id, name, started, status, rounds, sum(json.loads(queries)), total, seconds, monitor))
    return found
