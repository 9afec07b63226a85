"""The journal: what is in the file, and that every damage is seen, refused, left as it was, and has a way out."""

import hashlib
import json
import os
import random
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from fault_jobs import fill_journal, receive
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fzoos.federation.journal import Journal, JournalError

ROWS = 3  # requests of `fill_journal`: 3 queries and a reply each


def opened(path, study="study", site="site"):
    return Journal(path, study, site)


@pytest.fixture
def path(folder):
    """A journal with a few rows, closed."""
    path = folder / "site.journal"
    with opened(path) as journal:
        fill_journal(journal, ROWS)
    return path


def contents(journal):
    """Everything that a site would read in it."""
    requests = list(journal.requests())
    return (
        requests,
        journal.last,
        [journal.find(request.body) for request in requests],
        [query_tuple(query) for request in requests for query in journal.queries(request.id)],
        [query_tuple(query) for query in journal.queries()],
        journal.generator,
        journal.count,
    )


def query_tuple(query):
    return query.x.tobytes(), struct.pack("<d", query.y), query.round, query.step, query.purpose


def refused(path, reason, **names):
    """It is refused for this reason, and its bytes are as they were."""
    before = {file: file.read_bytes() for file in (path, path.with_name(path.name + "-wal")) if file.exists()}
    with pytest.raises(JournalError, match=reason) as caught:
        opened(path, **names)
    assert {file: file.read_bytes() for file in before} == before
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is in it


def test_a_journal_can_be_read_by_others(path):
    """Plain SQLite, as the table at the head of the module says: 3 requests, 9 queries, 3 replies."""
    rng = np.random.default_rng(ROWS)
    with closing(sqlite3.connect(path)) as db:
        about = dict(db.execute("SELECT name, value FROM about"))
        seed, digest = about.pop("seed").split()
        assert about == {"format": "3", "study": "study", "site": "site"}
        assert hashlib.sha256(seed.encode()).hexdigest().startswith(digest)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        requests = db.execute("SELECT id, digest, body FROM requests ORDER BY id").fetchall()
        assert requests == [(i + 1, hashlib.sha256(b"request %d" % i).digest(), b"request %d" % i) for i in range(ROWS)]
        queries = db.execute("SELECT request, round, step, purpose, x, y, error FROM queries ORDER BY id").fetchall()
        for i in range(ROWS):
            x, y, failed = rng.normal(size=(2, 2)), rng.normal(size=2), rng.normal(size=(1, 2))
            assert queries[3 * i : 3 * i + 3] == [
                (i + 1, i, 1, "query", x[0].tobytes(), y[0], None),
                (i + 1, i, 1, "query", x[1].tobytes(), y[1], None),
                (i + 1, i, 2, "difference", failed[0].tobytes(), None, "it raised"),
            ]
        replies = db.execute("SELECT request, body, generator FROM replies ORDER BY id").fetchall()
        assert replies == [(i + 1, b"reply %d" % i, json.dumps({"state": {"inc": i}})) for i in range(ROWS)]


def test_the_chain_is_as_documented(path):
    """Each link is SHA-256 of the one before and the row: every value by the first letter of its type, its length
    (8 bytes, little-endian) and its bytes (numbers that are not floats, and texts, as Python writes them)."""
    letters = {int: b"i", float: b"f", str: b"s", bytes: b"b", type(None): b"N"}
    columns = "request, round, step, purpose, x, y, c, error, asked"
    link = b""
    with closing(sqlite3.connect(path)) as db:
        for found, *row in db.execute(f"SELECT link, {columns} FROM queries ORDER BY id"):
            digest = hashlib.sha256(link)
            for value in row:
                data = value if isinstance(value, bytes) else repr(value).encode()
                data = struct.pack("<d", value) if isinstance(value, float) else data
                digest.update(letters[type(value)] + len(data).to_bytes(8, "little") + data)
            link = digest.digest()
            assert found == link


