"""A site: its journal answers what was answered, nothing that was paid for is lost, nothing private gets out."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest
from fault_jobs import TABLES, Box, fill_journal, logged, make_study
from wire import Lost, Wire

from fzoos.federation.conductor import conduct
from fzoos.federation.journal import Journal, JournalError
from fzoos.federation.site import BudgetError, StudySite
from fzoos.messages.codec import RemoteFailure, decode, encode
from fzoos.messages.message import Message
from fzoos.messages.rounding import Rounding
from fzoos.result import NotAsked

STUDY = make_study("scaffoldi", sites=("a",))  # T = 2, Q = 2: 6 queries in an update, 3 in a refresh
X = np.array([0.5, 0.25])
UPDATE = Message("update", 1, {"x": X})
REFRESH = Message("refresh", 2, {"x": X})
SECOND = Message("update", 2, {"c": np.zeros(2)})


def site(folder, objective=None, study=STUDY, **settings):
    box = objective or Box(0.2, folder / "a.log")
    return StudySite(study, 0, box, folder / "a.journal", **{"site_seed": study.seed} | settings)


def asked(folder):
    return len(logged(folder, "a"))


def queries(folder):
    with closing(sqlite3.connect(folder / "a.journal")) as db:
        return db.execute("SELECT x, y, error FROM queries ORDER BY id").fetchall()


def same(one, two):
    assert (one.kind, one.round, dict(one.scalars)) == (two.kind, two.round, dict(two.scalars))
    assert {name: a.tobytes() for name, a in one.arrays.items()} == {n: a.tobytes() for n, a in two.arrays.items()}


# A request that comes twice


def test_answered_from_the_journal(folder):
    """Byte for byte the same reply, without a query, in the same process and in the next, and for older requests."""
    requests = [encode(message, STUDY.id) for message in (UPDATE, REFRESH, SECOND)]
    with site(folder) as here:
        replies = [here.answer(data) for data in requests]
        assert [here.answer(data) for data in requests] == replies
        assert here.queries == asked(folder) == 6 + 3 + 6
    with site(folder, lambda x: pytest.fail("asked again")) as here:
        assert [here.answer(data) for data in reversed(requests)] == replies[::-1]
        assert here.queries == 15


@pytest.mark.parametrize("vectorized", [True, False])
def test_a_batch_is_one_wait_for_the_disk(folder, vectorized):
    """T = 2 steps of a batch each and the reply: 3, and 2 for a refresh; the requests come with them."""
    study = make_study("scaffoldi", sites=("a",), vectorized=vectorized)
    with site(folder, study=study) as here:
        for message, expected in ((UPDATE, 3), (REFRESH, 2), (SECOND, 3)):
            before = here._journal.flushes
            here.answer(encode(message, study.id))
            assert here._journal.flushes - before == expected
        assert here.queries == asked(folder) == 6 + 3 + 6


def test_a_failure_tells_only_queries_that_the_disk_has(folder):
    """The last but one of a batch; the server takes a count that falls for a lost journal."""

    def once(x):
        if len(seen) == 2:
            raise NotAsked("tomorrow")
        seen.append(x)
        return 0.0

    seen = []
    with site(folder, once) as here:
        with pytest.raises(RemoteFailure) as caught:
            decode(here.answer(encode(UPDATE, STUDY.id)), STUDY.id)
        assert caught.value.queries == 2
        assert int((folder / "a.journal.rows").read_bytes()) == 3  # the request and two queries


def test_handle_is_the_same(folder):
    """An engine of this process, with messages, gets the reply that bytes would have got."""
    (folder / "other").mkdir()
    with site(folder) as one, site(folder / "other") as two:
        for message in (UPDATE, REFRESH, SECOND):
            same(one.handle(message), decode(two.answer(encode(message, STUDY.id)), STUDY.id))
        same(one.handle(UPDATE), decode(two.answer(encode(UPDATE, STUDY.id)), STUDY.id))


def test_twice_at_the_same_time(folder):
    """An engine that hands a request over again while it is being answered: it is answered once, and told twice."""
    request = encode(UPDATE, STUDY.id)
    with site(folder) as here, ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(here.answer, [request] * 4))
        assert len(set(replies)) == 1
        assert here.queries == asked(folder) == 6


@pytest.mark.parametrize("privacy", [None, {"clip": 0.1, "noise": 0.1}])
def test_a_reply_is_rounded_once(folder, monkeypatch, privacy):
    """After the noise, if there is any; one that is made again from the journal is not rounded at all."""
    study, calls = make_study("scaffoldi", sites=("a",), precision="float32", privacy=privacy), []
    round_message = Rounding.__call__
    monkeypatch.setattr(Rounding, "__call__", lambda self, message: calls.append(1) or round_message(self, message))
    replies = []
    for message in (UPDATE, REFRESH):
        request = Message(message.kind, message.round, message.arrays, message.scalars, "float32")
        with StudySite(study, 0, Box(0.2), folder / "a.journal") as here:
            replies.append(here.handle(request))
    assert len(calls) == 2
    for reply in replies:
        assert reply.precision == "float32"
        assert all(np.array_equal(array, np.float32(array)) for array in reply.arrays.values())


def test_replies_tell_all_queries(folder):
    """The count in a reply is the journal's: everything paid for, in all processes."""
    with site(folder) as here:
        assert here.handle(UPDATE).scalars["queries"] == 6
    with site(folder) as here:
        assert here.handle(REFRESH).scalars["queries"] == 9


