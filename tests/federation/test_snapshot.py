"""A client's state beside its journal: the bits are those of the replay, and whatever is wrong with it costs a replay.

Where a run is compared with another, that one answers all of its journal before every message, as sites without
snapshots do.
"""

import hashlib
import json
import logging
import os
import pickle
import shutil
import sqlite3
import stat
import sys
from dataclasses import replace

import numpy as np
import pytest
import study_runs
from fault_jobs import CENTRES, TABLES, make_study
from study_runs import THREE

import fzoos.federation.journal
import fzoos.federation.snapshot
from fzoos.engines.local import LocalEngine
from fzoos.federation.client import Client
from fzoos.federation.journal import Journal, JournalError
from fzoos.federation.site import StudySite
from fzoos.federation.snapshot import Snapshot, SnapshotFile
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import encode, pack, unpack
from fzoos.messages.message import Message


@pytest.fixture
def answered(monkeypatch):
    """One entry for each request that any client has answered, or answered once more."""
    seen, answer = [], Client.answer

    def noted(self, request):
        seen.append(request)
        return answer(self, request)

    monkeypatch.setattr(Client, "answer", noted)
    return seen


def run(study, folder, **settings):
    return study_runs.run(study, folder, restart=True, **settings)[0]


def replies(study, folder):
    """All that the sites have answered, byte for byte."""
    found = {}
    for site in study.sites:
        with Journal(folder / f"{site}.journal", study.id, site) as journal:
            found[site] = [(entry.body, entry.reply, entry.generator) for entry in journal.requests()]
    return found


def boxes():
    return [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in CENTRES]


def noisy():
    """Values that are wrong by up to 0.3, always the same at a point."""

    def box(x, c):
        return (
            float(np.sum((x - c) ** 2)) + 0.3 * int.from_bytes(hashlib.sha256(x.tobytes()).digest()[:4], "big") / 2**32
        )

    return [lambda x, c=c: box(x, c) for c in CENTRES]


def failing():
    """Raises in a corner, which x0 is near."""

    def box(x, c):
        if x[0] > 0.8:
            raise OSError("no licence for secret-word")
        return float(np.sum((x - c) ** 2))

    return [lambda x, c=c: box(x, c) for c in CENTRES]


SPACE = fzoos.Space(u=fzoos.Real(-1.0, 1.0), n=fzoos.Integer(0, 9))
MEASURED = {**TABLES["fzoos"], "length": {"name": "Measured"}, "vector": "fixed", "points": 10, "feature_points": 12}
DIFFICULT = {
    "a star": (make_study("auto", THREE, dim=60, rounds=6), boxes()),
    "a cached kernel": (make_study("auto", THREE, dim=260, rounds=4), boxes()),
    "a carried star": (make_study("auto", THREE, dim=1100, rounds=2), boxes()),
    "noise": (make_study("auto", THREE, dim=5, rounds=60), noisy()),
    "constraints": (
        make_study("auto", THREE, rounds=4),
        [lambda x, c=c: (float(np.sum((x - c) ** 2)), float(x[0] - 0.1)) for c in CENTRES],
    ),
    "failures": (make_study("auto", THREE, rounds=5, x0=0.9, on_failure="skip"), failing()),
    "few of them": (make_study("auto", THREE, rounds=6, participation=2), boxes()),
    "values": (make_study("fedcma", THREE, rounds=4, share_values=True), boxes()),
    "stochastic": (make_study("scaffoldii", THREE, rounds=4, precision="stochastic"), boxes()),
    "kept moments": (make_study("hiso", THREE, {"optimizer": {"name": "adam", "restart": False}}, rounds=4), boxes()),
    "whole numbers": (
        Study("demo", x0={"u": 0.5, "n": 4}, bounds=SPACE, sites=THREE, algorithm={"name": "auto"}, rounds=5),
        [lambda v, c=c: (v["u"] - c) ** 2 + (v["n"] - 2) ** 2 / 25 for c in CENTRES],
    ),
    "measured": (replace(make_study("fedzo", THREE, rounds=4), algorithm=MEASURED), boxes()),
    "one exchange": (replace(make_study("fedzo", THREE), algorithm={**TABLES["fzoos"], "refresh": False}), boxes()),
}