odd = st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1.0, 2.0**53, float("inf"), -float("inf"), float("nan")])


@settings(max_examples=40)
@given(st.lists(arrays(np.float64, (2, 3), elements=st.floats() | odd), min_size=1, max_size=3))
def test_every_number_comes_back(batches):
    """Every bit of x and y, -0.0 and infinity and subnormals too; NaN comes back as NaN; and the chain holds."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        path = Path(name) / "journal"
        with opened(path) as journal:
            request = journal.begin(b"r")
            for batch in batches:
                journal.record(request, batch, batch[:, 0], 1, 0, "query")
        with opened(path) as journal:
            found = journal.queries(request)
    rows = np.concatenate(batches)
    assert np.array([query.x for query in found]).tobytes() == rows.tobytes()
    values = np.array([query.y for query in found])
    assert np.array_equal(values, rows[:, 0], equal_nan=True)
    assert np.array_equal(np.signbit(values[values == 0.0]), np.signbit(rows[rows[:, 0] == 0.0, 0]))


# What the disk is waited for


def waits(journal):
    """How often the disk is waited for, from here on: commits while SQLite's setting is FULL."""
    seen, full = [], [True]

    def look(statement):
        if statement.startswith("PRAGMA synchronous"):
            full[0] = statement.endswith("FULL")
        elif statement == "COMMIT" and full[0]:
            seen.append(statement)

    journal._db.set_trace_callback(look)
    return seen


def noted(path):
    return int(path.with_name(path.name + ".rows").read_bytes())


def test_a_request_is_written_with_what_it_causes_in_one_commit(folder):
    with opened(folder / "j") as journal:
        before, seen = journal.flushes, waits(journal)
        request = journal.announce(b"given up before its first query")
        assert journal.announce(b"r") == request == 1
        assert journal.find(b"r") is None
        journal.record(1, np.zeros((3, 2)), np.zeros(3), 1, 0, "query")
        assert len(seen) == journal.flushes - before == 1
        journal.reply(1, b"a", {})
        assert journal.announce(b"s") == 2
        journal.reply(2, b"b", {})  # a request without a query
        assert len(seen) == journal.flushes - before == 3
    with opened(folder / "j") as journal:
        assert [(request.body, request.reply) for request in journal.requests()] == [(b"r", b"a"), (b"s", b"b")]
        assert journal.count == 3


def test_the_values_of_a_batch_wait_for_the_disk_together(folder):
    """And the number of rows beside the journal is never ahead of what the disk has."""
    with opened(folder / "j") as journal:
        seen, x = waits(journal), np.zeros((1, 2))
        request = journal.begin(b"r")
        for i in range(5):
            journal.record(request, x, np.full(1, float(i)), 1, 0, "query", more=i < 4)
            assert noted(folder / "j") == (6 if i == 4 else 1)
        assert len(seen) == 2
        with opened_elsewhere(folder / "j") as db:  # what kill -9 would leave
            assert db.execute("SELECT count(*) FROM queries").fetchone() == (5,)


def opened_elsewhere(path):
    return closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True))


@pytest.mark.parametrize("error", ["\ud800 half a letter", "a\x00b", "x" * 100_000])
def test_any_error_is_kept(folder, error):
    """Whatever an objective says when it fails, the query is kept as paid for and not as a value."""
    with opened(folder / "j") as journal:
        request = journal.begin(b"r")
        journal.record(request, np.zeros((1, 2)), None, 1, 0, "query", error=f"raised: {error}")
        journal.record(request, np.zeros((2, 2)), np.array([1.0, np.nan]), 1, 0, "query", error=f"raised: {error}")
    with opened(folder / "j") as journal:
        assert journal.count == 3
        assert journal.queries() == []


