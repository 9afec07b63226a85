"""Asynchronous rounds: late answers are used, in the average over all, and a run can be repeated from its record."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import fzoos
from fzoos import FedZO, ScaffoldI
from fzoos.engines import LocalStudy
from fzoos.federation import Study
from fzoos.federation.asynchronous import AsynchronousServer
from fzoos.federation.exchange import Dropouts, Outcome, TooFewClients
from fzoos.federation.journal import Journal
from fzoos.federation.server_state import ServerState
from fzoos.messages.codec import decode
from fzoos.messages.message import Message

local_study = partial(LocalStudy, site_seed=0)  # runs are compared
SITES = ("a", "b", "c", "slow")
SMALL = {
    "name": "fzoos",
    "features": 20,
    "initial": 4,
    "active": {"candidates": 10, "picks": 2, "radius": 0.05},
    "refresh": {"candidates": 10, "picks": 3},
}
ALGORITHMS = {
    "fzoos": SMALL,
    "fedzo": {"name": "fedzo", "local_steps": 2},
    "scaffoldi": {"name": "scaffoldi", "local_steps": 2},
    "fedtrustregion": {"name": "fedtrustregion"},
}


def make_study(**settings):
    settings = {"rounds": 4, "algorithm": ALGORITHMS["fedzo"], **settings}
    return Study("demo", x0=0.5, dim=3, bounds=(0, 1), sites=SITES, **settings)


def bowls(gate=None):
    """A bowl for each site, with minima in different places; the last waits at the gate before each value."""

    def bowl(i):
        def f(x):
            if gate is not None and i == len(SITES) - 1:
                assert gate.wait(60)
            return float(np.sum((1.0 + i) * (x - 0.2 * i) ** 2))

        return f

    return [bowl(i) for i in range(len(SITES))]


@pytest.mark.parametrize("algorithm", ["fzoos", "fedtrustregion"])
def test_without_late_answers_it_is_the_same_run(tmp_path, algorithm):
    """With `enough` for all sites an exchange waits for all, and every number is that of a synchronous study."""
    study = make_study(algorithm=ALGORITHMS[algorithm])
    one = local_study(study, tmp_path / "one", bowls()).run()
    two = local_study(replace(study, enough=len(SITES)), tmp_path / "two", bowls()).run()
    assert np.array_equal(one.x, two.x)
    assert (one.queries_per_client, one.bytes_up, one.bytes_down) == (
        two.queries_per_client,
        two.bytes_up,
        two.bytes_down,
    )
    assert {record.arrivals for record in one.history} == {()}


@pytest.mark.parametrize("algorithm", ["scaffoldi", "fedtrustregion"])
def test_a_late_answer_is_used_and_the_run_repeated(tmp_path, algorithm):
    """The slow site answers nothing in two rounds. The others go on; then its answer of the first round comes, and it
    is asked again. The order is in the records, and with it the run is repeated bit for bit, at full speed."""
    gate = threading.Event()
    study = make_study(algorithm=ALGORITHMS[algorithm], enough=3, rounds=8)
    with_late = []

    def after(record):
        if record.round == 2:
            gate.set()
        with_late.append(any(3 in clients for clients in record.arrivals))

    first = local_study(study, tmp_path / "first", bowls(gate)).run(callback=after)
    assert first.status == "completed"
    assert not any(with_late[:2])
    again = local_study(study, tmp_path / "again", bowls(), repeat=first).run()
    assert np.array_equal(first.x, again.x)
    assert [r.arrivals for r in again.history] == [r.arrivals for r in first.history]
    assert fzoos.load(tmp_path / "first" / "result.db").history[-1].arrivals == first.history[-1].arrivals
    with Journal(tmp_path / "first" / "journals" / "slow.journal", study.id, "slow") as journal:
        rounds = [decode(entry.body, study.id).round for entry in journal.requests()]
    assert rounds[0] == 1
    assert all(r > 2 for r in rounds[1:])  # nothing was asked while it was busy
    never = local_study(replace(study, enough=None, min_clients=3), tmp_path / "never", [*bowls()[:3], _fails]).run()
    assert any(with_late)
    assert not np.array_equal(first.x, never.x)  # it made a difference


def _fails(x):
    raise RuntimeError("no value today")


class Scripted:
    """An engine of clients that answer when the script says so.

    Args:
        answer: client, request -> the reply.
        script: for each call of `gather`, whose answers come.
    """

    def __init__(self, answer, script):
        self._answer, self._script = answer, iter(script)
        self.busy, self.asked = {}, []

    def exchange(self, requests, timeout):
        raise AssertionError("asynchronous rounds gather")

    def gather(self, requests, timeout, enough):
        assert not requests.keys() & self.busy.keys(), "a busy client was asked again"
        self.busy |= requests
        self.asked.append({i: request.round for i, request in requests.items()})
        outcome = Outcome()
        for i in next(self._script):
            found = self._answer(i, self.busy.pop(i))
            (outcome.failures if isinstance(found, Exception) else outcome.replies)[i] = found
        return outcome


def steps(i, request):
    """A client that goes (i + 1) / 100 from x in each coordinate."""
    x = request.arrays["x"] + 0.01 * (i + 1)
    return Message("iterate", request.round, {"x": x}, {"queries": 42 * request.round})


def make_server(engine, algorithm=None, enough=2, clients=3, **dropouts):
    return AsynchronousServer(
        engine,
        algorithm or FedZO(local_steps=2),
        np.full(2, 0.5),
        weights=np.arange(1.0, clients + 1) / np.sum(np.arange(1.0, clients + 1)),
        participants=clients,
        shared_seed=0,
        rng=np.random.default_rng(0),
        dropouts=Dropouts(**{"min_clients": enough, "retries": 0, **dropouts}),
        enough=enough,
    )


def play(server, rounds):
    path = [server.x]
    for _ in range(rounds):
        server.run(server.plan())
        path.append(server.x)
    return path


def test_the_average_by_hand():
    """omega = 1/6, 2/6, 3/6. Client 2 answers round 1 in round 3, and round 4 in round 4.

    Each client always goes the same way, wherever it begins; so x moves by the weighted mean of these ways. The weights
    are whole while a client is no slower than it was; client 1 answers nothing more after round 2, when it was in time:
    in round 3 its answer counts (1 + 0) / (1 + 1), in round 4 (1 + 0) / (1 + 2).
    """
    engine = Scripted(steps, [[0, 1], [0, 1], [0, 2], [0, 2]])
    path = play(make_server(engine), 4)
    moves = [float((b - a)[0]) for a, b in pairwise(path)]
    expected = [
        (1 * 0.01 + 2 * 0.02) / 3,
        (1 * 0.01 + 2 * 0.02) / 3,
        (1 * 0.01 + 2 * 0.02 * 0.5 + 3 * 0.03) / (1 + 2 * 0.5 + 3),
        (1 * 0.01 + 2 * 0.02 / 3 + 3 * 0.03) / (1 + 2 / 3 + 3),
    ]
    np.testing.assert_allclose(moves, expected, rtol=1e-12)
    assert engine.asked == [{0: 1, 1: 1, 2: 1}, {0: 2, 1: 2}, {0: 3, 1: 3}, {0: 4, 2: 4}]


@pytest.mark.parametrize("lie", ["nan", "far", "round", "shape"])
def test_a_lie_in_an_old_reply_is_refused(lie):
    """It is checked against the request that it answers, whatever round it comes in; the client is asked again."""

    def answer(i, request):
        reply = steps(i, request)
        if i != 2 or request.round != 1:
            return reply
        return {
            "nan": replace(reply, arrays={"x": np.full(2, np.nan)}),
            "far": replace(reply, arrays={"x": np.full(2, 1.5)}),
            "round": replace(reply, round=3),
            "shape": replace(reply, arrays={"x": np.zeros(3)}),
        }[lie]

    engine = Scripted(answer, [[0, 1], [0, 1], [0, 1, 2], [0, 1]])
    server = make_server(engine)
    play(server, 4)
    assert ("iterate", 2) not in server.state.answers.last
    assert engine.asked[3] == {0: 4, 1: 4, 2: 4}


def test_a_client_that_dies_holds_nobody_up():
    """Its failure ends its request; what it said last counts less in every round."""

    def answer(i, request):
        return ConnectionError("gone") if i == 2 and request.round > 1 else steps(i, request)

    engine = Scripted(answer, [[0, 1, 2], [0, 1], [0, 1, 2], [0, 1, 2], [0, 1, 2]])
    server = make_server(engine)
    play(server, 5)
    assert server.state.answers.last["iterate", 2].round == 1
    assert server.state.answers.under_way == {}


def test_too_few():
    """The run stops where fewer clients than `enough` are left and no request is under way."""
    engine = Scripted(lambda i, request: ConnectionError("gone") if i else steps(i, request), [[0, 1, 2]])
    with pytest.raises(TooFewClients, match="1 of 2 clients answered"):
        play(make_server(engine), 1)


def test_what_is_under_way_is_planned_for():
    """The queries of a busy client are in the budget before they are known: 42 of FedZO with T = 2."""
    server = make_server(Scripted(steps, [[0, 1], [0, 1], [0, 1, 2]]))
    play(server, 2)
    assert (server.state.queries[2], server.state.unknown) == (0, [0, 0, 42])
    assert server.plan().queries == 2 * 42  # of those who can be asked
    play(server, 1)
    assert (server.state.queries[2], server.state.unknown) == (42, [0, 0, 0])


def test_a_late_reply_claims_its_own_queries_at_most():
    """What was planned for while it was under way is not counted beside it."""

    def answer(i, request):
        reply = steps(i, request)
        return replace(reply, scalars={**reply.scalars, "queries": 2**39}) if i == 2 else reply

    server = make_server(Scripted(answer, [[0, 1], [0, 1], [0, 1, 2]]))
    play(server, 3)
    assert (server.state.queries[2], server.state.unknown) == (42, [0, 0, 0])


def test_another_server_goes_on_from_the_state():
    """Saved between two exchanges and restored: what is under way is sent again, and the numbers are the same."""
    one = make_server(Scripted(steps, [[0, 1], [0, 1], [0, 2], [0, 2]]))
    play(one, 2)
    values, arrays = one.state.save()
    two = make_server(engine := Scripted(steps, [[0, 2], [0, 2]]))
    two.state = ServerState.load(json.loads(json.dumps(values)), arrays)
    assert np.array_equal(play(one, 2)[-1], play(two, 2)[-1])
    assert engine.asked[0] == {0: 3, 1: 3, 2: 1}


def test_payloads_are_kept_and_iterates_are_not():
    """ScaffoldI has two exchanges a round. Client 2 answers the refresh of round 2 in that of round 3, and is sent
    no update. The mean of c has its last one; that of x is over those that answered the update."""

    def answer(i, request):
        if request.kind == "update":
            x = np.full(2, 0.5 + 0.01 * (i + 1))
            return Message("iterate", request.round, {"x": x}, {"queries": 63 * request.round - 21})
        c, queries = np.full(2, 10.0 * request.round + i), 63 * request.round - 63
        return Message("payload", request.round, {"c": c}, {"queries": queries})

    engine = Scripted(answer, [[0, 1, 2], [0, 1], [0, 1], [0, 1, 2], [0, 1], [0, 1]])
    server = make_server(engine, ScaffoldI(local_steps=2))
    play(server, 2)
    np.testing.assert_allclose(server.state.half["c"], (1 * 20 + 2 * 21) / 3, rtol=1e-12)
    play(server, 1)
    np.testing.assert_allclose(server.state.half["c"], (1 * 30 + 2 * 31 + 3 * 22) / 6, rtol=1e-12)
    np.testing.assert_allclose(server.x, 0.5 + (1 * 0.01 + 2 * 0.02) / 3, rtol=1e-12)
    assert engine.asked == [{0: 1, 1: 1, 2: 1}, {0: 2, 1: 2, 2: 2}, {0: 2, 1: 2}, {0: 3, 1: 3}, {0: 3, 1: 3}]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"algorithm": {"name": "scaffoldii"}}, "ScaffoldII has no use for late answers"),
        ({"algorithm": {"name": "decomfl"}}, "DeComFL has no use for late answers"),
        ({"algorithm": {"name": "auto"}, "dim": 51}, "FedLineSearch has no .* FZooS, FedTrustRegion, "),
        ({"participation": 0.5}, "leave participation at 1.0"),
        ({"min_clients": 4}, "min_clients is 4"),
        ({"enough": 5}, "there are only 4 sites"),
        ({"enough": 0}, "enough"),
    ],
)
def test_refused_settings(settings, words):
    """What cannot be, with the setting's name."""
    with pytest.raises(ValueError, match=words):
        Study(
            "demo",
            x0=0.5,
            bounds=(0, 1),
            sites=SITES,
            **{"enough": 3, "dim": 3, "algorithm": {"name": "fedzo"}, **settings},
        )