class Restored:
    """A client, and a second one that is new for every request and restored from a file: both must reply the same."""

    def __init__(self, study, index, objective, folder):
        self._client = study.client(index, objective)
        self._other = lambda: study.client(index, objective)
        self._file = SnapshotFile(folder / str(index), study.id, "site")

    @property
    def queries(self):
        return self._client.queries

    def handle(self, request):
        other, snapshot = self._other(), self._file.read()
        if snapshot is not None:
            other.restore(snapshot.state)
        reply, found = self._client.handle(request), other.handle(request)
        assert encode(found, "study") == encode(reply, "study")
        self._file.write(Snapshot({}, 0, other.state()))
        return reply

    def stop(self):
        pass


@pytest.mark.parametrize("case", DIFFICULT)
def test_a_restored_client_computes_the_same_bits(folder, case):
    study, objectives = DIFFICULT[case]
    clients = [Restored(study, i, objective, folder) for i, objective in enumerate(objectives)]
    with LocalEngine(clients) as engine:
        assert run_study(study, engine, folder / "result.db").status in ("completed", "converged")


@pytest.mark.parametrize("algorithm", TABLES)
def test_the_bits_of_the_replay(folder, answered, algorithm):
    """For every algorithm: replies and generators, byte for byte; and no request is answered twice."""
    study = make_study(algorithm, THREE, rounds=5)
    replayed = run(study, folder / "replayed")
    twice = len(answered)
    answered.clear()
    kept = run(study, folder / "kept", snapshots=True)
    assert kept.x.tobytes() == replayed.x.tobytes()
    found = replies(study, folder / "kept")
    assert found == replies(study, folder / "replayed")
    assert len(answered) == sum(map(len, found.values())) < twice


@pytest.mark.parametrize("algorithm", ["auto", "fzoos"])
def test_what_came_later_is_answered_from_there(folder, answered, algorithm):
    """A snapshot of an earlier round, and the rest of the journal: the bits of the whole replay."""
    study = make_study(algorithm, THREE, rounds=3)
    run(study, folder, snapshots=True)
    old = {path: path.read_bytes() for path in folder.glob("*.snapshot")}
    run(replace(study, rounds=5), folder, resume=True, snapshots=True)
    for path, data in old.items():
        path.write_bytes(data)
    answered.clear()
    whole = replace(study, rounds=6)
    result = run(whole, folder, resume=True, snapshots=True)
    after = len(answered)
    assert result.x.tobytes() == run(whole, folder / "replayed").x.tobytes()
    assert after < len(replies(whole, folder)["a"]) * 3  # two rounds and a new one, of six


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


