"""Renaming, tagging and deleting: what changes, what is refused, and who may do it."""

import json
import sqlite3

import httpx
import numpy as np
import pytest

from fzoos.result import Record
from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.dashboard.server import application, change_run, token_for
from fzoos.runs.reader import read, runs_at
from fzoos.runs.rows import LONGEST_NAME
from fzoos.runs.store import Store, StoreError

from .conftest import keep, serving

TOKEN = "a-word-that-nobody-guesses"


@pytest.fixture
def path(tmp_path):
    """Two runs."""
    for name in ("first", "second"):
        keep(tmp_path / "runs.db", rounds=2, name=name)
    return tmp_path / "runs.db"


def rows(path):
    """How many rows of each table belong to run 1 and to run 2."""
    with sqlite3.connect(path) as db:
        tables = {"runs": "id"} | dict.fromkeys(("rounds", "query_values", "failures"), "run")
        found = {t: [db.execute(f"SELECT count(*) FROM {t} WHERE {c} = {r}").fetchone()[0] for r in (1, 2)]
                 for t, c in tables.items()}  # fmt: skip
    db.close()
    return found


def test_a_run_is_renamed_and_tagged_and_stays_intact(path):
    before = read(f"{path}:1")
    with Store(path, create=False) as editor:
        editor.rename(1, before.summary.started, "  a  better name ")
        editor.tag(1, before.summary.started, ["kept", "noisy"])
        editor.check(1)  # its digest fits
    after = read(f"{path}:1")
    assert after.summary.name == "a better name"
    assert after.summary.tags == ("kept", "noisy")
    assert after.result.history == before.result.history
    assert read(f"{path}:2").summary.name == "second"


def test_a_deleted_run_leaves_nothing_and_the_others_stay(path):
    with Store(path, create=False) as editor:
        editor.tag(1, editor.runs[0].started, ["kept"])
        editor.tag(2, editor.runs[1].started, ["kept"])
    second = read(f"{path}:2")
    with Store(path, create=False) as editor:
        editor.delete(1, editor.runs[0].started)
    found = rows(path)
    assert {name: counts[0] for name, counts in found.items()} == dict.fromkeys(found, 0)
    assert found["rounds"][1] == 2
    assert runs_at(path)[0].tags == ("kept",)
    after = read(f"{path}:2")
    assert after.result.history == second.result.history
    assert [run.id for run in runs_at(path)] == [2]


@pytest.mark.parametrize("name", ["   ", "x" * (LONGEST_NAME + 1), 7, "a\x1b[2Jb"])
def test_names_that_are_none(path, name):
    with Store(path, create=False) as editor, pytest.raises(ValueError, match="name must have"):
        editor.rename(1, editor.runs[0].started, name)


def test_an_id_that_was_given_again_is_not_taken_for_the_run_that_had_it(path):
    """A page that still shows the deleted run 2 must not delete the new one."""
    old = runs_at(path)[1].started
    with Store(path, create=False) as editor:
        editor.delete(2, old)
    keep(path, rounds=1, name="another")
    assert [run.id for run in runs_at(path)] == [1, 2]
    with Store(path, create=False) as editor:
        for change in (
            lambda: editor.delete(2, old),
            lambda: editor.rename(2, old, "x"),
            lambda: editor.tag(2, old, []),
        ):
            with pytest.raises(StoreError, match="no such run"):
                change()
    assert runs_at(path)[1].name == "another"