@pytest.mark.parametrize("algorithm", TABLES)
def test_restarted_for_every_message(folder, algorithm):
    """A site started anew for each message gives the run of one that stays, bit for bit, with no more queries."""
    study, results = make_study(algorithm, rounds=4), []
    for restart in (False, True):
        (folder / str(restart)).mkdir()
        with Wire(study, folder / str(restart), restart=restart) as wire:
            results.append(conduct(study, wire, folder / str(restart) / "result.db"))
    assert results[0].x.tobytes() == results[1].x.tobytes()
    for site in study.sites:
        assert np.array_equal(logged(folder / "False", site), logged(folder / "True", site))


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": {"name": "adam", "learning_rate": 0.05, "restart": False}},
        {"optimizer": {"name": "sgd", "learning_rate": 0.1}},
        {"vectorized": True},
        {"algorithm": {**TABLES["fzoos-weights"], "fit": {"points": 10}}},
        {"algorithm": {**TABLES["fzoos-weights"], "refresh": False, "vector": "fixed"}},
        {"algorithm": {**TABLES["fzoos-weights"], "preset": "paper"}},
        {
            "algorithm": {
                "name": "fzoos",
                "initial": {"points": 3, "kind": "orthogonal"},
                "active": TABLES["fzoos-weights"]["active"],
                "refresh": {"name": "UnseenDirections", "picks": 1},
            }
        },
        {"participation": 1},
    ],
)
def test_restarted_in_every_variant(folder, changes):
    """The same with an optimiser that remembers, batches, a fitted length scale, one exchange, points outside the box,
    a refresh in the first round, and rounds in which a site takes no part."""
    settings = {"algorithm": "fzoos-weights"} | changes
    algorithm = settings.pop("algorithm")
    study = make_study(rounds=4, **settings)
    if isinstance(algorithm, dict):
        study = type(study)(**study.settings | {"algorithm": algorithm})
    results = []
    for restart in (False, True):
        (folder / str(restart)).mkdir()
        with Wire(study, folder / str(restart), restart=restart) as wire:
            results.append(conduct(study, wire, folder / str(restart) / "result.db"))
    assert results[0].x.tobytes() == results[1].x.tobytes()
    assert results[0].queries_per_client == results[1].queries_per_client
    assert results[0].status == "completed"


