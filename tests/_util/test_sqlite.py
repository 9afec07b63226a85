"""Copies of databases that other processes have open."""

import sqlite3
from contextlib import closing

from fzoos._util.sqlite import copy_database


def database(path, values):
    """Return a connection to a database in WAL mode with these values."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE IF NOT EXISTS t (x)")
    db.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    return db


def values_of(path):
    with closing(sqlite3.connect(path)) as db:
        return [x for (x,) in db.execute("SELECT x FROM t ORDER BY x")]


def test_a_copy_has_what_is_in_the_log(tmp_path):
    """While a reader is open, new rows stay in the write-ahead log; the copy has them, and it is one file."""
    (tmp_path / "copy").mkdir()
    source, copy = tmp_path / "a.db", tmp_path / "copy" / "a.db"
    database(source, [1]).close()
    with closing(sqlite3.connect(source)) as reader:
        assert reader.execute("SELECT x FROM t").fetchone() == (1,)
        with closing(database(source, [2, 3])):
            copy_database(source, copy)
        copy_database(source, copy)  # again, over the first copy
    assert values_of(copy) == [1, 2, 3]
    assert [path.name for path in copy.parent.iterdir()] == ["a.db"]


def test_a_copy_replaces_a_file_that_is_read(tmp_path):
    """A reader of the old file, whose log is still there, and everybody after it see the new values."""
    source, target = tmp_path / "new.db", tmp_path / "old.db"
    database(source, [1, 2, 3]).close()
    with closing(database(target, [1])) as reader:
        assert target.with_name("old.db-wal").exists()
        copy_database(source, target)
        assert values_of(target) == [1, 2, 3]
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (3,)
    assert values_of(target) == [1, 2, 3]