def test_the_last_of_equal_requests_is_found(folder):
    """A request that was given up and came again is two requests; the later one counts."""
    with opened(folder / "j") as journal:
        first = journal.begin(b"again")
        journal.reply(first, None, {})
        assert journal.find(b"again").replied
        assert journal.find(b"again").reply is None
        assert journal.generator is None
        second = journal.begin(b"again")
        assert (journal.find(b"again").id, journal.find(b"again").replied) == (second, False)
        journal.reply(second, b"", {"a": 1})
        assert journal.find(b"again").reply == b""
        assert journal.find(b"another") is None


# Whose it is


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"study": "other"}, "belongs to study 'study', not 'other'; a changed study needs a journal of its own"),
        ({"site": "other"}, "belongs to site 'site', not 'other'"),
    ],
)
def test_others_journals(path, names, reason):
    """Another study's or another site's journal is refused."""
    refused(path, reason, **names)


@pytest.mark.parametrize("found", [1, 2, 4])
def test_another_format(path, found):
    """A journal of an earlier or a later version is refused, with both formats named, and left untouched."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE about SET value = '{found}' WHERE name = 'format'")
    refused(path, f"has format {found}; this program reads format 3 only: another version wrote it")


def test_other_files(folder):
    """A text, and a database of another program, are refused and left as they are."""
    (folder / "text").write_text("These are the voyages\n" * 100)
    refused(folder / "text", "cannot be read: file is not a database.*move all of them away")
    with closing(sqlite3.connect(folder / "db")) as db, db:
        db.execute("CREATE TABLE stars (name TEXT)")
    refused(folder / "db", "cannot be read: no such table: about")


# Damage


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated(path, share):
    """A file that ends too soon, at whatever place: refused, with the way out."""
    os.truncate(path, int(share * path.stat().st_size))
    message = refused(path, "damaged|cannot be read|lost its end")
    assert "backup" in message


def test_flipped_bits_of_content(path):
    """Every byte of every kind of content, changed in the file itself: refused, with the way out."""
    rng, good = np.random.default_rng(ROWS), path.read_bytes()
    x, y = rng.normal(size=(2, 2)), rng.normal(size=2)
    texts = [b"it raised", b"difference", b"request 1", b"reply 1", b'{"state": {"inc": 1}}']
    for content in (x[1].tobytes(), struct.pack(">d", y[0]), hashlib.sha256(b"request 1").digest(), *texts):
        for i, at in enumerate(range(good.index(content), good.index(content) + len(content))):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1 << i % 8]) + good[at + 1 :])
            assert "backup" in refused(path, "damaged|cannot be read|lost its end")


def test_flipped_bits_anywhere(path):
    """Any bit of the file: it is refused, or it was in nobody's way and everything reads as before."""
    with opened(path) as journal:
        expected = contents(journal)
    good, dice, seen = path.read_bytes(), random.Random(0), 0
    used = [at for at, byte in enumerate(good) if byte]
    for at in [*dice.sample(used, 120), *dice.sample(range(len(good)), 20)]:
        bad = bytearray(good)
        bad[at] ^= 1 << dice.randrange(8)
        path.write_bytes(bad)
        try:
            with opened(path) as journal:
                assert contents(journal) == expected, f"bit of byte {at}"
        except JournalError:
            seen += 1
            assert path.read_bytes() == bad
    assert seen > 85


