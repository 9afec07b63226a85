"""A site whose objective fails, whose requests are given up or whose budget ends: what is paid for is not lost."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from fault_jobs import Box, logged, make_study
from one_site import REFRESH, SECOND, STUDY, UPDATE, X, asked, queries, same, site
from wire import Wire

from fzoos.federation.site import BudgetError, StudySite
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import RemoteFailure, decode, encode
from fzoos.messages.message import Message
from fzoos.result import ValuePending

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


@pytest.mark.parametrize(("how", "at"), [*((how, 4) for how in list(FAILURES)[:-1]), ("raises", 1), ("NaN", 15)])
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


@pytest.mark.parametrize(("vectorized", "bad"), [(False, float("nan")), (True, float("inf"))])
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
            results.append(run_study(study, wire, folder / str(restart) / "result.db"))
    assert results[0].status == "completed"
    assert results[0].x.tobytes() == results[1].x.tobytes()
    assert results[0].queries_per_client == results[1].queries_per_client
    rows = [row for site in ("a", "b") for row in _rows(folder / "True" / f"{site}.journal")]
    assert any(error == "nan" or y == bad for y, error in rows)


def _rows(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT y, error FROM queries").fetchall()


@pytest.mark.parametrize("how", ["raises", "two numbers"])
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
            raise ValuePending("a value is wanted")
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
    study = make_study(sites=("a",))  # x_0, 3 around it, x_1, 1 around it, x_2; in a refresh x and 2
    first = Message("update", 1, {"x": X}, {"seed": 1})
    other = Message("update", 1, {"x": X + 0.25}, {"seed": 1})
    then = Message("refresh", 2, {"x": X}, {"seed": 1})
    box = Failing(folder / "a.log", {3}, raising)  # x_0 and one of the initial design are there

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
    assert len(trajectory) == 2 + 7 + 3
    assert here.queries == 3 + 7 + 3 == asked(folder)
    here.close()
    with make() as again:  # and the journal reproduces it
        restored = again._restore()
        assert np.array_equal(restored._half.context.trajectory.x, trajectory.x)
        assert [decode(data, study.id).scalars["queries"] for data in replies] == [10, 13]
        # the same request as the one given up is a new one now
        assert decode(again.answer(encode(first, study.id)), study.id).scalars["queries"] == 13 + 3


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


@pytest.mark.parametrize("killed_after", [1, 5, 6])
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
