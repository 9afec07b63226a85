"""Digests of the rows of a run: a flipped bit in a file of runs is noticed, and not taken for a result.

They are in a table of their own, so that a row that is gone is noticed, too.
"""

from __future__ import annotations

import sqlite3

from fzoos._util.links import link_of

__all__ = ["damaged_rows", "note"]

_RUN = -1  # in place of a round: the run's own row


def note(db: sqlite3.Connection, run: int, round: int | None = None) -> None:
    """Note the digest of a run's row, or of one of its rounds, as it is now.

    Example:
        >>> import sqlite3
        >>> from fzoos.runs.digests import damaged_rows, note
        >>> db = sqlite3.connect(":memory:")
        >>> for table in ("runs (id, x)", "rounds (run, round, x)", "digests (run, round, digest)"):
        ...     _ = db.execute(f"CREATE TABLE {table}")
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
    """What of a run does not fit its digest, or has none."""
    known = dict(db.execute("SELECT round, digest FROM digests WHERE run = ?", (run,)))
    own = db.execute("SELECT * FROM runs WHERE id = ?", (run,)).fetchone()
    found = {} if own is None else {_RUN: link_of(b"", own)}
    for row in db.execute("SELECT * FROM rounds WHERE run = ?", (run,)):
        found[row[1]] = link_of(b"", row)
    wrong = sorted(at for at in known | found if known.get(at) != found.get(at))
    return [f"run {run}" if at == _RUN else f"round {at} of run {run}" for at in wrong]
