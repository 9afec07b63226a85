"""The server's side of a study: checkpoints, dropouts, liars, budgets; every run can be taken up again."""

import json
import re
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from fault_jobs import CENTRES, TABLES, Box, logged, make_study, receive
from wire import Lost, Wire

import fzoos
from fzoos._util.lock import FileLock
from fzoos.engines import LocalStudy
from fzoos.federation.aggregate import AGGREGATES
from fzoos.federation.conductor import conduct
from fzoos.messages.codec import decode, encode, pack
from fzoos.messages.message import Message
from fzoos.runs.store import Store, StoreError

THREE = ("a", "b", "c")


def run(study, folder, *, resume=False, callback=None, **wire):
    """One run over bytes, with the result in the folder."""
    folder.mkdir(exist_ok=True)
    with Wire(study, folder, **wire) as engine:
        return conduct(study, engine, folder / "result.db", resume=resume, callback=callback), engine


def failures(folder):
    with Store(folder / "result.db") as store:
        return store.failures(store.last)


def same_history(one, two):
    """All that a run leaves, but for the time it took."""
    for mine, yours in zip(one.history, two.history, strict=True):
        assert replace(mine, seconds=0.0) == replace(yours, seconds=0.0)
    assert one.x.tobytes() == two.x.tobytes()
    assert (one.queries_per_client, one.bytes_up, one.bytes_down) == (
        two.queries_per_client,
        two.bytes_up,
        two.bytes_down,
    )


@pytest.mark.parametrize("algorithm", TABLES)
def test_the_same_as_minimize(folder, algorithm):
    """A study through sites, journals and bytes is the run of `minimize` with the same settings."""
    study = make_study(algorithm, rounds=4)
    result, _ = run(study, folder)
    plain = fzoos.minimize(
        [Box(CENTRES[i]) for i in range(2)],
        study.start,
        bounds=study.bounds,
        algorithm=study.algorithm_settings,
        optimizer=study.optimizer_settings,
        rounds=4,
        local_steps=2,
        seed=0,
    )
    same_history(result, plain)
    same_history(fzoos.load(folder), plain)
    assert result.status == "completed"


# Checkpoints


@pytest.mark.parametrize("algorithm", TABLES)
def test_stopped_in_every_exchange(folder, algorithm):
    """A server that ends in each exchange, before or after the sites worked, and is made anew: the undisturbed run,
    every number of its history, with not one query more."""
    study = make_study(algorithm, rounds=4, participation=2, sites=THREE)
    whole, _ = run(study, folder / "whole")
    exchange, result = 0, None

    class Ends(RuntimeError):
        pass

    class Ending(Wire):
        def exchange(self, requests, timeout):
            nonlocal exchange
            exchange += 1
            if exchange % 3 == 1:
                raise Ends
            outcome = super().exchange(requests, timeout)
            if exchange % 3 == 2:
                raise Ends
            return outcome

    while result is None:
        with Ending(study, folder) as engine:
            try:
                result = conduct(study, engine, folder / "result.db", resume=True)
            except Ends:
                assert fzoos.load(folder).status == "failed"
    assert exchange > 8
    same_history(result, whole)
    same_history(fzoos.load(folder), whole)
    for site in THREE:
        assert np.array_equal(logged(folder, site), logged(folder / "whole", site))


def test_converged_at_every_exchange(folder):
    """A study of FZooS() whose server ends after each exchange and is made anew converges in the same round as the
    undisturbed one, and does so again when it is taken up afterwards; with another tolerance it goes on."""
    study = make_study("fzoos", rounds=12, tolerance=0.2)
    whole, _ = run(study, folder / "whole")
    assert whole.status == "converged"
    assert 3 <= whole.rounds < 12
    result = None

    class Once(Wire):
        left = 1

        def exchange(self, requests, timeout):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return super().exchange(requests, timeout)

    starts = 0
    while result is None or result.status == "interrupted":
        starts += 1
        with Once(study, folder) as engine:
            result = conduct(study, engine, folder / "result.db", resume=True)
    assert starts == 2 * whole.rounds
    assert result.status == "converged"
    same_history(result, whole)
    again, _ = run(study, folder, resume=True)
    assert (again.status, again.rounds) == ("converged", whole.rounds)
    more, _ = run(replace(study, tolerance=0.0, rounds=whole.rounds + 1), folder, resume=True)
    assert (more.status, more.rounds) == ("completed", whole.rounds + 1)


