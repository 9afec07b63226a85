"""What can be known of a damaged journal, and what can be saved of it.

Every row carries SHA-256(the link of the row before it, this row), so that each is checked by itself: a row is good if
its link fits the one that stands before it, whatever else is damaged.

A salvaged journal has every good query. A query that is damaged is kept as paid for, without a value, so that the count
does not fall. Requests before the first damage are as they were. From there on their replies are given up, since the
client that made them cannot be made again; what was asked for them is known to the new one all the same. So it is with
all replies where the site's seed is damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.links import link_of
from fzoos._util.sqlite import open_readonly
from fzoos.federation.journal import CHAINED, Journal, JournalError
from fzoos.federation.site_seed import unseal

__all__ = ["Salvaged", "salvage", "verify"]


@dataclass(frozen=True)
class Salvaged:
    """What is in a journal.

    Args:
        study: id of its study; empty where that cannot be read.
        site: name of its site.
        rows: good rows of each table.
        problems: what is damaged, in words; none in a sound journal.
    """

    study: str = ""
    site: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


_Row = tuple[Any, ...]


class _Reader:
    """Reads what is good, and notes what is not."""

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
            self.problems.append(f"the file is no longer a database: {error}")

    def _read(self, db: sqlite3.Connection) -> None:
        db.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        try:
            sound = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
        except sqlite3.Error as error:
            sound = str(error)
        if sound != "ok":
            self.problems.append(f"the database is damaged: {sound.splitlines()[-1]}")
        try:
            self.about = dict(db.execute("SELECT name, value FROM about"))
        except sqlite3.Error as error:
            self.problems.append(f"table about cannot be read: {error}")
        if self.about and unseal(self.about) is None:
            self.problems.append("the site's seed is damaged")
        for table in CHAINED:
            self.rows[table] = dict(self._good(db, table))

    def _good(self, db: sqlite3.Connection, table: str) -> Iterator[tuple[int, _Row]]:
        """Id and values of each row whose link fits the one before it."""
        before: bytes | None = b""
        self.last[table] = self._last_id(db, table)
        for id in range(1, self.last[table] + 1):
            row = self._row(db, table, id)
            if row is None:
                self.problems.append(f"row {id} of {table} cannot be read")
                before = None
                continue
            link, *values = row
            if before is not None and link == link_of(before, values):
                yield id, tuple(values)
            else:
                self.problems.append(f"row {id} of {table} is damaged, or follows one that is gone")
            before = link if isinstance(link, bytes) else None  # a flipped bit can make it a text

    def _row(self, db: sqlite3.Connection, table: str, id: int) -> _Row | None:
        try:
            found = db.execute(f"SELECT link, {', '.join(CHAINED[table])} FROM {table} WHERE id = ?", (id,)).fetchone()
        except (sqlite3.Error, UnicodeDecodeError, OverflowError):
            return None
        return None if found is None else tuple(found)

    def _last_id(self, db: sqlite3.Connection, table: str) -> int:
        try:
            return int(db.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0)
        except sqlite3.Error as error:
            self.problems.append(f"table {table} cannot be read: {error}")
            return 0

    @property
    def summary(self) -> Salvaged:
        about = self.about
        counts = {table: len(rows) for table, rows in self.rows.items()}
        return Salvaged(about.get("study", ""), about.get("site", ""), counts, tuple(self.problems))


def verify(path: str | Path) -> Salvaged:
    """Read a journal without changing it, whatever state it is in.

    Args:
        path: the journal's file.

    Raises:
        JournalError: there is none.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos.federation.journal import Journal
        >>> from fzoos.federation.salvage import verify
        >>> path = Path(tempfile.mkdtemp()) / "a.journal"
        >>> with Journal(path, study="s1", site="a") as journal:
        ...     request = journal.begin(b"a request")
        >>> verify(path).rows, verify(path).problems
        ({'requests': 1, 'queries': 0, 'replies': 0}, ())
    """
    return _Reader(Path(path)).summary


def salvage(path: str | Path, new: str | Path) -> Salvaged:
    """Make a new journal of what is good in a damaged one, which is left as it is.

    Args:
        path: the damaged journal.
        new: the file to make; it must not be there.

    Returns:
        What the damaged one held.

    Raises:
        JournalError: there is nothing to be saved, or the new file is there already.
    """
    reader, new = _Reader(Path(path)), Path(new)
    if new.exists():
        raise JournalError(f"{new} is there already; nothing was written")
    if not {"study", "site"} <= reader.about.keys() or not reader.rows.get("requests"):
        raise JournalError(f"of {path} nothing can be saved: {'; '.join(reader.problems[:3]) or 'it is empty'}")
    seed = unseal(reader.about)
    with Journal(new, reader.about["study"], reader.about["site"], seed=seed) as journal:
        _copy(reader, journal, broken=seed is None)
    return reader.summary


def _copy(reader: _Reader, journal: Journal, broken: bool) -> None:
    """All that is good; `broken`: whether a client can no longer be made again, at the start and then on the way."""
    requests, last = reader.rows["requests"], reader.last["requests"]
    replies = {values[0]: values for values in reader.rows["replies"].values()}
    asked, incomplete = _by_request(reader.rows["queries"], reader.last["queries"], min(requests))
    dim = next((len(row[4]) // 8 for row in reader.rows["queries"].values()), 1)
    for id in range(1, last + 1):
        reply = replies.get(id)
        broken = broken or id not in requests or id in incomplete or (reply is None and id < last)
        if id not in requests and id not in asked:
            continue
        made = journal.begin(requests[id][1] if id in requests else b"lost")
        for query in asked.get(id, []):
            if query is None:
                journal.record(made, np.zeros((1, dim)), None, 0, 0, "query", error="lost by damage of the journal")
            else:
                journal.append_row("queries", (made, *query[1:]))
        if reply is not None and not broken:
            journal.append_row("replies", (made, *reply[1:]))
        elif broken:
            journal.reply(made, None, {})


def _by_request(queries: dict[int, _Row], last: int, first: int) -> tuple[dict[int, list[_Row | None]], set[int]]:
    """The queries of each request in order, and the requests of which one may be lost: that stands as None."""
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