WRONG = {
    "missing": (lambda data: None, None),
    "empty": (lambda data: b"", "damaged"),
    "cut": (lambda data: data[:-7], "damaged"),
    "another format": (lambda data: data.replace(b"snapshot 2", b"snapshot 3", 1), "of another version"),
    "a flip in the head": (lambda data: flipped(data, 20), "damaged"),
    "a flip in the middle": (lambda data: flipped(data, len(data) // 2), "damaged"),
    "a flip at the end": (lambda data: flipped(data, len(data) - 1), "damaged"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_whatever_is_wrong_costs_a_replay(folder, caplog, wrong):
    """A machine that was replaced and has the journal alone, or a damaged snapshot: said in one line, and no bit
    differs. After the next answer there is one again."""
    change, words = WRONG[wrong]
    study = make_study("auto", THREE, rounds=3)
    run(study, folder, snapshots=True)
    path = folder / "b.journal.snapshot"
    data = change(path.read_bytes())
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    longer = replace(study, rounds=4)
    with caplog.at_level(logging.WARNING, "fzoos"):
        result = run(longer, folder, resume=True, snapshots=True)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == (words is not None)
    assert all(f"the snapshot {path} is not used: it is" in line and words in line for line in said)
    assert result.x.tobytes() == run(longer, folder / "replayed").x.tobytes()
    caplog.clear()
    assert path.exists()
    run(replace(study, rounds=5), folder, resume=True, snapshots=True)
    assert not caplog.records


def of_another_client(header, arrays):
    header["numbers"].pop("refreshed")


def unknown_kind(header, arrays):
    header["kinds"]["trajectory_x"] = ["|O", "C"]


def command(header, arrays):
    header["numbers"]["x_round"] = ["partial", ["named", "os:system"], ["touch", "ran"]]


def object_of_a_class(header, arrays):
    header["numbers"]["half"] = {"class": "subprocess:Popen", "state": {"args": "touch ran"}}


def statement(header, arrays):
    header["mark"] = {"sqlite_master; ATTACH 'ran' AS ran": [1, ""]}


def endless_journal(header, arrays):
    header["mark"]["queries"][0] = 2**70


def not_a_number(header, arrays):
    header["read"] = "many"


CRAFTED = [of_another_client, unknown_kind, command, object_of_a_class, statement, endless_journal, not_a_number]


@pytest.mark.parametrize("change", CRAFTED)
def test_a_crafted_snapshot_is_ignored_and_runs_nothing(folder, caplog, monkeypatch, change):
    """Somebody who can write the file gives it the right digest, and puts in names of modules, classes or commands."""
    monkeypatch.chdir(folder)
    study = make_study("fedzo", ("a",), rounds=2)
    run(study, folder, snapshots=True)
    path, head = folder / "a.journal.snapshot", len(b"fzoos snapshot 2\n") + 32
    header, arrays = unpack(path.read_bytes()[head:], 2**40, 2**40, 2**40)
    change(header, arrays)
    write_snapshot(path, pack(header, arrays))
    modules, longer = set(sys.modules), replace(study, rounds=3)
    result = run(longer, folder, resume=True, snapshots=True)
    assert ["is not used" in record.getMessage() for record in caplog.records] == [True]
    assert set(sys.modules) == modules
    assert not (folder / "ran").exists()
    assert result.x.tobytes() == run(longer, folder / "replayed").x.tobytes()


class Malicious:
    def __reduce__(self):
        return os.system, ("touch ran",)


OLD = {
    "about": {},
    "modules": {},
    "state": [
        [None, "object", "builtins:object", {"a": ["partial", ["named", "os:system"], ["tuple", ["touch ran"]]]}]
    ],
}


@pytest.mark.parametrize("content", [pickle.dumps(Malicious()), json.dumps(OLD).encode(), b"FZM1", b""])
def test_a_crafted_file_that_is_no_snapshot(folder, caplog, monkeypatch, content):
    monkeypatch.chdir(folder)
    study = make_study("fedzo", ("a",), rounds=2)
    run(study, folder, snapshots=True)
    write_snapshot(folder / "a.journal.snapshot", content)
    assert run(replace(study, rounds=3), folder, resume=True, snapshots=True).status == "completed"
    assert ["is not used" in record.getMessage() for record in caplog.records] == [True]
    assert not (folder / "ran").exists()


def write_snapshot(path, content):
    """With a digest that is right."""
    path.write_bytes(b"fzoos snapshot 2\n" + hashlib.sha256(content).digest() + content)


def test_the_snapshot_of_another_journal(folder, caplog):
    """A journal from a backup that continued differently: the snapshot of the other continuation is not used."""
    study = make_study("auto", ("a",), rounds=3)
    run(study, folder, snapshots=True)
    run(study, folder / "other", snapshots=True, objectives=[lambda x: float(np.sum(x**4))])
    shutil.copy(folder / "other" / "a.journal.snapshot", folder)
    longer = replace(study, rounds=4)
    result = run(longer, folder, resume=True, snapshots=True)
    assert ["it belongs to another journal" in record.getMessage() for record in caplog.records] == [True]
    assert result.x.tobytes() == run(longer, folder / "replayed").x.tobytes()


def test_a_snapshot_without_its_journal(folder, caplog):
    """A new run whose journals were moved away, but not what is beside them."""
    study = make_study("auto", ("a",), rounds=3)
    first = run(study, folder, snapshots=True)
    for path in folder.glob("a.journal*"):
        if path.suffix != ".snapshot":
            path.unlink()
    assert run(study, folder, snapshots=True).x.tobytes() == first.x.tobytes()
    assert len(caplog.records) == 1


def test_killed_while_it_is_written(folder, nursery):
    """SIGKILL at every fourth event in its writing: the answer is in the journal, the last snapshot or the new one is
    there, and the next answer has the same bits."""
    settings = {"algorithm": "auto", "sites": ["a"], "rounds": 3}
    study = make_study(**settings | {"sites": ("a",)})
    run(study, folder / "whole", snapshots=True)
    requests = [entry[0] for entry in replies(study, folder / "whole")["a"]]
    expected = [entry[1] for entry in replies(study, folder / "whole")["a"]]
    start = folder / "start"
    start.mkdir()
    for data in requests[:2]:
        nursery.run("keep", folder=str(start), settings=settings, request=data.hex(), moment=None)

    def kept_until(moment):
        there = shutil.copytree(start, folder / f"{moment}")
        about = {"folder": str(there), "settings": settings, "request": requests[2].hex()}
        return there, *nursery.run("keep", **about, moment=moment)

    there, found, status = kept_until(None)
    assert status == 0
    assert found["seen"] > 30
    for moment in range(1, found["seen"] + 1, 4):
        there, found, status = kept_until(moment)
        assert status == -9
        with StudySite(study, 0, boxes()[0], there / "a.journal", site_seed=study.seed, snapshots=True) as site:
            assert site.answer(requests[2]) == expected[2]
            assert site.answer(requests[3]) == expected[3]
        assert [path.name for path in there.glob("*.snapshot*")] == ["a.journal.snapshot"]
        shutil.rmtree(there)


def test_it_holds_no_more_than_the_journal(folder):
    """Neither the site's seed nor what an objective said; nobody else can read it, whatever the umask is."""
    study = make_study("auto", ("a",), rounds=3, x0=0.9, on_failure="skip")
    before = os.umask(0)
    try:
        run(study, folder, snapshots=True, site_seed=0x5EC2E75EED5EC2E75EED, objectives=failing()[:1])
    finally:
        os.umask(before)
    path = folder / "a.journal.snapshot"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = path.read_bytes()
    assert str(0x5EC2E75EED5EC2E75EED).encode() not in data
    assert f"{0x5EC2E75EED5EC2E75EED:x}".encode() not in data
    assert b"secret-word" not in data


def test_a_disk_that_is_full(folder, monkeypatch, caplog):
    """The answer is given all the same: it is in the journal."""

    def full(self, snapshot):
        raise OSError("no space left on device")

    monkeypatch.setattr(fzoos.federation.snapshot.SnapshotFile, "write", full)
    study = make_study("auto", ("a",), rounds=2)
    result = run(study, folder, snapshots=True)
    assert result.status == "completed"
    assert {record.getMessage() for record in caplog.records} == {
        "site a continues without a snapshot: no space left on device"
    }


# How much of the journal is read


def study_of_many(rounds):
    return Study("many", x0=0.5, dim=2, bounds=(-1.0, 1.0), sites=("a",), algorithm={"name": "fedzo"}, rounds=rounds)


def test_the_cost_of_a_message_is_bounded(folder, answered, monkeypatch):
    """Message 100 reads the rows of one message, as message 5 does, but for one in many that reads all: every row is
    read some five times in all. (Each message has 6 queries, a request and a reply: 8 rows.)"""
    study, read, link_of = make_study("fedzo", ("a",)), [], fzoos.federation.journal.link_of

    def noted(before, row):
        read[-1] += 1
        return link_of(before, row)

    monkeypatch.setattr(fzoos.federation.journal, "link_of", noted)
    monkeypatch.setattr(fzoos.federation.snapshot, "_FEW", 40)
    for round in range(1, 101):
        read.append(0)
        request = encode(Message("update", round, {"x": np.full(2, 0.5)}), study.id)
        with StudySite(study, 0, boxes()[0], folder / "a.journal", site_seed=1, snapshots=True) as site:
            site.answer(request)
    assert len(answered) == 100
    assert sum(count == 8 for count in read) > 85  # those that it writes
    assert sum(read) < 10 * 100 * 8


def test_damage_in_rows_that_are_not_read(folder):
    """It is not sent: a reply from there is checked by itself. And it is found when all rows are read again."""
    study = study_of_many(1)
    requests = [encode(Message("update", round, {"x": np.full(2, 0.5)}), study.id) for round in range(1, 7)]
    path = folder / "a.journal"

    def answer(request):
        with StudySite(study, 0, boxes()[0], path, site_seed=1, snapshots=True) as site:
            return site.answer(request)

    first = [answer(request) for request in requests[:4]]
    with sqlite3.connect(path) as db:
        db.execute("UPDATE replies SET body = ? WHERE id = 2", (first[2],))
    db.close()
    assert answer(requests[0]) == first[0]
    assert b"cannot use its journal" in answer(requests[1])
    answer(requests[4])  # more than a thousand rows by now
    with pytest.raises(JournalError, match="damaged at row 2 of replies"):
        answer(requests[5])
