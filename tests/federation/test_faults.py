"""Processes killed for real, disks full for real: afterwards the run is the one that nobody disturbed.

Everything is compared with an undisturbed run bit for bit, and the objectives' own logs, written before a value is out,
with the journals: every query that was paid for is kept, but for the one in flight at each kill.
"""

import random
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from fault_jobs import CENTRES, TABLES, Box, logged, make_study, receive, send

import fzoos
from fzoos.federation.exchange import Outcome
from fzoos.federation.site import StudySite
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import RemoteFailure, decode, encode


@pytest.fixture(scope="module")
def undisturbed(nursery, tmp_path_factory):
    """x, queries of each site and events of a run that nothing happens to; by its settings."""
    known = {}

    def find(**settings):
        key = repr(sorted(settings.items()))
        if key not in known:
            path = tmp_path_factory.mktemp("undisturbed")
            result, status = nursery.run("study", folder=str(path), settings=settings, kill_at=None)
            assert (status, result["status"]) == (0, "completed")
            study = make_study(**settings)
            known[key] = result, [logged(path, site) for site in study.sites]
        return known[key]

    return find


def journal(path):
    """Points, values, errors in a journal."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT x, y, error FROM queries ORDER BY id").fetchall()
    return [(np.frombuffer(x)[:2], y, error) for x, y, error in rows]  # constraints may follow x


def compare(folder, study, whole, kills, journals="journals"):
    """The objectives' logs against the journals: all that was paid for is kept, but for one query for each kill, and
    the journals hold just the queries of the undisturbed run."""
    lost = 0
    for i, site in enumerate(study.sites):
        kept = np.array([x for x, _, _ in journal(folder / journals / f"{site}.journal")])
        paid = logged(folder, site)
        assert np.array_equal(kept, whole[i])
        assert {row.tobytes() for row in kept} <= {row.tobytes() for row in paid}
        lost += len(paid) - len(kept)
    assert 0 <= lost <= kills
    return lost


# A whole study killed: server and sites at once


CONSTRAINED = [{"algorithm": name, "name": "constrained", "rounds": 4} for name in ("auto", "fedzo", "fedcma")]
RUNS = [pytest.param({"algorithm": name}, id=name) for name in TABLES] + [
    pytest.param(settings, id=f"constrained {settings['algorithm']}") for settings in CONSTRAINED
]


@pytest.mark.parametrize("settings", RUNS)
def test_killed_at_any_moment(nursery, folder, undisturbed, settings):
    """Killed again and again, at moments all over the code that keeps things (before, in and after every commit), and
    taken up each time: the run ends as if nothing had been."""
    whole, points = undisturbed(**settings)
    dice, kills = random.Random(settings["algorithm"]), 0
    job = {"folder": str(folder), "settings": settings, "resume": True}
    while True:
        result, status = nursery.run("study", **job, kill_at=dice.randrange(1, whole["events"] // 4))
        if result is not None:
            break
        assert status == -9
        kills += 1
        if kills == 12:  # enough; kills that come sooner than the first commit would go on for ever
            result, status = nursery.run("study", **job)
            break
    assert kills >= 4
    assert (status, result["status"]) == (0, "completed")
    assert result["x"] == whole["x"]
    compare(folder, make_study(**settings), points, kills)
    assert fzoos.load(folder).x.tobytes().hex() == whole["x"]
    assert (fzoos.load(folder).feasible is None) == (settings not in CONSTRAINED)


@pytest.mark.parametrize("part", [0, 3, 7])
def test_killed_once(nursery, folder, undisturbed, part):
    """One kill in each eighth of a run, at a moment drawn from it, and then all the way."""
    whole, points = undisturbed(algorithm="auto")
    step = whole["events"] // 8
    moment = part * step + random.Random(part).randrange(1, step)
    job = {"folder": str(folder), "settings": {"algorithm": "auto"}}
    assert nursery.run("study", **job, kill_at=moment) == (None, -9)
    result, _ = nursery.run("study", **job, resume=True)
    assert result["x"] == whole["x"]
    compare(folder, make_study("auto"), points, kills=1)


@pytest.mark.parametrize("settings", [{"algorithm": "fzoos"}, CONSTRAINED[0]], ids=["fzoos", "constrained"])
def test_killed_in_every_third_query(nursery, folder, undisturbed, settings):
    """Killed inside the objective, the query being paid for and not yet kept: just that one is asked again."""
    whole, points = undisturbed(**settings)
    total = sum(map(len, points))
    job, kills = {"folder": str(folder), "settings": settings, "resume": True}, 0
    while True:
        result, status = nursery.run("study", **job, kill_query=4)
        if result is not None:
            break
        assert status == -9
        kills += 1
    assert kills == (total - 1) // 3  # three are kept each time and the fourth is lost
    assert result["x"] == whole["x"]
    assert compare(folder, make_study(**settings), points, kills) == kills


def test_killed_in_a_batch(nursery, folder, undisturbed):
    """Vectorised, a batch is one query in flight: it is asked again whole, and nothing else is."""
    settings = {"algorithm": "scaffoldi", "vectorized": True}
    whole, points = undisturbed(**settings)
    job, kills = {"folder": str(folder), "settings": settings, "resume": True}, 0
    while (result := nursery.run("study", **job, kill_query=2)[0]) is None:
        kills += 1
    assert result["x"] == whole["x"]
    assert compare(folder, make_study(**settings), points, 3 * kills) == 3 * kills
    assert kills > 4


def test_killed_by_somebody_else(nursery, folder, undisturbed):
    """From outside, at no particular moment, also inside SQLite."""
    settings = {"algorithm": "auto", "rounds": 6}
    whole, points = undisturbed(**settings)
    dice, kills, result = random.Random(2), 0, None
    while kills < 8 and result is None:
        child = nursery.start("study", folder=str(folder), settings=settings, resume=True)
        child.line.settimeout(dice.uniform(0.005, 0.1))
        try:
            result, _ = child.result()
        except TimeoutError:
            assert child.kill() == -9
            kills += 1
    result = result or nursery.run("study", folder=str(folder), settings=settings, resume=True)[0]
    assert result["x"] == whole["x"]
    compare(folder, make_study(**settings), points, kills)


def test_killed_and_started_again(nursery, folder, undisturbed):
    """A server that has lost its file altogether pays for nothing twice: the journals have the values."""
    whole, points = undisturbed(algorithm="scaffoldii")
    job = {"folder": str(folder), "settings": {"algorithm": "scaffoldii"}}
    assert nursery.run("study", **job, kill_at=3 * whole["events"] // 4) == (None, -9)
    for file in folder.glob("result.db*"):
        file.unlink()
    assert nursery.run("study", **job)[0]["x"] == whole["x"]
    compare(folder, make_study("scaffoldii"), points, kills=1)


# The server killed, the sites alive


@pytest.mark.parametrize("algorithm", ["auto", "fzoos"])
def test_server_killed(nursery, folder, undisturbed, algorithm):
    """The sites never notice: not one query more than in the undisturbed run, and the same x."""
    settings = {"algorithm": algorithm}
    whole, points = undisturbed(**settings)
    study = make_study(**settings)
    sites = [
        StudySite(study, i, Box(CENTRES[i], folder / f"{site}.log"), folder / f"{site}.journal", site_seed=study.seed)
        for i, site in enumerate(study.sites)
    ]
    dice, kills, result = random.Random(algorithm), 0, None
    while result is None:
        moment = {} if kills == 6 else {"kill_at": dice.randrange(1, 700)}
        child = nursery.start("server", folder=str(folder), settings=settings, resume=True, **moment)
        while (data := receive(child.line)) is not None and data[0] < len(sites):
            try:
                send(child.line, sites[data[0]].answer(data[1:]))
            except BrokenPipeError:  # killed while the site was at work: its request has no answer, nor is it a result
                data = None
                break
        if data is None:
            assert child.wait() == -9
            kills += 1
        else:
            result = data
            assert child.wait() in (0, -9)  # the moment may come after the result
    for site in sites:
        site.close()
    assert kills >= 2
    found = fzoos.load(folder)
    assert found.status == "completed"
    assert found.x.tobytes().hex() == whole["x"]
    assert found.queries == sum(map(len, points))
    assert compare(folder, study, points, 0, journals=".") == 0


# A site killed, the server and the other sites alive


class Sites:
    """An engine whose sites are processes; one that is gone is started again for the next message.

    Args:
        kills: for each process of the site 0, one after another, the query that kills it; None: none does.
        limits: for each process of the site 0, the size to which its files may grow; None: any.
    """

    def __init__(self, nursery, folder, settings, kills=(), limits=()):
        self._nursery, self._folder, self._settings = nursery, folder, settings
        self._study, self._kills, self._limits = make_study(**settings), list(kills), list(limits)
        self._children = {}
        self.failed = []  # (client, kind, round)
        self.reasons = set()

    def exchange(self, requests, timeout):
        outcome = Outcome()
        for client, request in requests.items():
            if client not in self._children:
                self._children[client] = self._start(client)
            child = self._children[client]
            send(child.line, encode(request, self._study.id))
            data = receive(child.line)
            try:
                if data is None:
                    assert child.wait() == -9
                    raise RemoteFailure("the process is gone")
                outcome.replies[client] = decode(data, self._study.id)
            except RemoteFailure as error:
                outcome.failures[client] = error
                self.failed.append((client, request.kind, request.round))
                self.reasons.add(str(error))
                self._end(client)
        return outcome

    def _start(self, client):
        kill = self._kills.pop(0) if client == 0 and self._kills else None
        limit = self._limits.pop(0) if client == 0 and self._limits else None
        job = {"folder": str(self._folder), "settings": self._settings, "client": client, "kill_query": kill}
        return self._nursery.start("site", **job, limit=limit)

    def _end(self, client):
        child = self._children.pop(client)
        child.line.close()  # the end of its work, if it lives
        child.wait()

    def close(self):
        for client in list(self._children):
            self._end(client)


def test_site_killed_and_gone_on_without(nursery, folder):
    """Two of three are enough: the round goes on without it; what it had paid for is in its journal, in its trajectory
    and, as soon as it answers again, in the server's count."""
    settings = {"algorithm": "fzoos", "sites": ("a", "b", "c"), "min_clients": 2, "rounds": 4}
    sites = Sites(nursery, folder, settings, kills=[3, 3 + 1, None])
    result = run_study(make_study(**settings), sites, folder / "result.db")
    sites.close()
    # it dies in round 1 with 2 queries kept, comes back for the refresh of round 2 (3 queries), and dies in the update
    # that follows, with none kept; x has come with the refresh of round 3 again
    assert sites.failed == [(0, "update", 1), (0, "update", 2)]
    assert result.status == "completed"
    kept = [len(journal(folder / f"{site}.journal")) for site in "abc"]
    assert kept == [2 + 3 + 6 + 6, 7 + 3 * 6, 7 + 3 * 6]
    assert result.queries_per_client == tuple(kept)
    assert len(logged(folder, "a")) == kept[0] + 2
    paid = {row.tobytes() for row in logged(folder, "a")}
    assert {x.tobytes() for x, _, _ in journal(folder / "a.journal")} <= paid
    with StudySite(make_study(**settings), 0, Box(0.2), folder / "a.journal") as site:
        assert len(site._restore()._half.context.trajectory) == kept[0]


