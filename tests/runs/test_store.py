"""Files of runs: written by one, read by many, and whatever is wrong with one is said in one line and left as it is."""

import math
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import fzoos
from fzoos._util.sqlite import copy_database, open_readonly
from fzoos.result import Record
from fzoos.runs.reader import Reader
from fzoos.runs.store import Store, StoreError

X = np.array([0.1, -2.5])


def record(round=1, **changes):
    values = {"queries": 10 * round, "bytes_up": 100 * round, "bytes_down": 7 * round, "seconds": 0.5 * round}
    values |= {"step": 0.25, "monitor": None, "diagnostics": {"correction_length": 1.0}}
    values |= {"queries_per_client": (4 * round, 6 * round), "distances": (0.5, None)}
    return Record(round, **values | changes)


@pytest.fixture
def path(tmp_path):
    """A file with one run of two rounds."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = store.begin("demo", {"rounds": 3}, np.zeros(2), clients=2)
        store.checkpoint(run, b"half", [1, 2], None, X)
        store.checkpoint(run, b"one", [4, 6], record(1), X)
        store.fail(run, 2, 1, "site-2: away")
        store.checkpoint(run, b"two", [8, 12], record(2), 2 * X)
        store.finish(run, "stopped", "enough", {"epsilon": 1.5})
    return path


def refused(path, reason, create=True):
    """It is refused for this reason, in one line, and is as it was."""
    before = path.read_bytes()
    with pytest.raises(StoreError, match=reason) as caught:
        Store(path, create=create)
    assert path.read_bytes() == before
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match=reason):
        fzoos.load(path)
    assert path.read_bytes() == before


def test_what_is_kept(path):
    """A result as it was written: settings, every record, the last checkpoint, failures, what else is known."""
    with Store(path) as store:
        assert store.last == 1
        assert store.settings(1) == {"rounds": 3}
        assert store.last_checkpoint(1) == b"two"
        assert store.failures(1) == [(2, 1, "site-2: away")]
        assert store.extra(1) == {"epsilon": 1.5}
        result = store.result(1)
    assert result.x.tolist() == [0.2, -5.0]
    assert result.history == (record(1), record(2))
    assert (result.status, result.message, result.rounds) == ("stopped", "enough", 2)
    assert (result.queries, result.queries_per_client) == (20, (8, 12))
    assert (result.bytes_up, result.bytes_down, result.seconds) == (200, 14, 1.0)


def test_x_is_exact(tmp_path):
    """Every bit of x."""
    x = np.array([-0.0, 5e-324, 1e308, 0.1 + 0.2])
    with Store(tmp_path / "runs.db") as store:
        run = store.begin("demo", {}, x, 1)
    assert fzoos.load(tmp_path / "runs.db", run).x.tobytes() == x.tobytes()


def test_all_or_nothing(path):
    """A checkpoint that cannot be written leaves the one before, the record too, and the file goes on."""
    with Store(path) as store:
        impossible = record(3, step=math.nan)  # the table wants a number
        with pytest.raises(StoreError, match="cannot be written"):
            store.checkpoint(1, b"three", [9, 9], impossible, X)
        with pytest.raises(StoreError, match="cannot be written"):
            store.record(1, impossible, X)
        assert store.last_checkpoint(1) == b"two"
        assert store.result(1).queries_per_client == (8, 12)
        store.checkpoint(1, b"three", [12, 18], record(3), X)
        assert store.result(1).rounds == 3


def test_many_runs(path):
    """Runs are added; the last one is what is loaded unless another is named."""
    with Store(path) as store:
        second = store.begin("other", {}, X, clients=1)
        assert (second, store.last) == (2, 2)
        assert store.last_checkpoint(second) is None
    assert fzoos.load(path).x.tolist() == X.tolist()
    assert fzoos.load(path, run=1).rounds == 2
    with pytest.raises(StoreError, match=r"runs\.db has no run 7"):
        fzoos.load(path, run=7)


# Files that cannot be used


@pytest.mark.parametrize("content", [b"These are the voyages\n" * 500, b"xy"])
def test_not_a_database(tmp_path, content):
    """A text, two letters."""
    path = tmp_path / "runs.db"
    path.write_bytes(content)
    refused(path, "cannot be read as a file of runs: file is not a database")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_anothers_database(tmp_path, mode):
    """A database of another program, in whatever mode it keeps it, is not touched."""
    path = tmp_path / "stars.db"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA journal_mode = {mode}")
        db.execute("CREATE TABLE stars (name TEXT)")
        db.execute("CREATE TABLE moons (name TEXT)")
    refused(path, "is not a file of runs: it has the tables moons, stars")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == (mode,)


@pytest.mark.parametrize("found", [0, 2])
def test_another_format(path, found):
    """A file of an earlier or a later version is refused in one line that names both formats, and left untouched."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {found}")
    refused(path, f"has format {found}; this version of fzoos reads format 1: read it with the version that wrote it")