@pytest.mark.parametrize(("table", "row"), [("requests", 2), ("queries", 1), ("replies", ROWS)])
def test_deleted_rows(path, table, row):
    """A row that is missing, the last one of a table too."""
    with closing(sqlite3.connect(path)) as db, db:
        last = db.execute(f"SELECT max(id) FROM {table}").fetchone()[0]
        db.execute(f"DELETE FROM {table} WHERE id = ?", (last if row == ROWS else row,))
    assert "backup" in refused(
        path, rf"damaged at row {row + 1} of {table}" if row < ROWS else "lost its end: 14 of 15"
    )


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE queries SET y = y + 1e-12 WHERE id = 2",
        "UPDATE queries SET y = NULL, error = 'nan' WHERE id = 1",
        "UPDATE replies SET body = NULL WHERE id = 2",
        "INSERT INTO queries VALUES (10, 3, 3, 3, 'query', x'', 1.0, NULL, NULL, 0.0, x'00')",
    ],
)
def test_changed_rows(path, change):
    """A row that somebody has changed or put in, with a database's own means."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(change)
    refused(path, r"damaged at row \d+ of (queries|replies)")


# A process killed: everything may still be in the write-ahead log


@pytest.fixture
def killed(folder, nursery):
    """A journal whose process was killed, and its write-ahead log."""
    path = folder / "site.journal"
    assert nursery.run("fill", path=str(path), rows=ROWS) == (None, -9)
    return path, path.with_name(path.name + "-wal")


def test_killed(killed):
    """All that was committed is there."""
    with opened(killed[0]) as journal:
        assert [request.reply for request in journal.requests()] == [b"reply %d" % i for i in range(ROWS)]
        assert journal.count == 3 * ROWS


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_truncated_log(killed, share):
    """A write-ahead log that ends too soon is what SQLite takes for the end of a crash. Here it is seen."""
    path, log = killed
    whole = log.read_bytes()
    os.truncate(log, int(share * len(whole)))
    message = refused(path, "lost its end")
    assert "backup" in message
    assert "remove site.journal.rows" in message
    log.write_bytes(whole)
    with opened(path) as journal:
        assert journal.count == 3 * ROWS


def test_flipped_log(killed):
    """A flipped bit in the write-ahead log: seen, or nothing is missing."""
    path, log = killed
    good, main, dice, seen = log.read_bytes(), path.read_bytes(), random.Random(1), 0
    for at in dice.sample(range(len(good)), 60):
        bad = bytearray(good)
        bad[at] ^= 1 << dice.randrange(8)
        log.write_bytes(bad)
        try:
            with opened(path) as journal:
                assert journal.count == 3 * ROWS
        except JournalError:
            seen += 1
            assert log.read_bytes() == bad
        path.write_bytes(main)
    assert seen > 50


def test_a_lost_log_and_the_way_out(killed):
    """Copied without its log: refused; having removed the tally, one goes on with what there is."""
    path, log = killed
    log.unlink()
    refused(path, "has lost its end: 0 of 15 rows are there. If it was copied, copy site.journal-wal too")
    path.with_name("site.journal.rows").unlink()
    with opened(path) as journal:
        assert journal.count == 0


def test_killed_while_it_was_made(folder, nursery):
    """At whatever moment a process is killed while it makes a journal, the next one has it."""
    _, status = nursery.run("fill", path=str(folder / "whole"), rows=0, kill_at=None)
    assert status == -9
    for moment in range(1, 70, 3):
        path = folder / f"{moment}.journal"
        assert nursery.run("fill", path=str(path), rows=1, kill_at=moment) == (None, -9)
        with opened(path) as journal:
            assert journal.count in range(4)
            fill_journal(journal, 1)


# One process at a time


def test_in_use(folder, nursery):
    """Another process has it: refused at once, or waited for; when that is killed it is free."""
    path = folder / "j"
    child = nursery.start("hold", path=str(path))
    assert receive(child.line) == b"held"
    with pytest.raises(JournalError, match="is in use by another process of this machine"):
        Journal(path, "study", "site")
    with pytest.raises(JournalError, match="is in use"):
        Journal(path, "study", "site", wait=0.2)
    assert child.kill() == -9
    Journal(path, "study", "site").close()


def test_what_a_process_forked_does_not_hold_it(folder, nursery):
    """An objective may fork helpers that outlive a kill: they must not keep the site out of its own journal."""
    path = folder / "j"
    child = nursery.start("hold", path=str(path), fork=True)
    assert receive(child.line) == b"held"
    assert child.kill(close=False) == -9
    Journal(path, "study", "site").close()
    child.line.close()  # which ends what was forked