# A full disk


LIMITS = [("fzoos", limit) for limit in (3000, 20_000, 90_000)] + [("auto", 60_000)]


@pytest.mark.parametrize(("algorithm", "limit"), LIMITS)
def test_full_disk(nursery, folder, undisturbed, algorithm, limit):
    """No file may grow beyond the limit: the run fails in words, nothing that was kept is lost, and with room it ends
    as if nothing had been. A query whose value could not be kept is asked again; no other is."""
    settings = {"algorithm": algorithm}
    whole, points = undisturbed(**settings)
    job = {"folder": str(folder), "settings": settings, "resume": True}
    result, status = nursery.run("study", **job, limit=limit)
    assert status == 0
    words = result.get("error") or result["message"]
    assert result.get("status") in (None, "failed")
    assert "cannot be" in words
    assert "disk" in words or "large" in words
    assert "backup" not in words
    assert "damaged" not in words
    before = {site: _rows(folder / "journals" / f"{site}.journal") for site in "ab"}
    result, _ = nursery.run("study", **job)
    assert result["x"] == whole["x"]
    for site in "ab":
        assert _rows(folder / "journals" / f"{site}.journal")[: len(before[site])] == before[site]
    compare(folder, make_study(algorithm), points, kills=2)  # one at each site


def _rows(path):
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as db:
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            return []
        return db.execute("SELECT x, y, error, asked, link FROM queries ORDER BY id").fetchall()


def test_full_disk_at_a_site(nursery, folder):
    """The other sites and the server have room: the study goes on without the site, whose query in flight failed with
    a word about its journal and no more; with room again it is back, with all it had."""
    settings = {"algorithm": "scaffoldii", "sites": ("a", "b", "c"), "min_clients": 2, "rounds": 4}
    study = make_study(**settings)

    sites = Sites(nursery, folder, settings, limits=[60_000, 60_000])
    result = run_study(study, sites, folder / "result.db")
    sites.close()
    assert len(sites.failed) == 2
    assert {client for client, _, _ in sites.failed} == {0}
    assert sites.reasons == {"the site cannot use its journal; its own log says why"}
    assert result.status == "completed"
    kept = [len(journal(folder / f"{site}.journal")) for site in "abc"]
    assert result.queries_per_client == tuple(kept)
    assert 0 <= len(logged(folder, "a")) - kept[0] <= len(sites.failed)
