"""What a damaged journal holds, and a new journal of what can be recovered.

Every row has the link SHA-256(link of the row before, this row), so that rows are checked one by one: a row is good if
its link fits the row before it, whatever else is damaged.

A recovered journal has every good query. A damaged query is counted but has no value. Requests before the first damage
are as they were. Later ones have no replies, because the client that made those cannot be restored; the next client
still learns from their queries. If the site's seed is damaged, no request has a reply.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.sqlite import link_of, open_readonly, shows_damage
from fzoos.federation.journal import CHAINED, Journal, JournalError, unseal

__all__ = ["JournalReport", "recover", "verify"]

_Row = tuple[Any, ...]


@dataclass(frozen=True)
class JournalReport:
    """What a journal holds."""

    study: str = ""  # the id, empty if it cannot be read
    site: str = ""
    rows: dict[str, int] = field(default_factory=dict)  # the number of good rows per table
    problems: tuple[str, ...] = ()  # descriptions of the damage; none if the journal is intact


class _Reader:
    """The good rows of a journal, and a list of its problems."""

    def __init__(self, path: Path) -> None:
        self.problems: list[str] = []
        self.about: dict[str, str] = {}
        self.rows: dict[str, dict[int, _Row]] = {}
        self.last: dict[str, int] = {}
        if not path.is_file():
            raise JournalError(f"there is no journal at {path}")
        try:
            with closing(open_readonly(path)) as db:
                self._read(db)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if not shows_damage(error):
                raise JournalError(
                    f"{path} cannot be read here ({error}), damaged or not: copy it, and the files beside it whose "
                    "names begin with its name, to a folder that can be written"
                ) from None
            self.problems.append(f"the file is not a database: {error}")

    def _read(self, db: sqlite3.Connection) -> None:
        db.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        db.execute("PRAGMA data_version")  # whether it can be read at all
        try:
            found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
        except sqlite3.Error as error:
            found = str(error)
        if found != "ok":
            self.problems.append(f"the database is damaged: {found.splitlines()[-1]}")
        try:
            self.about = dict(db.execute("SELECT name, value FROM about"))
        except sqlite3.Error as error:
            self.problems.append(f"table about cannot be read: {error}")
        if self.about and unseal(self.about) is None:
            self.problems.append("the site's seed is damaged")
        for table in CHAINED:
            self.rows[table] = dict(self._good_rows(db, table))

    def _good_rows(self, db: sqlite3.Connection, table: str) -> Iterator[tuple[int, _Row]]:
        """Id and values of each row whose link fits the row before it."""
        before: bytes | None = b""
        self.last[table] = self._last_id(db, table)
        text = f"SELECT link, {', '.join(CHAINED[table])} FROM {table} WHERE id = ?"
        for id in range(1, self.last[table] + 1):
            row = None
            with suppress(sqlite3.Error, UnicodeDecodeError, OverflowError):
                row = db.execute(text, (id,)).fetchone()
            if row is None:
                self.problems.append(f"row {id} of {table} cannot be read")
                before = None
                continue
            link, *values = row
            if before is not None and link == link_of(before, values):
                yield id, tuple(values)
            else:
                self.problems.append(f"row {id} of {table} is damaged, or follows a missing row")
            before = link if isinstance(link, bytes) else None  # a flipped bit can make it a text

    def _last_id(self, db: sqlite3.Connection, table: str) -> int:
        try:
            return int(db.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0)
        except sqlite3.Error as error:
            self.problems.append(f"table {table} cannot be read: {error}")
            return 0

    @property
    def report(self) -> JournalReport:
        about = self.about
        counts = {table: len(rows) for table, rows in self.rows.items()}
        return JournalReport(about.get("study", ""), about.get("site", ""), counts, tuple(self.problems))


def verify(path: str | Path) -> JournalReport:
    """Read a journal in whatever state it is, without changing it.

    Raises:
        JournalError: the file does not exist, or cannot be read here.
    """
    return _Reader(Path(path)).report


def recover(path: str | Path, new: str | Path) -> JournalReport:
    """Write what is good in a damaged journal to a new one; the damaged one stays as it is.

    Returns:
        What the damaged journal held.

    Raises:
        JournalError: nothing can be recovered, or the new file exists.
    """
    reader, new = _Reader(Path(path)), Path(new)
    if new.exists():
        raise JournalError(f"{new} exists already; nothing was written")
    if not {"study", "site"} <= reader.about.keys() or not reader.rows.get("requests"):
        raise JournalError(f"nothing can be recovered from {path}: {'; '.join(reader.problems[:3]) or 'it is empty'}")
    seed = unseal(reader.about)
    with Journal(new, reader.about["study"], reader.about["site"], seed=seed) as journal:
        _copy(reader, journal, replies_end=seed is None)
    return reader.report


def _copy(reader: _Reader, journal: Journal, replies_end: bool) -> None:
    """Copy the good rows; with `replies_end`, and after the first damaged request, without replies."""
    requests, last = reader.rows["requests"], reader.last["requests"]
    replies = {values[0]: values for values in reader.rows["replies"].values()}
    queries, incomplete = _queries_by_request(reader.rows["queries"], reader.last["queries"], min(requests))
    dim = next((len(row[4]) // 8 for row in reader.rows["queries"].values()), 1)
    for id in range(1, last + 1):
        reply = replies.get(id)
        replies_end = replies_end or id not in requests or id in incomplete or (reply is None and id < last)
        if id not in requests and id not in queries:
            continue
        copied = journal.begin(requests[id][1] if id in requests else b"lost")
        for query in queries.get(id, []):
            if query is None:
                journal.record(copied, np.zeros((1, dim)), None, 0, 0, "query", error="lost by damage of the journal")
            else:
                journal.append_row("queries", (copied, *query[1:]))
        if replies_end:
            journal.reply(copied, None, {})
        elif reply is not None:
            journal.append_row("replies", (copied, *reply[1:]))


def _queries_by_request(
    queries: dict[int, _Row], last: int, first: int
) -> tuple[dict[int, list[_Row | None]], set[int]]:
    """The queries of each request in order, None for a lost one; and the requests that may have lost one."""
    found: dict[int, list[_Row | None]] = {}
    incomplete: set[int] = set()
    request, lost = first, False
    for id in range(1, last + 1):
        row = queries.get(id)
        if row is not None:
            request = int(row[0])
        if row is None or lost:  # it belonged to this request or to the next one
            incomplete.add(request)
        lost = row is None
        found.setdefault(request, []).append(row)
    return found, incomplete