# Requests that are refused


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a message"),
        (b"FZM1" + bytes(100), "not JSON"),
        (encode(UPDATE, "another"), "a message of study 'another'"),
        (encode(Message("refresh", 2, {"x": np.zeros(3)}), STUDY.id), "must have shape"),
        (encode(Message("update", 1, {"x": np.full(2, 1.5)}), STUDY.id), "outside the box"),
        (encode(Message("iterate", 1, {"x": X}), STUDY.id), "not a request"),
        (encode(Message("update", 2, {"c": np.zeros(2)}), STUDY.id), "an update without x"),
        (None, "a message is bytes"),
    ],
)
def test_refused(folder, data, reason):
    """What no server of this study would send costs nothing, leaves no trace, and the next good request is answered."""
    with site(folder) as here:
        with pytest.raises(RemoteFailure, match=reason):
            decode(here.answer(data), STUDY.id)
        assert here.queries == asked(folder) == 0
        good = here.handle(UPDATE)
    (folder / "fresh").mkdir()
    with site(folder / "fresh") as fresh:
        same(fresh.handle(UPDATE), good)


def test_anothers_journal(folder):
    """The journal of another study or site is refused when the site is made."""
    site(folder).close()
    with pytest.raises(JournalError, match="belongs to study"):
        site(folder, study=make_study("scaffoldi", sites=("a",), seed=1))
    study = make_study("scaffoldi", sites=("b", "a"))
    with StudySite(study, 0, Box(0.2), folder / "b.journal"):
        pass
    with pytest.raises(JournalError, match="belongs to site 'b', not 'a'"):
        StudySite(study, 1, Box(0.2), folder / "b.journal")


def test_a_journal_of_another_version(folder):
    """A journal with this study's name but other numbers in it is noticed before it does harm."""
    with Journal(folder / "a.journal", STUDY.id, "a", seed=STUDY.seed) as journal:
        request = journal.begin(encode(UPDATE, STUDY.id))
        journal.record(request, np.full((6, 2), 0.3), np.zeros(6), 1, 1, "difference")
        journal.reply(request, b"reply", {})
    with site(folder) as here:
        with pytest.raises(JournalError, match="another version of the program: it asked in other steps"):
            here.handle(REFRESH)
        with pytest.raises(RemoteFailure, match="cannot use its journal"):
            decode(here.answer(encode(REFRESH, STUDY.id)), STUDY.id)
    assert asked(folder) == 0


