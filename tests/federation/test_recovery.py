"""Damaged journals: reported row by row, recovered but for the damage, and the study continues with the rest."""

import random
import sqlite3
from contextlib import closing

import pytest
from fault_jobs import CENTRES, Box, logged, make_study
from wire import Wire

from fzoos.cli import main
from fzoos.federation.journal import Journal, JournalError
from fzoos.federation.recovery import recover, verify
from fzoos.federation.study_run import run_study

STUDY = make_study("fzoos", sites=("a", "b"), rounds=6)


@pytest.fixture
def journal(folder):
    """The journal of a study that ran, in one file."""
    with Wire(STUDY, folder) as engine:
        run_study(STUDY, engine, folder / "result.db")
    path = folder / "a.journal"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    return path


def change(path, text):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(text)


def queries(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT x, y, error FROM queries ORDER BY id").fetchall()


def command(*words):
    with pytest.raises(SystemExit) as ended:
        main(["journal", *map(str, words)])
    return ended.value.code


def test_only_its_owner_can_read_it(folder):
    """A journal has the site's values; one that others could read before cannot be read by them from now on."""
    for path in (folder / "new.journal", folder / "old.journal"):
        if path.name.startswith("old"):
            with Journal(path, "s", "a"):
                pass
            path.chmod(0o644)
        with Journal(path, "s", "a") as kept:
            kept.begin(b"a request")
            files = [path, path.with_name(path.name + "-wal")]
            assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600", "0o600"]


def test_a_sound_journal(journal, capsys):
    """Nothing to complain of, and recovering it copies it."""
    found = verify(journal)
    assert (found.study, found.site, found.problems) == (STUDY.id, "a", ())
    assert found.rows["queries"] == len(logged(journal.parent, "a"))
    assert command("verify", journal) == 0
    assert "no row is damaged" in capsys.readouterr().out
    new = journal.with_name("new.journal")
    assert command("recover", journal, new) == 0
    assert queries(new) == queries(journal)
    assert verify(new).rows == found.rows
    assert command("recover", journal, new) == 2  # never over a file that is there


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        ("UPDATE queries SET y = y + 1 WHERE id = 5", 1),
        ("UPDATE queries SET x = zeroblob(16) WHERE id IN (4, 9)", 2),
        ("DELETE FROM queries WHERE id = 7", 2),  # the one after it cannot be checked
        ("UPDATE replies SET body = zeroblob(8) WHERE id = 3", 0),
        ("UPDATE requests SET body = zeroblob(8) WHERE id = 2", 0),
    ],
)
def test_a_damaged_row(journal, damage, lost):
    """Everything else is saved, the count does not fall, and the study goes on to its end with the new journal."""
    whole = queries(journal)
    change(journal, damage)
    found = verify(journal)
    assert found.problems
    assert command("verify", journal) == 1
    with pytest.raises(JournalError, match=r"fzoos journal verify FILE.*fzoos journal recover FILE NEW"):
        Journal(journal, STUDY.id, "a")
    new = journal.with_name("new.journal")
    recover(journal, new)
    kept = queries(new)
    assert len(kept) == len(whole)
    good = [row for row in kept if row[2] is None]
    assert len(good) == len(whole) - lost
    assert set(good) <= set(whole)
    for path in journal.parent.glob("a.journal*"):
        path.unlink()
    new.rename(journal)
    for path in journal.parent.glob("new.journal*"):
        path.rename(journal.parent / path.name.replace("new", "a"))
    more = make_study("fzoos", sites=("a", "b"), rounds=9, retries=2)
    with Wire(more, journal.parent, [Box(CENTRES[0]), Box(CENTRES[1])]) as engine:
        result = run_study(more, engine, journal.parent / "result.db", resume=True)
    assert (result.status, result.rounds) == ("completed", 9), result.message
    assert result.queries_per_client[0] >= len(whole)


def test_flipped_bits(journal):
    """Anywhere in the file: never an error of ours, never a wrong row in what is saved."""
    body, whole, rng = journal.read_bytes(), set(queries(journal)), random.Random(0)
    for trial in range(60):
        data = bytearray(body)
        for _ in range(rng.choice([1, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        damaged, new = journal.with_name(f"{trial}.journal"), journal.with_name(f"{trial}.new")
        damaged.write_bytes(data)
        verify(damaged)
        refused = ""
        try:
            recover(damaged, new)
        except JournalError as error:
            refused = str(error)
        assert ("nothing can be recovered" in refused) == (not new.exists())
        if refused:
            continue
        assert {row for row in queries(new) if row[2] is None} <= whole
        assert verify(new).problems == ()


def test_what_is_no_journal(folder, capsys):
    """No such file, another program's, an empty one: said in one line."""
    assert command("verify", folder / "nothing") == 2
    (folder / "text").write_text("hello " * 1000)
    assert command("verify", folder / "text") == 1
    assert command("recover", folder / "text", folder / "new") == 2
    assert not (folder / "new").exists()
    with Journal(folder / "empty", "s", "a"):
        pass
    assert command("verify", folder / "empty") == 0
    assert "Traceback" not in capsys.readouterr().err


def test_a_sound_journal_on_read_only_media(journal, folder, read_only, capsys):
    """As backups are: verified and recovered as anywhere else. A site cannot use it, and is not sent away from it."""
    rows = verify(journal).rows
    with closing(sqlite3.connect(journal)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    media, target = folder / "media", folder / "target"
    folder.chmod(0o755)
    media.mkdir()
    target.mkdir()
    target.chmod(0o777)
    journal.rename(media / "a.journal")
    with read_only(media):
        assert verify(media / "a.journal").problems == ()
        assert verify(media / "a.journal").rows == rows
        recover(media / "a.journal", target / "new")
        with pytest.raises(JournalError, match=r"cannot be written: .*\. Nothing in it is lost") as caught:
            Journal(media / "a.journal", STUDY.id, "a")
    assert verify(target / "new").rows == rows
    assert "damaged" not in str(caught.value)
    assert "backup" not in str(caught.value)


def test_a_log_on_read_only_media(journal, folder, read_only):
    """What a killed site left beside its journal is a part of it: without it nothing is said about damage."""
    media = folder / "media"
    folder.chmod(0o755)
    media.mkdir()
    with closing(sqlite3.connect(journal)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE new (x)")
        for ending in ("", "-wal"):
            (media / f"a.journal{ending}").write_bytes(journal.with_name(f"a.journal{ending}").read_bytes())
    with read_only(media), pytest.raises(JournalError, match="damaged or not: copy it, and the files beside it"):
        verify(media / "a.journal")
