"""Sites that do not answer, and sites that lie: the others go on."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fault_jobs import TABLES, logged, make_study
from study_runs import THREE, failures, run
from wire import Lost

import fzoos
from fzoos.federation.aggregate import AGGREGATES
from fzoos.messages.codec import decode, encode, pack
from fzoos.messages.message import Message
from fzoos.testing.study import same_history

# Sites that do not answer


def silent(*missing):
    """Requests of these (client, kind, round) never arrive."""

    def fault(client, request):
        if (client, request.kind, request.round) in missing:
            raise Lost("no answer within 600 s")

    return fault


def test_weights_are_renewed(folder):
    """omega = (0.5, 0.3, 0.2) and the second is silent: x is (0.5 x_a + 0.2 x_c) / 0.7, by hand."""
    study = make_study("fedzo", sites=THREE, weights=[5, 3, 2], min_clients=2, rounds=1)
    replies = {}

    def listen(client, request, data):
        replies[client] = decode(data, study.id).arrays["x"]
        return data

    result, _ = run(study, folder, fault=silent((1, "update", 1)), tamper=listen)
    cube = (0.5 * replies[0] + 0.2 * replies[2]) / 0.7
    assert result.x == pytest.approx(-1.0 + 2.0 * cube, abs=1e-14)
    assert result.queries_per_client == (6, 0, 6)
    assert failures(folder) == [(1, 1, "b: no answer within 600 s")]


def test_who_misses_the_refresh_gets_x_with_the_update(folder):
    """In round 2 the second site hears of no refresh: its update carries x, the others' do not; and it answers."""
    study = make_study(sites=THREE, min_clients=2)
    result, engine = run(study, folder, fault=silent((1, "refresh", 2)))
    assert result.status == "completed"
    second = {client: request for client, request, _ in engine.sent if (request.kind, request.round) == ("update", 2)}
    assert {client: sorted(request.arrays) for client, request in second.items()} == {0: ["w"], 1: ["w", "x"], 2: ["w"]}
    refresh = next(request for _, request, _ in engine.sent if request.kind == "refresh")
    assert np.array_equal(second[1].arrays["x"], refresh.arrays["x"])
    assert result.queries_per_client == (19, 16, 19)  # without its 3 at x_1


def test_too_few(folder):
    """Two are needed and one answers: tried again, `retries` times, then the run stops in words, is resumable, and ends
    like one that nobody disturbed. Who has answered is asked once."""
    study = make_study(sites=THREE, min_clients=3, retries=2)
    whole, _ = run(study, folder / "whole")
    result, engine = run(study, folder, fault=silent((1, "refresh", 2), (2, "refresh", 2)))
    assert (result.status, result.rounds) == ("failed", 1)
    assert result.message == (
        "round 2: 1 of 3 clients answered the refresh request (client 1: no answer within 600 s; client 2: no answer "
        "within 600 s); the study can be resumed"
    )
    asked = [client for client, request, _ in engine.sent if request.kind == "refresh"]
    assert asked == [0, 1, 2, 1, 2, 1, 2]
    assert fzoos.load(folder).message == result.message
    resumed, _ = run(study, folder, resume=True)
    same_history(resumed, whole)
    assert [len(logged(folder, site)) for site in THREE] == [19, 19, 19]


# Sites that lie


def reply(study, request, **changes):
    """A reply with something wrong in it."""
    kind = "payload" if request.kind == "refresh" else "iterate"
    arrays = {"w": np.zeros(16)} if kind == "payload" else {"x": np.full(2, 0.5)}
    values = {"kind": kind, "round": request.round, "arrays": arrays, "scalars": {"queries": 5}} | changes
    return encode(Message(**values), study.id)


def first(request):
    return "w" if request.kind == "refresh" else "x"


LIES = {
    "garbage": (lambda s, r: b"\x00" * 50, "not a message"),
    "another study": (lambda s, r: encode(Message("iterate", r.round), "other"), "a message of study 'other'"),
    "wrong shape": (lambda s, r: reply(s, r, arrays={first(r): np.zeros(7)}), "must have shape"),
    "NaN": (lambda s, r: reply(s, r, arrays={first(r): np.full(16, np.nan)}), "holds NaN or infinity"),
    "unknown array": (lambda s, r: reply(s, r, arrays={"code": np.zeros(2)}), "'code' is not expected"),
    "unknown field": (
        lambda s, r: pack({"kind": "iterate", "round": 1, "study": s.id, "scalars": {}, "exec": "rm"}, {}),
        "fields 'exec' unknown or missing",
    ),
    "wrong round": (lambda s, r: reply(s, r, round=r.round + 1), "of round"),
    "too much": (lambda s, r: reply(s, r, arrays={first(r): np.full(16 if first(r) == "w" else 2, 1e300)}), "beyond"),
    "a lie about failing": (lambda s, r: pack({"failure": "\ud800\x1b[2J\n", "study": s.id}, {}), r"\?\?\[2J\?"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_refused_and_the_others_go_on(folder, lie):
    """Whatever the third site sends from round 2 on, it is refused with its reason; the run is that of the other two,
    bit for bit, and its checkpoint is sound: it can be resumed when the liar is gone."""
    study = make_study(sites=THREE, min_clients=2)
    make, reason = LIES[lie]

    def tamper(client, request, data):
        return make(study, request) if client == 2 and request.round > 1 else data

    away = silent(*((2, kind, r) for kind in ("refresh", "update") for r in (2, 3)))
    expected, _ = run(study, folder / "without", fault=away)
    result, _ = run(study, folder, tamper=tamper)
    assert result.status == "completed"
    assert result.x.tobytes() == expected.x.tobytes()
    found = failures(folder)
    assert {(client, r) for r, client, _ in found} == {(2, 2), (2, 3)}
    assert len(found) == 4
    for _, _, words in found:
        assert words.startswith("c: ")
        assert re.search(reason, words), words
        assert words.isprintable()
    more, _ = run(replace(study, rounds=4), folder, resume=True)
    assert (more.status, more.rounds) == ("completed", 4)


@pytest.mark.parametrize(
    ("algorithm", "aggregate"),
    [
        *((algorithm, "mean") for algorithm in TABLES),
        *(("fzoos", aggregate) for aggregate in AGGREGATES if aggregate != "mean"),
    ],
)
def test_a_liar_with_the_largest_numbers_allowed(folder, algorithm, aggregate):
    """A payload of 1e99, or of the largest number of its range, does not stop the honest sites: they overflow nowhere
    and x stays in the box."""
    study = make_study(algorithm, sites=THREE, aggregate=aggregate)

    def tamper(client, request, data):
        message = decode(data, study.id)
        if client != 2:
            return data
        parts = study.half.reply_parts(request)
        arrays = {
            name: array if name == "x" else np.broadcast_to(np.minimum(1e99, parts[name].high), array.shape)
            for name, array in message.arrays.items()
        }
        return encode(replace(message, arrays=arrays), study.id)

    result, _ = run(study, folder, tamper=tamper)
    assert result.status == "completed"
    assert failures(folder) == []
    assert np.all(np.abs(result.x) <= 1.0)