@pytest.mark.parametrize("share", [0.001, 0.5, 0.99])
def test_truncated(path, share):
    """A file that ends too soon."""
    os.truncate(path, int(share * path.stat().st_size))
    refused(path, "cannot be read as a file of runs|is damaged")


def test_a_damaged_checkpoint(path):
    """One flipped bit in it: it is not used, and the way out is named; the rest can still be read."""
    good = path.read_bytes()
    at = good.rindex(b"two")
    path.write_bytes(good[:at] + b"twn" + good[at + 3 :])
    with Store(path) as store, pytest.raises(StoreError, match="is damaged; restore the file from a backup"):
        store.last_checkpoint(1)
    assert fzoos.load(path).rounds == 2


def test_nothing_there(tmp_path):
    """No file, an empty file, a file without runs, an empty folder: each said as what it is; nothing is made."""
    with pytest.raises(StoreError, match="there is no file of runs at"):
        fzoos.load(tmp_path / "none.db")
    with pytest.raises(StoreError, match=r"there is no file of runs at .*result\.db"):
        fzoos.load(tmp_path)
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match=r"empty\.db is empty: no run has begun in it"):
        fzoos.load(tmp_path / "empty.db")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.db"]
    Store(tmp_path / "new.db").close()
    with pytest.raises(StoreError, match=r"new\.db has no run yet"):
        fzoos.load(tmp_path / "new.db")


# Several at once


def test_two_writers(path):
    """Two processes with runs of their own in one file take turns."""
    with Store(path) as one, Store(path) as two:
        first, second = one.begin("one", {}, X, 2), two.begin("two", {}, X, 2)
        for i in range(1, 6):
            one.checkpoint(first, b"", [i, i], record(i), X)
            two.checkpoint(second, b"", [i, i], record(i), X)
        assert one.result(second).rounds == two.result(first).rounds == 5


def test_written_to_by_another(path):
    """Who cannot write because another does, for longer than is waited for, says so; a reader reads all the same."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other, Store(path) as store:
        other.execute("BEGIN IMMEDIATE")
        store._db.execute("PRAGMA busy_timeout = 50")
        with pytest.raises(StoreError, match="cannot be written: database is locked"):
            store.finish(1, "completed", "", {})
        assert fzoos.load(path).status == "stopped"
        other.execute("ROLLBACK")
        store.finish(1, "completed", "", {})
    assert fzoos.load(path).status == "completed"


def test_a_run_whose_process_is_gone(tmp_path):
    """Killed while running, it is not running."""
    path = tmp_path / "runs.db"
    code = (
        "import os, signal, numpy as np\nfrom fzoos.runs.store import Store\n"
        f"store = Store({str(path)!r})\n"
        "store.begin('demo', {}, np.zeros(1), 1)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    result = fzoos.load(path)
    assert result.status == "interrupted"
    assert result.message.startswith("its process is gone; queries of the round")


def test_a_name_with_control_characters_is_refused(path):
    with Store(path) as store, pytest.raises(ValueError, match="printable"):
        store.begin("a\x1b[2J", {}, np.zeros(2), clients=2)


def test_readers_write_nothing_and_trust_no_schema(path):
    with Reader(path) as reader, closing(open_readonly(path)) as other:
        for db in (reader._db, other):
            found = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("query_only", "trusted_schema")]
            assert found == [1, 0]


def test_only_its_owner_can_read_it(path, tmp_path):
    """A store has the values of all queries; a file that its owner has opened to others stays so."""
    copy_database(path, tmp_path / "copy.db")
    assert [oct(file.stat().st_mode & 0o777) for file in (path, tmp_path / "copy.db")] == ["0o600", "0o600"]
    path.chmod(0o644)
    with Store(path) as store:
        store.begin("second", {}, np.zeros(2), clients=2)
    assert oct(path.stat().st_mode & 0o777) == "0o644"


# Folder and file


def test_read_only_media(read_only, run_command):
    """A store is read there as anywhere else; it cannot be written, which is no damage."""
    folder = Path(tempfile.mkdtemp())
    with Store(folder / "runs.db") as store:
        run = store.begin("demo", {"rounds": 3}, np.zeros(2), clients=2)
        store.finish(run, "stopped", "enough", {})
    with read_only(folder):
        assert fzoos.load(folder / "runs.db").message == "enough"
        assert all("demo" in run_command(name, folder / "runs.db")[1] for name in ("list", "show"))
        with pytest.raises(StoreError, match=r"cannot be written: .*\. Nothing in it is lost"):
            Store(folder / "runs.db")
    shutil.rmtree(folder)