def test_a_running_run_is_not_deleted(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        store.begin("mine", {}, np.zeros(1), clients=1)  # this process is alive
    with Store(tmp_path / "runs.db", create=False) as editor, pytest.raises(StoreError, match="is running"):
        editor.delete(1, editor.runs[0].started)


def test_a_study_is_not_deleted(tmp_path):
    """Its sites have journals that go on from it."""
    with Store(tmp_path / "result.db") as store:
        run = store.begin("study", {}, np.zeros(1), clients=1)
        store.checkpoint(run, b"state", [0], Record(1, 1, 1, 1, 0.1, 0.1, None, {}, (1,), (None,)), np.zeros(1))
        store.finish(run, "completed", "", {})
    with Store(tmp_path / "result.db", create=False) as editor, pytest.raises(StoreError, match="a study's"):
        editor.delete(1, editor.runs[0].started)


def test_a_damaged_run_is_not_changed(path):
    """Its digest would fit again, and the damage would be hidden."""
    with sqlite3.connect(path) as db:
        db.execute("UPDATE rounds SET monitor = 7 WHERE run = 1")
    db.close()
    with Store(path, create=False) as editor:
        started = editor.runs[0].started
        for change in (lambda: editor.rename(1, started, "fine"), lambda: editor.tag(1, started, ["fine"])):
            with pytest.raises(StoreError, match="is damaged"):
                change()


# The server


def change(url, path, *, headers=None, without=(), **what):
    """A request as our own page sends it, but for what is said."""
    with httpx.Client() as visitor:
        visitor.get(f"{url}?token={TOKEN}")
        page = visitor.get(url).text
        secret = page.partition('data-secret="')[2].partition('"')[0]
        known = {"origin": url.rstrip("/"), "content-type": "application/json", "x-fzoos-secret": secret}
        known |= headers or {}
        known = {name: value for name, value in known.items() if name not in without}
        body = {"key": "runs.db:1", "started": runs_at(path)[0].started} | what
        return visitor.post(url + "api/change", content=json.dumps(body), headers=known)


@pytest.fixture
def url(path):
    with serving(path, token=TOKEN, edit=True) as address:
        yield address


def test_the_page_changes_runs(url, path):
    assert change(url, path, name="renamed").json() == {"done": True}
    assert change(url, path, tags=["a", "b"]).json() == {"done": True}
    with httpx.Client() as visitor:
        visitor.get(f"{url}?token={TOKEN}")
        run = visitor.get(url + "api/runs").json()["runs"][1]
    assert (run["name"], run["tags"]) == ("renamed", ["a", "b"])
    assert change(url, path, delete=True).json() == {"done": True}
    assert [run.name for run in runs_at(path)] == ["second"]


@pytest.mark.parametrize(
    ("headers", "without"),
    [
        ({"origin": "http://evil.example"}, ()),
        ({"origin": "http://127.0.0.1:1"}, ()),  # another port of this machine: the cookie goes there, too
        ({}, ("origin",)),
        ({"sec-fetch-site": "same-site"}, ()),
        ({"content-type": "text/plain"}, ()),  # what a form of another site can send
        ({}, ("content-type",)),
        ({"x-fzoos-secret": "guessed"}, ()),
    ],
)
def test_requests_that_are_not_our_pages_change_nothing(url, path, headers, without):
    answer = change(url, path, headers=headers, without=without, delete=True)
    assert answer.status_code == 403
    assert answer.json()["error"]
    assert len(runs_at(path)) == 2


def test_without_the_token_nothing_is_changed(url, path):
    with httpx.Client() as visitor:
        visitor.get(f"{url}?token={TOKEN}")
        secret = visitor.get(url).text.partition('data-secret="')[2].partition('"')[0]
    headers = {"origin": url.rstrip("/"), "content-type": "application/json", "x-fzoos-secret": secret}
    body = json.dumps({"key": "runs.db:1", "started": runs_at(path)[0].started, "delete": True})
    assert httpx.post(url + "api/change", content=body, headers=headers).status_code == 401
    foreign = headers | {"host": "evil.example", "origin": "http://evil.example"}
    assert httpx.post(url + "api/change", content=body, headers=foreign).status_code == 403
    assert len(runs_at(path)) == 2


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ({}, 400),
        ({"name": ""}, 400),
        ({"tags": [7]}, 400),
        ({"delete": False}, 400),
        ({"name": "a", "delete": True}, 400),
        ({"name": "a", "started": "now"}, 400),
        ({"name": "a", "key": "runs.db:9"}, 409),
        ({"name": "a", "key": "../runs.db:1"}, 404),
        ({"name": "a", "started": 1.0}, 409),
        ({"name": "a", "started": 10**400}, 400),
        ({"name": "a", "key": "runs.db:" + "9" * 19}, 404),
        ({"name": "a\0b"}, 400),
        ({"name": "a" * 20000}, 413),
    ],
)
def test_changes_that_make_no_sense(url, path, what, status):
    answer = change(url, path, **what)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert [run.name for run in runs_at(path)] == ["first", "second"]


@pytest.mark.parametrize("body", [b"[" * 9000, b"\xff", b"[]", b'{"key": "runs.db:1", "started": %s}' % (b"9" * 5000)])
def test_bodies_that_are_no_change(path, body):
    with RunIndex(path) as index:
        assert change_run(index, body)[0] == 400


def test_changes_need_a_token(path):
    with RunIndex(path) as index, pytest.raises(ValueError, match="token"):
        application(index, edit=True)
    assert token_for("127.0.0.1", None, edit=True) is not None
    assert token_for("127.0.0.1", None) is None
