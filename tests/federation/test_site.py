"""A site: its journal answers what was answered, and nothing private gets out."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fault_jobs import TABLES, Box, make_study
from one_site import REFRESH, SECOND, STUDY, UPDATE, X, asked, queries, same, site
from study_runs import run

from fzoos.federation.journal import Journal, JournalError
from fzoos.federation.site import StudySite
from fzoos.messages.codec import RemoteFailure, decode, encode
from fzoos.messages.message import Message
from fzoos.messages.rounding import Rounding
from fzoos.result import ValuePending

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
            raise ValuePending("tomorrow")
        seen.append(x)
        return 0.0

    seen = []
    with site(folder, once) as here:
        with pytest.raises(RemoteFailure) as caught:
            decode(here.answer(encode(UPDATE, STUDY.id)), STUDY.id)
        assert caught.value.queries == 2
        assert int((folder / "a.journal.rows").read_bytes()) == 3  # the request and two queries


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
    for message in (UPDATE, REFRESH):
        with StudySite(study, 0, Box(0.2), folder / "a.journal") as here:
            reply = here.handle(replace(message, precision="float32"))
        assert reply.precision == "float32"
        assert all(np.array_equal(array, np.float32(array)) for array in reply.arrays.values())
    assert len(calls) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"table": {"optimizer": {"name": "adam", "learning_rate": 0.05, "restart": False}}},
        {"vectorized": True},
        {"algorithm": {**TABLES["fzoos"], "length": {"name": "Measured"}, "points": 10}},
        {"algorithm": {**TABLES["fzoos"], "refresh": False, "vector": "fixed"}},
        {"participation": 1},
    ],
)
def test_restarted_in_every_variant(folder, changes):
    """The same with an optimiser that remembers, batches, a measured length, one exchange, points outside the box,
    a refresh in the first round, and rounds in which a site takes no part."""
    settings = {"algorithm": "fzoos"} | changes
    algorithm = settings.pop("algorithm")
    study = make_study(rounds=4, **settings)
    if isinstance(algorithm, dict):
        study = type(study)(**study.settings | {"algorithm": algorithm})
    results = [run(study, folder / str(restart), restart=restart)[0] for restart in (False, True)]
    assert results[0].x.tobytes() == results[1].x.tobytes()
    assert results[0].queries_per_client == results[1].queries_per_client
    assert results[0].status == "completed"


# Requests that are refused


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"FZM1" + bytes(100), "not JSON"),
        (encode(UPDATE, "another"), "a message of study 'another'"),
        (encode(Message("refresh", 2, {"x": np.zeros(3)}), STUDY.id), "must have shape"),
        (encode(Message("update", 1, {"x": np.full(2, 1.5)}), STUDY.id), "outside the box"),
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


def test_a_journal_of_another_version(folder):
    """A journal with this study's name but other numbers in it is noticed before it does harm."""
    with Journal(folder / "a.journal", STUDY.id, "a", seed=STUDY.seed) as journal:
        request = journal.begin(encode(UPDATE, STUDY.id))
        journal.record(request, np.full((6, 2), 0.3), np.zeros(6), 1, 1, "difference")
        journal.reply(request, b"reply", {})
    with site(folder) as here:
        with pytest.raises(JournalError, match="another version of the program: it made queries in other steps"):
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
