"""Files that are not as they should be: one line on standard error, and the file stays as it is."""

import sqlite3

import pytest
from kept_runs import keep

from fzoos.runs.store import Store

COMMANDS = [
    ["list", "{}"],
    ["list", "{}", "--json"],
    ["show", "{}"],
    ["show", "{}:1"],
    ["compare-runs", "{}", "{}"],
    ["export", "{}", "-o", "out.csv"],
    ["run", "quadratic", "--dim", "3", "--rounds", "1", "--quiet", "--store", "{}"],
    ["compare", "quadratic", "--dim", "3", "--rounds", "1", "--quiet", "--store", "{}"],
]


def foreign(path):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE patients (name TEXT)")
        db.execute("INSERT INTO patients VALUES ('someone')")
    db.close()


def alike(path):
    """Tables of the same names, with other things in them."""
    with sqlite3.connect(path) as db:
        for name in ("about", "runs", "rounds"):
            db.execute(f"CREATE TABLE {name} (whatever TEXT)")
    db.close()


def of_another_format(path):
    keep(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()


def cut(keep_bytes):
    def make(path):
        keep(path, values=[1.0] * 200)  # several pages of rounds
        whole = path.read_bytes()
        assert len(whole) > 5 * 4096
        path.write_bytes(whole[:keep_bytes])

    return make


def overwritten(path):
    keep(path, values=[1.0] * 200)
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)


BAD = {
    "text": (lambda path: path.write_text("not a database at all\n" * 50), "not a database"),
    "foreign": (foreign, "not a file of runs: it has the tables patients"),
    "alike": (alike, "not a file of runs: it has the tables about, rounds, runs"),
    "another format": (of_another_format, "has format 7; this version of fzoos reads format 1"),
    "cut in the middle": (cut(2 * 4096), "malformed"),
    "overwritten": (overwritten, "bad.db"),
}


@pytest.mark.parametrize(
    ("kind", "command"), [*((kind, COMMANDS[0]) for kind in BAD), *(("text", command) for command in COMMANDS[1:])]
)
def test_a_bad_file_is_one_line_and_stays_as_it_is(fzoos, tmp_path, kind, command):
    make, words = BAD[kind]
    make(tmp_path / "bad.db")
    before = (tmp_path / "bad.db").read_bytes()
    code, out, err = fzoos(*(word.format("bad.db") for word in command))
    assert (code, out) == (2, "")
    assert err.startswith("fzoos: bad.db ")
    assert words in err
    assert err.count("\n") == 1
    assert (tmp_path / "bad.db").read_bytes() == before
    beside = {path.name: path.stat().st_size for path in tmp_path.iterdir() if path.name != "bad.db"}
    assert beside.keys() <= {"bad.db-wal", "bad.db-shm"}  # SQLite's own, for who only reads
    assert beside.get("bad.db-wal", 0) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list"], "there is no runs.db in this folder; create one with fzoos run TASK --store runs.db"),
        (["show"], "there is no runs.db in this folder"),
        (["show", "3"], "there is no runs.db in this folder"),
        (["list", "none.db"], "none.db"),
        (["show", "none.db:1"], "none.db"),
        (["list", "empty"], "there is neither a result.db nor a runs.db in empty"),
        (["list", "empty.db"], "empty.db is empty"),
        (["show", "some.db:7"], "some.db has no run 7; it has 1"),
        (["show", "none-yet.db"], "none-yet.db has no run yet"),
        (["compare-runs", "some.db"], "Missing argument 'B'"),
        (["compare-runs", "some.db", "some.db:9"], "no run 9"),
        (["export", "some.db"], "--output is missing"),
        (["export", "some.db", "-o", "run.xlsx"], "the file must be a .csv, .json, .parquet file, got run.xlsx"),
        (["export", "some.db", "-o", "missing/run.csv"], "missing/run.csv"),
        (["export", "some.db", "-o", "empty.csv"], "empty.csv"),
        (["run", "quadratic", "--store", "empty"], "empty is a folder; a file of runs was expected"),
        (["run", "quadratic", "--dim", "3", "--quiet", "--store", "some.db/runs.db"], "some.db"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(fzoos, tmp_path, arguments, words):
    for folder in ("empty", "empty.csv"):
        (tmp_path / folder).mkdir()
    (tmp_path / "empty.db").touch()
    keep(tmp_path / "some.db")
    Store(tmp_path / "none-yet.db").close()
    before = {path.name: path.read_bytes() if path.is_file() else None for path in tmp_path.iterdir()}
    code, out, err = fzoos(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("fzoos: ")
    assert words in err
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() if path.is_file() else None for path in tmp_path.iterdir()} == before


def test_broken_contents_are_one_line(fzoos):
    """The database is sound, what is in it is not."""
    keep("runs.db")
    with sqlite3.connect("runs.db") as db:
        db.execute("UPDATE rounds SET clients = '{'")
    db.close()
    assert fzoos("list")[0] == 0
    code, out, err = fzoos("show")
    assert (code, out) == (2, "")
    assert err.startswith("fzoos: runs.db is damaged: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "path"),
    [(["run", "quadratic"], "nowhere/a.json"), (["compare", "quadratic", "--output", "a.png"], ".")],
)
def test_a_result_that_cannot_be_written_is_said_before_the_run(fzoos, command, path):
    code, out, err = fzoos(*command, "--dim", "1000", "--rounds", "1000", "--json", path)
    assert (code, out) == (2, "")
    assert err == f"fzoos: --json: {path} cannot be written: no such directory, or a directory itself\n"