def test_a_checkpoint_after_each_exchange(folder):
    """Two exchanges a round, one in the first: what is on the disk moves with each."""
    study, bodies = make_study(), []

    class Looking(Wire):
        def exchange(self, requests, timeout):
            with Store(folder / "result.db") as store:
                bodies.append(store.last_checkpoint(store.last))
            return super().exchange(requests, timeout)

    with Looking(study, folder) as engine:
        conduct(study, engine, folder / "result.db")
    assert bodies[0] is None
    assert len(bodies) == len(set(bodies)) == 1 + 2 + 2


def test_more_rounds(folder):
    """Two rounds and then three more are five; and a run that is complete stays as it is."""
    whole, _ = run(make_study(rounds=5), folder / "whole")
    first, _ = run(make_study(rounds=2), folder)
    assert (first.status, first.rounds) == ("completed", 2)
    result, _ = run(make_study(rounds=5), folder, resume=True)
    same_history(result, whole)
    again, engine = run(make_study(rounds=5), folder, resume=True)
    assert again.status == "completed"
    assert engine.sent == []
    same_history(again, whole)


def test_other_ways_of_conducting(folder):
    """Time-out, retries and the like may change between two parts of a run."""
    run(make_study(rounds=2), folder)
    changed = make_study(rounds=3, timeout=7.0, retries=5, min_clients=1, max_queries=10_000, aggregate="median")
    assert run(changed, folder, resume=True)[0].rounds == 3


@pytest.mark.parametrize("changes", [{"seed": 1}, {"local_steps": 3}, {"algorithm": "fedzo"}, {"sites": ("a", "c")}])
def test_other_settings(folder, changes):
    """What changes numbers is another study: refused, in one line that says so, and the file is as it was."""
    run(make_study(rounds=2), folder)
    before = (folder / "result.db").read_bytes()
    other = make_study(**{"rounds": 3} | changes)
    with pytest.raises(StoreError, match=rf"holds a run of other settings \(study .*, not {other.id}\)") as caught:
        conduct(other, Lonely(), folder / "result.db", resume=True)
    assert "\n" not in str(caught.value)
    assert (folder / "result.db").read_bytes() == before


class Lonely:
    """Nobody is there, and nobody may be asked."""

    def exchange(self, requests, timeout):
        raise AssertionError("asked")


def test_resume_without_a_file_begins(folder):
    """`resume` may always be given."""
    assert run(make_study(), folder, resume=True)[0].status == "completed"


def test_a_new_run_in_an_old_file(folder):
    """Without `resume` a run is added; the one before stays."""
    first, _ = run(make_study(rounds=1), folder)
    run(make_study(rounds=2), folder)
    assert fzoos.load(folder, run=1).x.tobytes() == first.x.tobytes()
    assert fzoos.load(folder).rounds == 2


def test_callback_and_interrupt(folder):
    """Stopped by the callback, and by Ctrl-C inside an objective: resumable, and the undisturbed run in the end."""
    study = make_study(rounds=4)
    whole, _ = run(study, folder / "whole")
    stopped, _ = run(study, folder, callback=lambda record: record.round == 1)
    assert (stopped.status, stopped.rounds) == ("stopped", 1)

    class Interrupted(Box):
        def __call__(self, x):
            if self.count == 2:
                raise KeyboardInterrupt
            return super().__call__(x)

    boxes = [Interrupted(CENTRES[0], folder / "a.log"), Box(CENTRES[1], folder / "b.log")]
    interrupted, _ = run(study, folder, resume=True, objectives=boxes)
    assert interrupted.status == "interrupted"
    assert "round 2" in interrupted.message
    result, _ = run(study, folder, resume=True)
    same_history(result, whole)


