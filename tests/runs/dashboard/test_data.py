"""Files of runs are read as they are written, and never changed."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from fzoos import FedZO
from fzoos.result import Record
from fzoos.runs.dashboard import index as index_module
from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.dashboard.view import columns, dumps
from fzoos.runs.reader import Reader
from fzoos.runs.rows import plain
from fzoos.runs.store import Store, StoreError

from .conftest import keep, wait_for


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def not_a_database(path):
    path.write_text("a diary, not a database; long enough to be looked at as a header of one " * 20)


def truncated(path):
    keep(path, rounds=40)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


UNUSABLE = {not_a_database: "not a database", truncated: ""}


@pytest.mark.parametrize("make", UNUSABLE, ids=lambda make: make.__name__)
def test_a_file_that_cannot_be_used_is_one_line_and_stays_as_it_is(make, tmp_path):
    path = tmp_path / "runs.db"
    make(path)
    before = digest(path)
    for open_file in (Reader, RunIndex):
        with pytest.raises(StoreError) as error:
            open_file(path)
        assert "\n" not in str(error.value)
        assert str(path) in str(error.value)
        assert UNUSABLE[make] in str(error.value)
    assert digest(path) == before


def test_reading_leaves_no_trace(kept, tmp_path):
    path = tmp_path / "runs.db"
    shutil.copy(kept, path)
    before = digest(path)
    with RunIndex(tmp_path) as index:
        assert [run["id"] for run in index.refresh()["runs"]] == [3, 2, 1]
        index.details("runs.db:1")
    assert digest(path) == before
    assert [file.name for file in tmp_path.iterdir()] == ["runs.db"]


def test_what_is_shown_is_what_the_run_returned(tmp_path):
    result = keep(tmp_path / "runs.db")
    with RunIndex(tmp_path / "runs.db") as index:
        shown = index.details("runs.db:1")
    assert shown["x"] == list(result.x)
    assert shown["client_queries"] == list(result.queries_per_client)
    assert shown["clients"] == ["client 0", "client 1", "client 2"]
    assert shown["total"] == shown["rounds"] == 4
    assert shown["algorithm"] == "FedZO"
    for name in ("round", "queries", "seconds", "step", "monitor"):
        assert shown["history"][name] == [getattr(record, name) for record in result.history]
    assert shown["history"]["bytes"] == [record.bytes_up + record.bytes_down for record in result.history]
    assert np.allclose(shown["history"]["distances"], [record.distances for record in result.history], rtol=1e-5)


def test_a_study_shows_the_names_of_its_sites_and_who_failed(tmp_path):
    with Store(tmp_path / "study.result") as store:
        run = store.begin("hospitals", {"sites": ["north", "south"], "rounds": 9}, np.zeros(1), clients=2)
        store.fail(run, 3, 1, "south: it sleeps")
        store.finish(run, "failed", "too few", {"epsilon": 1.5, "delta": 1e-5})
    with RunIndex(tmp_path) as index:
        shown = index.details("study.result:1")
    assert shown["clients"] == ["north", "south"]
    assert shown["failures"] == [[3, 1, "south: it sleeps"]]
    assert shown["extra"]["epsilon"] == 1.5
    assert shown["status"] == "failed"


def test_numbers_that_json_does_not_have():
    records = [Record(1, 2, 3, 4, 0.5, 0.1, float("inf"), {"correction_length": float("nan")}, (2,), (None,))]
    shown = json.loads(dumps(plain(columns(records))))
    assert shown["monitor"] == [None]
    assert shown["diagnostics"] == {"correction_length": [None]}
    assert shown["distances"] == [[None]]


@pytest.mark.parametrize("key", ["", "runs.db", "runs.db:99", "runs.db:-1", "../runs.db:1"])
def test_keys_that_name_no_run(kept, key):
    with RunIndex(kept) as index, pytest.raises(StoreError):
        index.details(key)


def test_a_folder_is_watched(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_FRESH", 0.0)
    monkeypatch.setattr(index_module, "_AGAIN", 0.0)

    def names():
        return [run["key"] for run in index.refresh()["runs"]]

    with RunIndex(tmp_path) as index:
        assert names() == []
        (tmp_path / "notes.txt").write_text("not looked at")
        not_a_database(tmp_path / "other.db")
        assert names() == []
        assert len(index.refresh()["problems"]) == 1
        keep(tmp_path / "one.db", rounds=1)
        assert names() == ["one.db:1"]
        keep(tmp_path / "two.result", rounds=1)
        keep(tmp_path / "one.db", rounds=2)
        assert names() == ["one.db:2", "two.result:1", "one.db:1"]
        for file in tmp_path.glob("one.db*"):
            file.unlink()
        assert names() == ["two.result:1"]
        (tmp_path / "other.db").unlink()
        keep(tmp_path / "other.db", rounds=3)
        assert names() == ["other.db:1", "two.result:1"]
        assert index.refresh()["problems"] == []


def test_a_file_that_takes_the_place_of_another_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_FRESH", 0.0)
    keep(tmp_path / "runs.db", rounds=1, name="before")
    keep(tmp_path / "next.db.new", rounds=1, name="after")
    with RunIndex(tmp_path / "runs.db") as index:
        assert index.refresh()["runs"][0]["name"] == "before"
        (tmp_path / "next.db.new").replace(tmp_path / "runs.db")
        assert index.refresh()["runs"][0]["name"] == "after"


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path, going_on):
    path = tmp_path / "runs.db"
    process = going_on(path)
    wait_for(path.exists)
    with RunIndex(tmp_path) as index:
        wait_for(lambda: [run for run in index.refresh()["runs"] if run["status"] == "running" and run["rounds"] > 1])
        process.kill()
        process.wait()
        run = wait_for(lambda: [run for run in index.refresh()["runs"] if run["status"] == "interrupted"])[0]
        assert index.details(run["key"])["message"].startswith("its process is gone; ")


def test_runs_of_one_problem_and_of_one_setting(tmp_path):
    """Seeds are of one group; another step size is another group of the same problem; another box another problem."""
    path = tmp_path / "runs.db"
    for settings in ({"seed": 1}, {"seed": 2}, {"algorithm": FedZO(local_steps=3)}, {"name": "another"}):
        keep(path, rounds=1, **settings)
    with Store(path) as store:
        store.begin("FedZO", store.settings(1) | {"bounds": [[0, 1], [0, 1]]}, np.zeros(2), clients=3)
    with RunIndex(path) as index:
        runs = index.refresh()["runs"][::-1]
    groups, problems = [run["group"] for run in runs], [run["problem"] for run in runs]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 4
    assert len(set(problems[:4])) == 1
    assert problems[4] != problems[0]
    assert [run["seed"] for run in runs[:2]] == [1, 2]
