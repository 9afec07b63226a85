"""Tags: words that somebody gives a run, to find it again. Any text; those who show one show it as text.

They are in a table of their own, which files of the last release do not have: those runs have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from fzoos.runs.rows import storable_text

__all__ = ["LONGEST", "MOST", "TABLE", "all_tags", "checked_tags", "set_tags", "tags_of"]

LONGEST = 60  # characters of a tag
MOST = 20  # tags of a run

TABLE = """
CREATE TABLE IF NOT EXISTS tags (
  run INTEGER NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (run, tag)) STRICT, WITHOUT ROWID
"""


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags as they are stored: without spaces around them, in order, each once.

    Example:
        >>> from fzoos.runs.tags import checked_tags
        >>> checked_tags([" noisy ", "a first try", "noisy"])
        ('a first try', 'noisy')
    """
    if not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"tags must be texts, got {list(tags)!r}")
    found = tuple(sorted({" ".join(storable_text(tag).split()) for tag in tags}))
    if len(found) > MOST:
        raise ValueError(f"tags must be at most {MOST}, got {len(found)}")
    for tag in found:
        if not tag or len(tag) > LONGEST:
            raise ValueError(f"a tag must have 1 to {LONGEST} characters, got {tag!r}")
    return found


def set_tags(db: sqlite3.Connection, run: int, tags: Sequence[str]) -> None:
    """Give a run these tags, in place of those that it has.

    Example:
        >>> import sqlite3
        >>> from fzoos.runs.tags import TABLE, set_tags, tags_of
        >>> db = sqlite3.connect(":memory:")
        >>> _ = db.execute(TABLE)
        >>> set_tags(db, 1, ["noisy", "kept"])
        >>> tags_of(db, 1)
        ('kept', 'noisy')
    """
    found = checked_tags(tags)
    db.execute("DELETE FROM tags WHERE run = ?", (run,))
    db.executemany("INSERT INTO tags VALUES (?, ?)", [(run, tag) for tag in found])


def tags_of(db: sqlite3.Connection, run: int) -> tuple[str, ...]:
    """Those of a run, in order."""
    if not _known(db):
        return ()
    return tuple(row[0] for row in db.execute("SELECT tag FROM tags WHERE run = ? ORDER BY tag", (run,)))


def all_tags(db: sqlite3.Connection) -> dict[int, tuple[str, ...]]:
    """Those of all runs that have any, by id."""
    found: dict[int, tuple[str, ...]] = {}
    if _known(db):
        for run, tag in db.execute("SELECT run, tag FROM tags ORDER BY run, tag"):
            found[run] = (*found.get(run, ()), tag)
    return found


def _known(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'tags'").fetchone() is not None