KILLED = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_asynchronous import bowls, local_study, make_study

class Gate:  # opens in round 3
    opened = False
    def wait(self, seconds):
        while not self.opened:
            time.sleep(0.01)
        return True

gate, values = Gate(), 0

def after(record):
    if record.round == {last}:
        os.kill(os.getpid(), signal.SIGKILL)

def counting(f):
    def counted(x):
        global values
        value = f(x)
        values += 1
        if values == {most}:
            gate.opened = False  # in the middle of the request
        return value
    return counted

objectives = bowls(gate)
objectives[3] = counting(objectives[3])
gate.opened = True
local_study(make_study(rounds=9, enough=3, algorithm={algorithm!r}), {folder!r}, objectives).run(callback=after)
"""


@pytest.mark.parametrize("algorithm", ["fzoos", "fedtrustregion"])
def test_killed_and_resumed(tmp_path, algorithm):
    """Killed with SIGKILL while the slow site is in the middle of a request: on resumption it is sent it again and goes
    on where it was. The record of both parts, repeated in one, gives the same x, bit for bit, with the same number
    of queries."""
    table = ALGORITHMS[algorithm]
    last, most = (2, 3) if algorithm == "fedtrustregion" else (5, 4)  # it waits once there is nothing else to be won
    text = KILLED.format(
        tests=os.path.dirname(__file__), folder=str(tmp_path / "killed"), algorithm=table, last=last, most=most
    )
    done = subprocess.run([sys.executable, "-c", text], timeout=120, check=False, env={**os.environ})
    assert done.returncode == -9
    study = make_study(rounds=9, enough=3, algorithm=table)
    result = local_study(study, tmp_path / "killed", bowls()).run(resume=True)
    assert (result.status, result.rounds) == ("completed", 9)
    again = local_study(study, tmp_path / "again", bowls(), repeat=result).run()
    assert np.array_equal(result.x, again.x)
    with Journal(tmp_path / "killed" / "journals" / "slow.journal", study.id, "slow") as journal:
        bodies = [entry.body for entry in journal.requests()]
    assert len(bodies) == len(set(bodies))
    first = [record.queries_per_client[:3] for record in result.history]
    assert first == [record.queries_per_client[:3] for record in again.history]