@pytest.mark.parametrize("kept", [0, 4])
def test_a_journal_that_lacks_queries(folder, kept):
    """The same for one whose answered request has fewer queries than it must have had."""
    with site(folder) as here:
        here.handle(UPDATE)
    rows = queries(folder)
    with Journal(folder / "b.journal", STUDY.id, "a") as journal:
        request = journal.begin(encode(UPDATE, STUDY.id))
        for i, (x, y, _) in enumerate(rows[:kept]):
            journal.record(request, np.frombuffer(x)[None], np.array([y]), 1, 1 + i // 3, "difference")
        journal.reply(request, b"reply", {})
    with (
        StudySite(STUDY, 0, Box(0.2), folder / "b.journal") as here,
        pytest.raises(JournalError, match="lacks queries"),
    ):
        here.handle(REFRESH)


def test_a_journal_with_too_many_queries(folder):
    """The same for more queries than the answer can have made: six of them fit, the seventh was another version's."""
    with Journal(folder / "a.journal", STUDY.id, "a", seed=STUDY.seed) as journal:
        request = journal.begin(encode(UPDATE, STUDY.id))
        for i in range(7):
            journal.record(request, np.full((1, 2), 0.3), np.zeros(1), 1, min(1 + i // 3, 2), "difference")
        journal.reply(request, b"reply", np.random.default_rng(0).bit_generator.state)
    with site(folder) as here, pytest.raises(JournalError, match="it has more queries"):
        here.handle(REFRESH)


@pytest.mark.parametrize("generator", [{}, {"bit_generator": "MT19937"}, np.random.default_rng(0).bit_generator.state])
def test_the_generator_is_the_recorded_one(folder, generator):
    """Whatever was drawn on another machine: the next directions follow from the state that the journal has."""
    with site(folder) as here:
        here.handle(UPDATE)
    with Journal(folder / "b.journal", STUDY.id, "a") as journal:
        request = journal.begin(encode(UPDATE, STUDY.id))
        for i, (x, y, _) in enumerate(queries(folder)):
            journal.record(request, np.frombuffer(x)[None], np.array([y]), 1, 1 + i // 3, "difference")
        journal.reply(request, b"reply", generator)
    asked = []
    with StudySite(STUDY, 0, lambda x: asked.append(x) or 0.0, folder / "b.journal") as here:
        if generator.get("bit_generator") != "PCG64":
            with pytest.raises(JournalError, match="it has another generator"):
                here.handle(REFRESH)
            return
        here.handle(REFRESH)
    directions = np.random.default_rng(0).standard_normal((2, 2))  # of ScaffoldI's estimate at x, lambda = 0.01
    expected = STUDY.box.from_cube(np.clip(X + 0.01 * directions, 0.0, 1.0))
    np.testing.assert_allclose(asked[1:], expected, rtol=0.0, atol=1e-15)


def test_recorded_points_are_taken_as_they_are(folder):
    """Points that this machine would not compute: no query is made again, and what was asked is what is known."""
    study = make_study("fzoos-weights", sites=("a",))
    request = encode(Message("update", 1, {"x": X}, {"seed": 7}), study.id)
    with StudySite(study, 0, Box(0.2), folder / "a.journal") as here:
        here.answer(request)
    rows = queries(folder)
    moved = [np.frombuffer(x) * 0.9 for x, _, _ in rows]
    with Journal(folder / "b.journal", study.id, "a") as journal:
        id = journal.begin(request)
        journal.record(id, np.array(moved[:3]), np.array([y for _, y, _ in rows[:3]]), 1, 0, "initial")
        journal.record(id, np.array(moved[3:]), np.array([y for _, y, _ in rows[3:]]), 1, 1, "active")
        journal.reply(id, b"reply", np.random.default_rng(0).bit_generator.state)
    with StudySite(study, 0, lambda x: pytest.fail("asked again"), folder / "b.journal") as here:
        client = here._restore()
        trajectory = client._half.context.trajectory
        np.testing.assert_allclose(study.box.from_cube(trajectory.x), moved, rtol=0.0, atol=1e-15)
        assert client.queries == len(rows)


def test_an_unusable_journal(folder):
    """Not this study's content at all: an error, not a crash, and no query."""
    with Journal(folder / "a.journal", STUDY.id, "a", seed=STUDY.seed) as journal:
        fill_journal(journal)
    with site(folder) as here, pytest.raises(RemoteFailure):
        decode(here.answer(encode(UPDATE, STUDY.id)), STUDY.id)
    assert asked(folder) == 0


# Objectives that fail


class Failing(Box):
    """Fails at some of its calls, counted from 1."""

    def __init__(self, log, at, how):
        super().__init__(0.2, log)
        self._at, self._how = at, how

    def __call__(self, x):
        y = super().__call__(x)
        if self.count in self._at:
            return self._how(x, y)
        return y


def raising(x, y):
    raise OSError(f"no licence for SECRET-PROJECT at {x} with {y!r}")


FAILURES = {
    "raises": raising,
    "None": lambda x, y: None,
    "a word": lambda x, y: "SECRET",
    "two numbers": lambda x, y: [y, y],
    "NaN": lambda x, y: float("nan"),
    "infinity": lambda x, y: -float("inf"),
    "-0.0": lambda x, y: -0.0,
}


@pytest.mark.parametrize("how", list(FAILURES)[:-1])
@pytest.mark.parametrize("at", [1, 4, 8, 15])
def test_a_failed_query_is_paid_for_and_asked_again(folder, how, at):
    """No answer; the query is kept as failed; asked again it goes on from there, and the replies are those of a site
    whose objective did not fail. 15 queries and 1 that failed are paid for."""
    (folder / "good").mkdir()
    with site(folder / "good") as good, site(folder, Failing(folder / "a.log", {at}, FAILURES[how])) as here:
        failures = 0
        for message in (UPDATE, REFRESH, SECOND):
            try:
                reply = decode(here.answer(encode(message, STUDY.id)), STUDY.id)
            except RemoteFailure:
                failures += 1
                reply = decode(here.answer(encode(message, STUDY.id)), STUDY.id)
            expected = good.handle(message)
            assert (
                reply.arrays["x" if "x" in reply.arrays else "c"].tobytes()
                == next(iter(expected.arrays.values())).tobytes()
            )
        assert failures == 1
        assert here.queries == asked(folder) == 16
    rows = queries(folder)
    assert [i + 1 for i, (_, _, error) in enumerate(rows) if error is not None] == [at]
    assert rows[at - 1][0] == rows[at][0]  # the same point, asked again


@pytest.mark.parametrize("how", FAILURES)
def test_after_a_restart_too(folder, how):
    """The same when the process ends between the failure and the second attempt."""
    (folder / "good").mkdir()
    with site(folder / "good") as good:
        expected = good.handle(UPDATE)
    with site(folder, Failing(folder / "a.log", {4}, FAILURES[how])) as here:
        if how != "-0.0":
            with pytest.raises(RemoteFailure):
                decode(here.answer(encode(UPDATE, STUDY.id)), STUDY.id)
        else:
            first = here.handle(UPDATE)
    with site(folder) as here:
        reply = here.handle(UPDATE)
        if how == "-0.0":  # a value like any other
            same(reply, first)
        else:
            assert reply.arrays["x"].tobytes() == expected.arrays["x"].tobytes()
            assert here.queries == asked(folder) == 7


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_skip(folder, vectorized, bad):
    """on_failure = "skip": NaN is an answer like any other: kept, counted, and the same after a restart."""

    def half(x):
        y = np.atleast_1d(np.sum((x - 0.2) ** 2, axis=-1))
        y = np.where(np.atleast_2d(x)[:, 0] > 0.0, bad, y)
        return y if vectorized else float(y[0])

    study = make_study(on_failure="skip", vectorized=vectorized, rounds=4, x0=0.0)
    results = []
    for restart in (False, True):
        (folder / str(restart)).mkdir()
        with Wire(study, folder / str(restart), [half, half], restart=restart) as wire:
            results.append(conduct(study, wire, folder / str(restart) / "result.db"))
    assert results[0].status == "completed"
    assert results[0].x.tobytes() == results[1].x.tobytes()
    assert results[0].queries_per_client == results[1].queries_per_client
    rows = [row for site in ("a", "b") for row in _rows(folder / "True" / f"{site}.journal")]
    assert any(error == "nan" or y == bad for y, error in rows)


def _rows(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT y, error FROM queries").fetchall()


def test_a_batch_that_fails_in_part(folder):
    """Vectorised: one NaN makes the batch a failure; all its values are in the journal, and it is asked again whole."""
    study = make_study("fedzo", sites=("a",), vectorized=True)  # batches of Q + 1 = 3
    calls = []

    def sometimes(x):
        calls.append(x)
        return np.where(np.arange(len(x)) == 1, np.nan, 1.0) if len(calls) == 2 else np.sum(x**2, axis=1)

    with StudySite(study, 0, sometimes, folder / "a.journal") as here:
        with pytest.raises(RemoteFailure):
            decode(here.answer(encode(UPDATE, study.id)), study.id)
        here.handle(UPDATE)
        assert here.queries == 9
    assert np.array_equal(calls[1], calls[2])
    rows = queries(folder)
    assert [y for _, y, error in rows if error is not None] == [1.0, None, 1.0]


@pytest.mark.parametrize("how", list(FAILURES)[:-1])
def test_what_the_server_hears_of_it(folder, how):
    """That the objective failed, in which round; not its words, its value, nor where."""
    with site(folder, Failing(folder / "a.log", {4}, FAILURES[how])) as here:
        data = here.answer(encode(UPDATE, STUDY.id))
    with pytest.raises(RemoteFailure) as caught:
        decode(data, STUDY.id)
    reason = str(caught.value)
    assert reason == "the objective failed in round 1" or reason in ("TypeError at the site", "ValueError at the site")
    for private in ("SECRET", "licence", "OSError", str(folder), *(repr(v) for v in logged(folder, "a").ravel())):
        assert private.encode() not in data


def test_the_server_does_not_hear_where_the_journal_is(folder):
    """Paths of the site's machine stay there."""
    with site(folder) as here:
        here._journal._db.execute("DROP TABLE replies")  # something is wrong with it
        data = here.answer(encode(UPDATE, STUDY.id))
    assert str(folder).encode() not in data


def test_not_asked(folder):
    """Values that people find later: nothing is paid for yet, the reason is told, and then it goes on as ever."""
    values = {}

    def people(x):
        if x.tobytes() not in values:
            values[x.tobytes()] = float(x @ x)
            raise NotAsked("a value is wanted")
        return values[x.tobytes()]

    (folder / "good").mkdir()
    with site(folder / "good", lambda x: float(x @ x)) as good:
        expected = good.handle(UPDATE)
    with site(folder, people) as here:
        for paid in range(6):
            with pytest.raises(RemoteFailure, match="a value is wanted"):
                decode(here.answer(encode(UPDATE, STUDY.id)), STUDY.id)
            assert here.queries == paid
        same(here.handle(UPDATE), expected)


# Requests that were given up


@pytest.mark.parametrize("restart", [False, True])
def test_abandoned_queries_are_adopted(folder, restart):
    """A request that fails half way and is not asked again: its queries are in the trajectory all the same, and in the
    count; the site goes on alike in the same process and in a new one."""
    study = make_study(sites=("a",))  # initial design 3, then 1 in an update; 3 and 1 from round 2 on
    first = Message("update", 1, {"x": X}, {"seed": 1})
    other = Message("update", 1, {"x": X + 0.25}, {"seed": 1})
    then = Message("refresh", 2, {"x": X}, {"seed": 1})
    box = Failing(folder / "a.log", {3}, raising)  # two of the initial design are there

    def make():
        return StudySite(study, 0, box, folder / "a.journal")

    here = make()
    with pytest.raises(RemoteFailure):
        decode(here.answer(encode(first, study.id)), study.id)
    replies = []
    for message in (other, then):
        if restart:
            here.close()
            here = make()
        replies.append(here.answer(encode(message, study.id)))
    trajectory = here._client._half.context.trajectory
    lower, width = -1.0, 2.0
    expected = (logged(folder, "a")[[0, 1]] - lower) / width
    assert trajectory.x[:2] == pytest.approx(expected, abs=1e-15)
    assert len(trajectory) == 2 + 3 + 1 + 3
    assert here.queries == 3 + 3 + 1 + 3 == asked(folder)
    here.close()
    with make() as again:  # and the journal reproduces it
        restored = again._restore()
        assert np.array_equal(restored._half.context.trajectory.x, trajectory.x)
        assert [decode(data, study.id).scalars["queries"] for data in replies] == [7, 10]
        # the same request as the one given up is a new one now
        assert decode(again.answer(encode(first, study.id)), study.id).scalars["queries"] == 11


def test_adopted_where_they_were_asked(folder):
    """Without projection queries may lie outside the box; given up, they are remembered there, not at its edge."""
    settings = {**TABLES["fzoos-weights"], "preset": "paper", "initial": {"points": 8, "radius": 0.3}}
    study = make_study(sites=("a",))
    study = type(study)(**study.settings | {"algorithm": settings})
    box = Failing(folder / "a.log", {8}, raising)
    with StudySite(study, 0, box, folder / "a.journal") as here:
        for x in (np.full(2, 0.99), np.full(2, 0.98)):
            here.answer(encode(Message("update", 1, {"x": x}, {"seed": 1}), study.id))
        points = (logged(folder, "a")[:7] + 1.0) / 2.0
        assert np.any(points > 1.0), "the test needs points outside"
        assert here._client._half.context.trajectory.x[:7] == pytest.approx(points, abs=1e-15)


# Budgets


def test_budget_of_the_site(folder):
    """6 + (3 + 6) queries fit a budget of 15 and the next round does not: it is refused before its first query, after
    a restart too, and what is known is still answered."""
    with site(folder, max_queries=15) as here:
        replies = [here.answer(encode(message, STUDY.id)) for message in (UPDATE, REFRESH, SECOND)]
        assert here.queries == 15
    third = encode(Message("refresh", 3, {"x": X}), STUDY.id)
    for _ in range(2):
        with site(folder, max_queries=23) as here:
            with pytest.raises(RemoteFailure, match="round 3 needs 9 queries; 15 of the site's 23 are spent"):
                decode(here.answer(third), STUDY.id)
            assert [here.answer(encode(m, STUDY.id)) for m in (UPDATE, REFRESH, SECOND)] == replies
    assert asked(folder) == 15
    with site(folder, max_queries=24) as here:
        decode(here.answer(third), STUDY.id)


@pytest.mark.parametrize("killed_after", range(1, 7))
def test_an_exact_budget_survives_a_restart(folder, killed_after):
    """A budget that the round just fits still fits it when the process ended in the middle of the round."""

    def dying(x):
        if asked(folder) == killed_after:
            raise KeyboardInterrupt
        return Box(0.2, folder / "a.log")(x)

    if killed_after < 6:
        with site(folder, dying, max_queries=6) as here, pytest.raises(KeyboardInterrupt):
            here.answer(encode(UPDATE, STUDY.id))
    with site(folder, max_queries=6) as here:
        assert here.handle(UPDATE).scalars["queries"] == 6 == asked(folder)


def test_the_smaller_budget_counts(folder):
    """The study's and the site's own."""
    study = make_study("scaffoldi", sites=("a",), max_queries_per_client=5)
    for own, counts in ((None, 5), (100, 5), (3, 3)):
        with (
            StudySite(study, 0, Box(0.2), folder / "a.journal", max_queries=own) as here,
            pytest.raises(BudgetError, match=f"0 of the site's {counts} are spent"),
        ):
            here.handle(UPDATE)


def test_failed_queries_count_for_the_budget(folder):
    """Paid is paid: after 2 failures 4 of 6 queries are still needed, and a budget of 7 has only 3 left."""
    with site(folder, Failing(folder / "a.log", {2, 4}, raising), max_queries=7) as here:
        for _ in range(5):
            here.answer(encode(UPDATE, STUDY.id))
        with pytest.raises(BudgetError, match="round 1 needs 4 queries; 4 of the site's 7 are spent"):
            here.handle(UPDATE)
        assert here.queries == asked(folder) == 4
    with site(folder, max_queries=8) as here:
        assert here.handle(UPDATE).scalars["queries"] == 8 == asked(folder)


def test_the_budget_holds_in_the_middle_of_a_round(folder):
    """The refresh found room for the round; a failure after it uses some up. Not one query more than the budget."""
    with site(folder, Failing(folder / "a.log", {11}, raising), max_queries=15) as here:
        for message in (UPDATE, REFRESH):
            here.handle(message)
        for _ in range(3):
            here.answer(encode(SECOND, STUDY.id))
        with pytest.raises(BudgetError, match="15 of the site's 15 queries are spent"):
            here.handle(SECOND)
    assert asked(folder) == 15
    with site(folder, max_queries=16) as here:
        assert here.handle(SECOND).scalars["queries"] == 16 == asked(folder)


# Ending


def test_stop(folder):
    """Asked to stop, a site ends at the next query; a new one takes up from there."""
    made = []

    def stopping(x):
        if asked(folder) == 3:
            made[0].stop()
        return Box(0.2, folder / "a.log")(x)

    made.append(site(folder, stopping))
    with made[0] as here, pytest.raises(RemoteFailure, match="CancelledError at the site"):
        decode(here.answer(encode(UPDATE, STUDY.id)), STUDY.id)
    with site(folder) as here:
        assert here.handle(UPDATE).scalars["queries"] == 6 == asked(folder)


def test_close_ends_the_objective(folder):
    """A program is ended with its site."""
    closed = []

    class Ends(Box):
        def close(self):
            closed.append(True)

    site(folder, Ends(0.2)).close()
    assert closed == [True]


def test_lost_on_the_way(folder):
    """A reply that was sent and never came is given again."""
    lost = []

    def first_reply(client, request, data):
        if len(lost) < 3:
            lost.append(data)
            raise Lost("cable")
        return data

    study = make_study(retries=3)
    with Wire(study, folder, tamper=first_reply) as wire:
        result = conduct(study, wire, folder / "result.db")
    assert result.status == "completed"
    assert result.queries == sum(len(logged(folder, site)) for site in study.sites) == 24
