"""Digests of the rows of a run: a flipped bit in a file of runs is noticed, and not taken for a result.

They are in a table of their own, which files of the last release do not have: there is nothing to compare in those.
"""

from __future__ import annotations

import sqlite3

from fzoos._util.links import link_of

__all__ = ["TABLE", "damaged_rows", "note"]

TABLE = """
CREATE TABLE IF NOT EXISTS digests (
  run INTEGER NOT NULL, round INTEGER NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, round)) STRICT
"""
_RUN = -1  # in place of a round: the run's own row


def note(db: sqlite3.Connection, run: int, round: int | None = None) -> None:
    """Note the digest of a run's row, or of one of its rounds, as it is now.

    Example:
        >>> import sqlite3
        >>> from fzoos.runs.digests import TABLE, damaged_rows, note
        >>> db = sqlite3.connect(":memory:")
        >>> _ = db.executescript("CREATE TABLE runs (id, x); CREATE TABLE rounds (run, round, x);" + TABLE)
        >>> _ = db.execute("INSERT INTO runs VALUES (1, 0.5)")
        >>> note(db, 1)
        >>> damaged_rows(db, 1)
        []
        >>> _ = db.execute("UPDATE runs SET x = 0.25")
        >>> damaged_rows(db, 1)
        ['run 1']
    """
    where, values = (
        ("runs WHERE id = ?", (run,)) if round is None else ("rounds WHERE run = ? AND round = ?", (run, round))
    )
    row = db.execute(f"SELECT * FROM {where}", values).fetchone()
    key = (run, _RUN if round is None else round)
    if row is not None:
        db.execute("INSERT OR REPLACE INTO digests VALUES (?, ?, ?)", (*key, link_of(b"", row)))


def damaged_rows(db: sqlite3.Connection, run: int) -> list[str]:
    """What of a run does not fit its digest; nothing where there are none."""
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'digests'").fetchone() is None:
        return []
    known = dict(db.execute("SELECT round, digest FROM digests WHERE run = ?", (run,)))
    if not known:
        return []
    own = db.execute("SELECT * FROM runs WHERE id = ?", (run,)).fetchone()
    found = {} if own is None else {_RUN: link_of(b"", own)}
    for row in db.execute("SELECT * FROM rounds WHERE run = ?", (run,)):
        found[row[1]] = link_of(b"", row)
    wrong = sorted(at for at in known if known[at] != found.get(at))  # rounds of the last release have no digest
    return [f"run {run}" if at == _RUN else f"round {at} of run {run}" for at in wrong]
