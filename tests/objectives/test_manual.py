"""Values entered by hand: what is requested, what can be entered, and that nothing wrong is accepted."""

import contextlib
import multiprocessing
import os
import resource
import shutil
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from fzoos import ManualObjective
from fzoos.objectives.manual import Entry, ValueTable, point_id
from fzoos.result import ValuePending

X = np.array([[0.5, 0.25], [0.1, 0.2], [0.5, 0.25]])


def test_a_point_is_requested_until_its_value_is_entered(tmp_path):
    """A point that comes twice in a batch is asked for once; told values answer the same batch ever after."""
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(ValuePending, match="a waits for the values of 2 points"):
        site(X)
    wanted = site.requested()
    assert [x for _, x in wanted] == [[0.5, 0.25], [0.1, 0.2]]
    assert site.tell([(wanted[0][0], 3.0)]) == 1
    assert [x for _, x in site.requested()] == [[0.1, 0.2]]
    assert ManualObjective(tmp_path, "a").tell([(wanted[1][0], 0.1)]) == 1  # another process, another day
    assert ManualObjective(tmp_path, "a")(X).tolist() == [3.0, 0.1, 3.0]
    assert site.requested() == []


def test_points_travel_exactly(tmp_path):
    """The id depends on every bit of the point, and the point printed is the point asked."""
    x = np.array([[1 / 3, np.nextafter(1 / 3, 1)]])
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(ValuePending):
        site(x)
    assert site.requested()[0][1] == x[0].tolist()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("nonsense", 1.0), "'nonsense' is not among the points requested from a"),
        (("first", float("nan")), "must be a finite number, got nan"),
        (("again", 2.0), "was entered before: 1, not 2"),
    ],
)
def test_all_or_none(tmp_path, told, message):
    """One wrong row, and none of them is taken."""
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(ValuePending):
        site(X)
    ids = [id for id, _ in site.requested()]
    site.tell([(ids[0], 1.0)])
    wrong = {"first": ids[1], "again": ids[0]}.get(told[0], told[0])
    with pytest.raises(ValueError, match=message):
        site.tell([(wrong, told[1]), (ids[1], 5.0)])
    assert set(site.values()) == {ids[0]}


def test_waits(tmp_path):
    """With `wait` a call comes back when the values are told."""
    site = ManualObjective(tmp_path, "a", wait=True)
    found = []
    thread = threading.Thread(target=lambda: found.append(site(X[:1])))
    thread.start()
    other = ManualObjective(tmp_path, "a")
    while not other.requested():
        assert thread.is_alive()
    other.tell([(other.requested()[0][0], 7.0)])
    thread.join()
    assert found[0].tolist() == [7.0]


# Disks, and several processes


@pytest.fixture
def folder():
    """In memory where that is possible: a test that commits 600 times does not wait for a disk."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path)


def requested(folder, count, site="a"):
    """A table, and the ids of this many points that are requested."""
    points = {point_id(x): x for x in np.arange(2.0 * count).reshape(count, 2)}
    table = ValueTable(folder)
    table.request(site, points)
    return table, list(points)


def test_all_sites_or_none(folder):
    """A table with rows of several sites is entered as a whole."""
    table, ids = requested(folder, 1)
    requested(folder, 1, "b")
    with pytest.raises(ValueError, match="'nonsense' is not among the points requested from b"):
        table.enter({"a": [Entry(ids[0], 1.0)], "b": [Entry("nonsense", 2.0)]})
    assert table.values("a") == table.values("b") == {}
    assert table.enter({"a": [Entry(ids[0], 1.0)], "b": [Entry(ids[0], 2.0)]}) == 2


def test_only_the_owner_can_read_it(folder):
    before = os.umask(0)
    try:
        table, _ = requested(folder, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(table.path.stat().st_mode) == 0o600


def test_full_disk(folder):
    """Wherever the disk is full, all 400 values are stored or none, what was there before stays, and the message says
    so. The same values can be entered when there is room."""
    table, ids = requested(folder, 500)
    table.enter({"a": [Entry(id, 193.005) for id in ids[:100]]})
    rest = {"a": [Entry(id, 193.005) for id in ids[100:]]}
    size, before = table.path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 512, 4096, size // 2, size, size + 1, size + 4096):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(OSError, match=r"values.db cannot be used, and nothing was changed: "):
                table.enter(rest)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert table.values("a") == dict.fromkeys(ids[:100], 193.005)
    assert table.enter(rest) == 400
    assert table.values("a") == dict.fromkeys(ids, 193.005)


def test_an_unfinished_write_is_ignored(folder):
    """A process that died in the middle of its transaction has left its rollback journal: it is undone."""
    table, ids = requested(folder, 300)

    def die():
        db = sqlite3.connect(table.path, isolation_level=None)
        db.execute("PRAGMA cache_size = 1")  # so that pages are in the file before the commit
        db.execute("BEGIN IMMEDIATE")
        rows = [("a", id, np.array([13.0]).tobytes(), 0, None) for id in ids]
        db.executemany("INSERT INTO entered VALUES (?, ?, ?, ?, ?)", rows)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=die)
    process.start()
    process.join()
    assert (folder / "values.db-journal").stat().st_size > 0
    assert table.values("a") == {}
    assert table.enter({"a": [Entry(ids[0], 5.0)]}) == 1


def enter_all(table, ids, offset, barrier, accepted):
    for i, id in enumerate(ids):
        barrier.wait()
        with contextlib.suppress(ValueError):
            table.enter({"a": [Entry(id, offset + i)]})
            accepted.append((id, offset + i))


@pytest.mark.parametrize("context", ["thread", "fork"])
def test_of_two_contradicting_values_one_is_accepted(folder, context):
    """Three hundred times, at the same moment: the accepted value is the one that is stored."""
    table, ids = requested(folder, 300)
    if context == "thread":
        barrier, accepted, start = threading.Barrier(2), [], threading.Thread
    else:
        fork = multiprocessing.get_context("fork")
        manager = fork.Manager()
        barrier, accepted, start = fork.Barrier(2), manager.list(), fork.Process
    both = [start(target=enter_all, args=(table, ids, 1000.0 * k, barrier, accepted)) for k in (1, 2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert len(accepted) == 300
    assert dict(accepted) == table.values("a")


def test_a_file_of_another_version(folder):
    table, _ = requested(folder, 1)
    with sqlite3.connect(table.path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(ValueError, match="was written by another version of the program"):
        table.requested("a")