def test_in_use(folder, nursery):
    """Two servers of one file: the second is refused in one line. When the first is killed the next can go on."""
    child = nursery.start("server", folder=str(folder), settings={})
    assert receive(child.line) is not None  # its first request
    with pytest.raises(StoreError, match="is in use by another process: the study is running already"):
        conduct(make_study(), Lonely(), folder / "result.db", resume=True)
    assert fzoos.load(folder).status == "running"
    assert child.kill() == -9
    assert fzoos.load(folder).status == "interrupted"
    assert run(make_study(), folder, resume=True)[0].status == "completed"


def test_a_folder_that_cannot_be(folder):
    """A file where a folder should be: one line."""
    (folder / "file").touch()
    with pytest.raises(StoreError, match="cannot be"):
        conduct(make_study(), Lonely(), folder / "file" / "result.db")


@pytest.mark.parametrize("kind", ["text", "truncated", "newer", "flipped"])
def test_a_file_that_cannot_be_used(folder, kind):
    """Refused before anybody is asked, in one line, and the file is as it was."""
    path = folder / "result.db"
    run(make_study(rounds=1), folder)
    good = path.read_bytes()
    if kind == "text":
        path.write_text("not this one\n" * 1000)
    elif kind == "truncated":
        path.write_bytes(good[: len(good) // 2])
    elif kind == "newer":
        with Store(path) as store:
            store._db.execute("UPDATE about SET value = '99'")
    else:
        body = good.index(b'{"state"')
        path.write_bytes(good[:body] + bytes([good[body] ^ 1]) + good[body + 1 :])
    bad = path.read_bytes()
    with pytest.raises(StoreError, match=r"cannot be read|damaged|format 99; this program reads 1") as caught:
        conduct(make_study(), Lonely(), path, resume=True)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == bad


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
    assert {client: sorted(request.arrays) for client, request in second.items()} == {
        0: ["w"],
        1: ["w", "x"],
        2: ["w"],
    }
    refresh = next(request for _, request, _ in engine.sent if request.kind == "refresh")
    assert np.array_equal(second[1].arrays["x"], refresh.arrays["x"])
    assert result.queries_per_client == (12, 9, 12)  # without its 3 at x_1


def test_who_returns_goes_on_where_it_was(folder):
    """Away for round 2, back in round 3: no initial design again (4 in round 1, 4 in round 3), the count goes on."""
    study = make_study(sites=THREE, min_clients=2)
    away = silent((1, "refresh", 2), (1, "update", 2))
    result, engine = run(study, folder, fault=away)
    assert result.queries_per_client == (12, 8, 12)
    assert [record.queries_per_client[1] for record in result.history] == [4, 4, 8]
    points = logged(folder, "b")
    assert len(points) == 8
    third = next(request for client, request, _ in engine.sent if (client, request.round) == (1, 3))
    assert points[4] == pytest.approx(-1.0 + 2.0 * third.arrays["x"])  # its fifth query is the server's new x


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
    assert [len(logged(folder, site)) for site in THREE] == [12, 12, 12]


def test_tried_again_and_found(folder):
    """Silent twice and then there: nothing is lost, nobody is asked twice for what is known."""
    study = make_study(sites=THREE, retries=2)
    whole, _ = run(study, folder / "whole")
    silences = []

    def twice(client, request):
        if client == 2 and request.kind == "update" and request.round == 2 and len(silences) < 2:
            silences.append(request)
            raise Lost("away")

    result, _ = run(study, folder, fault=twice)
    assert result.x.tobytes() == whole.x.tobytes()
    assert result.queries_per_client == whole.queries_per_client
    assert len(silences) == 2
    assert [reason for _, _, reason in failures(folder)] == ["c: away", "c: away"]


def test_min_clients_is_all_by_default(folder):
    """Without the setting every participant is needed."""
    result, _ = run(make_study(sites=THREE), folder, fault=silent((0, "update", 1)))
    assert result.status == "failed"
    assert "2 of 3" in result.message


def test_an_engine_that_forgets_somebody(folder):
    """Neither a reply nor a reason: that is a failure too."""
    study = make_study("fedzo", min_clients=1)

    class Forgetful(Wire):
        def exchange(self, requests, timeout):
            return super().exchange({0: requests[0]}, timeout)

    with Forgetful(study, folder) as engine:
        assert conduct(study, engine, folder / "result.db").status == "completed"
    assert set(failures(folder)) == {(r, 1, "b: neither a reply nor a reason came back") for r in (1, 2, 3)}


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
    "nothing": (lambda s, r: b"", "not a message"),
    "pickle": (lambda s, r: b"\x80\x04\x95", "not a message"),
    "another study": (lambda s, r: encode(Message("iterate", r.round), "other"), "a message of study 'other'"),
    "wrong shape": (lambda s, r: reply(s, r, arrays={first(r): np.zeros(7)}), "must have shape"),
    "NaN": (lambda s, r: reply(s, r, arrays={first(r): np.full(16, np.nan)}), "holds NaN or infinity"),
    "unknown array": (lambda s, r: reply(s, r, arrays={"code": np.zeros(2)}), "'code' is not expected"),
    "unknown scalar": (lambda s, r: reply(s, r, scalars={"queries": 1, "root": 1.0}), "'root' is not expected"),
    "unknown field": (
        lambda s, r: pack({"kind": "iterate", "round": 1, "study": s.id, "scalars": {}, "exec": "rm"}, {}),
        "fields 'exec' unknown or missing",
    ),
    "wrong round": (lambda s, r: reply(s, r, round=r.round + 1), "of round"),
    "wrong kind": (lambda s, r: reply(s, r, kind="update"), "with 'update'"),
    "too much": (lambda s, r: reply(s, r, arrays={first(r): np.full(16 if first(r) == "w" else 2, 1e300)}), "beyond"),
    "absurd count": (lambda s, r: reply(s, r, scalars={"queries": 2.0**63}), "number of queries"),
    "a lie about failing": (
        lambda s, r: pack({"failure": "\ud800\x1b[2J\n", "study": s.id}, {}),
        r"\?\?\[2J\?",
    ),
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


def test_a_point_outside_the_box(folder):
    """x beyond the bounds by the last digit is refused."""
    study = make_study("fedzo", sites=THREE, min_clients=2, rounds=1)

    def tamper(client, request, data):
        return reply(study, request, arrays={"x": np.array([0.5, np.nextafter(1.0, 2.0)])}) if client == 0 else data

    result, _ = run(study, folder, tamper=tamper)
    assert result.status == "completed"
    assert failures(folder) == [(1, 0, "a: x is outside the box")]


@pytest.mark.parametrize("algorithm", TABLES)
@pytest.mark.parametrize("aggregate", list(AGGREGATES))
def test_a_liar_with_the_largest_numbers_allowed(folder, algorithm, aggregate):
    """A payload of 1e99, or of the largest number of its range, does not stop the honest sites: they overflow nowhere
    and x stays in the box."""
    if aggregate != "mean" and TABLES[algorithm]["name"] == "fedbpt":
        pytest.skip("it combines replies in its own way")
    study = make_study(algorithm, sites=THREE, aggregate=aggregate)

    def tamper(client, request, data):
        message = decode(data, study.id)
        if client != 2:
            return data
        parts = study.algorithm_settings.reply_parts(study.dim, study.local_steps, request)
        arrays = {
            name: array if name == "x" else np.broadcast_to(np.minimum(1e99, parts[name].high), array.shape)
            for name, array in message.arrays.items()
        }
        return encode(replace(message, arrays=arrays), study.id)

    result, _ = run(study, folder, tamper=tamper)
    assert result.status == "completed"
    assert failures(folder) == []
    assert np.all(np.abs(result.x) <= 1.0)


@pytest.mark.parametrize("aggregate", ["median", "trimmed", "clipped"])
def test_a_robust_aggregate_holds_x(folder, aggregate):
    """One of three says (1, 1) of the cube every time. The mean is dragged there; the robust ones stay away."""
    lie = np.ones(2)

    def tamper(client, request, data):
        return encode(replace(decode(data, study.id), arrays={"x": lie}), study.id) if client == 2 else data

    study = make_study("fedzo", sites=THREE, rounds=8)
    dragged, _ = run(study, folder / "mean", tamper=tamper)
    study = make_study("fedzo", sites=THREE, rounds=8, aggregate=aggregate)
    held, _ = run(study, folder / aggregate, tamper=tamper)
    assert np.all(held.x < dragged.x - 0.1)
    assert np.all(held.x < 0.5)  # below the start: where both honest sites want to go


# Budgets


def test_budget_of_the_run(folder):
    """4 + 4 queries a round: a budget of 20 is two rounds, also in two parts, and with more it goes on."""
    study = make_study(max_queries=20, rounds=5)
    first, _ = run(replace(study, rounds=1), folder)
    assert first.queries == 8
    result, _ = run(study, folder, resume=True)
    assert (result.status, result.rounds, result.queries) == ("budget", 2, 16)
    assert result.message == "the next round needs 8 queries, the budget is 20"
    again, engine = run(study, folder, resume=True)
    assert (again.status, engine.sent) == ("budget", [])
    whole, _ = run(replace(study, max_queries=None), folder / "whole")
    more, _ = run(replace(study, max_queries=None), folder, resume=True)
    same_history(more, whole)


def test_budgets_at_the_exact_bound(folder):
    """A budget of just two rounds is two rounds, and one less is one; the same for a site's own: 4 queries a round."""
    for budget, rounds in ((16, 2), (15, 1), (8, 1), (7, 0)):
        result, _ = run(make_study(max_queries=budget, rounds=5), folder / f"run-{budget}")
        assert (result.status, result.rounds) == ("budget", rounds)
    for budget, rounds in ((8, 2), (7, 1), (4, 1), (3, 0)):
        result, _ = run(make_study(max_queries_per_client=budget, rounds=5), folder / f"site-{budget}")
        assert (result.status, result.rounds) == ("failed", rounds)


@pytest.mark.parametrize("unknown", [{"colour": "red"}, {"rounds": "many"}, {"algorithm": {"name": "future"}}])
def test_settings_of_a_newer_version(folder, unknown):
    """A run whose settings this version does not know is refused in words when it is resumed."""
    study = make_study("fedzo")
    run(study, folder)
    with Store(folder / "result.db") as store:
        settings = json.dumps(store.study(store.last) | unknown)
        store._update("UPDATE runs SET study = ? WHERE id = ?", (settings, store.last))
    with pytest.raises(StoreError, match="settings that this version does not know"):
        run(study, folder, resume=True)


def test_budget_of_the_sites(folder):
    """No site goes beyond its own, over any number of restarts; without enough of them the run stops, resumable."""
    study = make_study(max_queries_per_client=9, rounds=5, retries=0)
    for _ in range(3):
        result, _ = run(study, folder, resume=True)
        assert (result.status, result.rounds) == ("failed", 2)
        assert "round 3 needs 4 queries; 8 of the site's 9 are spent" in result.message
    assert [len(logged(folder, site)) for site in "ab"] == [8, 8]
    whole, _ = run(make_study(rounds=5), folder / "whole")
    more, _ = run(replace(study, max_queries_per_client=20), folder, resume=True)
    same_history(more, whole)


def test_a_site_with_a_smaller_budget_drops_out(folder):
    """The others go on without it."""
    study = make_study("fedzo", sites=THREE, min_clients=2, rounds=4)

    class Poor(Wire):
        def ask(self, client, data):
            self.site = {"max_queries": 13} if client == 1 else {}
            return super().ask(client, data)

    with Poor(study, folder) as engine:
        result = conduct(study, engine, folder / "result.db")
    assert result.status == "completed"
    assert result.queries_per_client == (24, 12, 24)


# In one process


@pytest.mark.parametrize("workers", [1, 3])
def test_local_study(folder, workers):
    """The same run, whoever works at the same time."""
    study = make_study(sites=THREE)
    whole, _ = run(study, folder / "wire")
    boxes = [Box(centre) for centre in CENTRES]
    result = LocalStudy(study, folder, boxes, workers=workers, site_seed=study.seed).run()
    same_history(result, whole)
    assert [box.count for box in boxes] == [12, 12, 12]


def test_local_study_wants_one_objective_per_site(folder):
    """Else it says so."""
    with pytest.raises(ValueError, match="objectives has 1 entries but the study has 2 sites"):
        LocalStudy(make_study(), folder, [Box(0.2)])


def test_a_site_that_hangs(folder):
    """Not waited for beyond the time-out; when the run ends it makes no further query, and it can be taken up again."""
    study = make_study("fedzo", sites=THREE, min_clients=2, timeout=0.3, rounds=2)
    release = threading.Event()

    class Hanging(Box):
        def __call__(self, x):
            release.wait()
            time.sleep(0.2)
            return super().__call__(x)

    hanging = Hanging(CENTRES[2])
    boxes = [Box(CENTRES[0]), Box(CENTRES[1]), hanging]
    result = LocalStudy(study, folder, boxes, workers=3).run(callback=lambda r: r.round == 2 and release.set())
    assert result.status == "completed"
    assert result.queries_per_client == (12, 12, 0)
    reasons = [reason for _, client, reason in failures(folder) if client == 2]
    assert reasons == ["c: no answer within 0.3 s", "c: still busy with an earlier request"]
    assert hanging.count < 6
    boxes[2] = Box(CENTRES[2])
    more = LocalStudy(replace(study, rounds=3, timeout=60.0), folder, boxes, workers=3).run(resume=True)
    assert more.queries_per_client == (18, 18, hanging.count + 6)


def test_reading_while_a_run_writes(folder, nursery):
    """From another process, at any moment: always a sound state of one moment, and never an obstacle to the run."""
    child = nursery.start("study", folder=str(folder), settings={"rounds": 30})
    seen = set()
    while True:
        try:
            result = fzoos.load(folder)
        except StoreError as error:
            early = ("there is no file of runs at", "no run has begun", "has no run yet")
            assert any(words in str(error) for words in early)  # noqa: PT017
            continue
        seen.add((result.status, result.rounds))
        assert result.rounds == len(result.history)
        if result.history:
            last = result.history[-1]
            assert (result.bytes_up, result.bytes_down, result.seconds) == (
                last.bytes_up,
                last.bytes_down,
                last.seconds,
            )
            assert result.queries >= last.queries
        if result.status != "running":
            break
    values, status = child.result()
    assert (status, values["status"]) == (0, "completed")
    assert ("completed", 30) in seen
    assert result.x.tobytes().hex() == values["x"]


def test_outcome_is_not_lost_when_the_engine_breaks(folder):
    """An engine that raises, against its promise, ends the run; the file says so and it can be resumed."""
    study = make_study()
    whole, _ = run(study, folder / "whole")

    class Broken(Wire):
        def exchange(self, requests, timeout):
            if next(iter(requests.values())).round == 2:
                raise MemoryError("too much")
            return super().exchange(requests, timeout)

    with Broken(study, folder) as engine, pytest.raises(MemoryError):
        conduct(study, engine, folder / "result.db")
    assert (fzoos.load(folder).status, fzoos.load(folder).message) == ("failed", "MemoryError: too much")
    same_history(run(study, folder, resume=True)[0], whole)


def test_lock_waits(folder):
    """A lock is waited for as long as told."""
    one, two = FileLock(folder / "lock"), FileLock(folder / "lock")
    assert one.acquire()
    timer = threading.Timer(0.1, one.release)
    timer.start()
    assert two.acquire(wait=30.0)
    timer.join()
    two.release()
