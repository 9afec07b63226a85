"""Runs that are resumed: `minimize(resume=...)` ends with the bits of a run that was longer from the start."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fzoos import ActiveQueries, Auto, FedCMA, FedZO, FZooS, ObjectiveError, ScaffoldI, Stop, load, minimize
from fzoos.algorithms import DeComFL
from fzoos.runs.store import Store
from fzoos.testing.study import same_history

CENTRES = (0.3, 0.4, 0.1)
SETTINGS = {"bounds": (-1, 1), "seed": 0}


class Bowl:
    """Counts how often it is asked, and does at one of these times what it is told."""

    def __init__(self, centre, at=0, do=None):
        self.centre, self.count, self._at, self._do = centre, 0, at, do

    def __call__(self, x):
        self.count += 1
        if self.count == self._at:
            return self._do()
        return float(np.sum((x - self.centre) ** 2 + 0.1 * np.sin(9 * x)))


def bowls(at=0, do=None):
    return [Bowl(centre, at if k == 1 else 0, do) for k, centre in enumerate(CENTRES)]


def asked(objectives):
    return sum(objective.count for objective in objectives)


FEDZO = FedZO(local_steps=3)
SMALL = FZooS(local_steps=3, features=100, active=ActiveQueries(10, 2, 0.05), refresh=ActiveQueries(10, 3))
ALGORITHMS = [Auto(), FEDZO, ScaffoldI(local_steps=3), DeComFL(local_steps=3), FedCMA(local_steps=3), SMALL]


@pytest.mark.parametrize(
    ("algorithm", "shares"), [(algorithm, algorithm is FEDZO) for algorithm in ALGORITHMS], ids=lambda a: str(a)[:10]
)
def test_the_same_bits_as_at_once_and_no_query_twice(algorithm, shares):
    """Three rounds, then three more, with two of three clients drawn in each."""
    settings = SETTINGS | {"algorithm": algorithm, "participation": 2, "monitor": "clients" if shares else None}
    first, then, whole = bowls(), bowls(), bowls()
    start = minimize(first, np.zeros(4), rounds=3, **settings)
    more = minimize(then, np.zeros(4), rounds=6, resume=start, **settings)
    same_history(more, minimize(whole, np.zeros(4), rounds=6, **settings))
    assert more.history[:3] == start.history
    assert asked(first) + asked(then) == asked(whole) == more.queries
    assert more.seconds >= start.seconds


def test_points_that_are_asked_at_the_same_time():
    settings = SETTINGS | {"algorithm": FEDZO}
    first = minimize(bowls(), np.zeros(4), rounds=2, workers=2, **settings)
    more = minimize(bowls(), np.zeros(4), rounds=4, workers=-1, resume=first, **settings)
    same_history(more, minimize(bowls(), np.zeros(4), rounds=4, **settings))


def interrupt():
    raise KeyboardInterrupt


def test_a_round_that_was_interrupted_is_finished():
    """The values of a round that did not end are used, too."""
    settings = SETTINGS | {"algorithm": FEDZO, "rounds": 4}
    first, then, whole = bowls(at=100, do=interrupt), bowls(), bowls()
    start = minimize(first, np.zeros(4), **settings)
    assert (start.status, start.rounds) == ("interrupted", 1)
    more = minimize(then, np.zeros(4), resume=start, **settings)
    at_once = minimize(whole, np.zeros(4), **settings)
    assert np.array_equal(more.x, at_once.x)
    assert asked(first) + asked(then) == asked(whole) + 1  # the one that was interrupted is asked once more
    assert more.queries == at_once.queries + 1


def fail():
    raise OSError("no connection")


@pytest.mark.parametrize("do", [fail, lambda: math.nan], ids=["raised", "nan"])
def test_a_run_that_failed_goes_on(do):
    settings = SETTINGS | {"algorithm": FEDZO, "rounds": 4}
    first, then, whole = bowls(at=100, do=do), bowls(), bowls()
    with pytest.raises(ObjectiveError) as error:
        minimize(first, np.zeros(4), **settings)
    more = minimize(then, np.zeros(4), resume=error.value.result, **settings)
    assert np.array_equal(more.x, minimize(whole, np.zeros(4), **settings).x)
    assert more.queries == asked(first) + asked(then) == asked(whole) + 1


def test_a_budget_counts_on():
    """The last round of the first run was cut; the second goes on after it, within its own budget."""
    settings = SETTINGS | {"algorithm": FEDZO, "rounds": 100}
    start = minimize(bowls(), np.zeros(4), max_queries=1010, **settings)
    then = bowls()
    more = minimize(then, np.zeros(4), max_queries=2050, resume=start, **settings)
    assert more.history[: start.rounds] == start.history
    assert start.queries < more.queries <= 2050
    assert asked(then) == more.queries - start.queries
    assert [record.cut > 0 for record in more.history].count(True) == 2


def test_one_that_had_converged_makes_three_rounds_more_at_least():
    settings = {"bounds": (-1, 1), "seed": 0, "rounds": 200, "stop": Stop(tolerance=1e-3)}
    start = minimize(bowls(), np.zeros(4), **settings)
    assert start.status == "converged"
    more = minimize(bowls(), np.zeros(4), resume=start, **settings)
    assert more.rounds >= start.rounds + 3
    finer = minimize(bowls(), np.zeros(4), resume=start, **settings | {"stop": Stop(tolerance=1e-5)})
    assert finer.rounds > start.rounds


@pytest.mark.parametrize("given", [{}, {"rng": np.random.default_rng(7)}, {"rng": np.random.SeedSequence([3, 4])}])
def test_whatever_the_seed_was(given, tmp_path):
    """One that nobody gave is remembered, in a file as well."""
    settings = {"bounds": (-1, 1), "algorithm": FedZO()}
    first = minimize(bowls(), np.zeros(4), rounds=2, store=tmp_path / "runs.db", **settings, **given)
    more = minimize(bowls(), np.zeros(4), rounds=4, resume=first, **settings)
    again = minimize(bowls(), np.zeros(4), rounds=4, resume=1, store=tmp_path / "runs.db", **settings)
    same_history(more, again)


# In a file


def test_a_run_of_a_file_goes_on_there(tmp_path):
    """By its name: the same run, with all its rounds, and the settings that it has now."""
    path = tmp_path / "runs.db"
    settings = SETTINGS | {"algorithm": FEDZO, "store": path}
    minimize(bowls(), np.zeros(4), rounds=3, name="mine", **settings)
    minimize(bowls(), np.zeros(4), rounds=1, name="other", **settings)
    then = bowls()
    more = minimize(then, np.zeros(4), rounds=5, resume="mine", **settings)
    same_history(more, load(path, run=1))
    same_history(more, minimize(bowls(), np.zeros(4), rounds=5, **SETTINGS, algorithm=FEDZO))
    with Store(path) as store:
        assert [(run.name, run.rounds, run.status) for run in store.runs] == [
            ("mine", 5, "completed"),
            ("other", 1, "completed"),
        ]
        assert store.settings(1)["rounds"] == 5
        store.check(1)
    again = minimize(bowls(), np.zeros(4), rounds=6, resume=1, **settings)
    assert again.rounds == load(path, run=1).rounds == 6


def test_a_result_is_resumed_as_a_new_run_of_a_file(tmp_path):
    first = minimize(bowls(), np.zeros(4), rounds=3, **SETTINGS)
    more = minimize(bowls(), np.zeros(4), rounds=5, resume=first, store=tmp_path / "runs.db", **SETTINGS)
    same_history(load(tmp_path / "runs.db"), more)
    same_history(
        minimize(bowls(), np.zeros(4), rounds=7, resume=1, store=tmp_path / "runs.db", **SETTINGS),
        minimize(bowls(), np.zeros(4), rounds=7, **SETTINGS),
    )


KILLED = """
import os, sys
import numpy as np
from fzoos import minimize
from test_resume import FEDZO, SETTINGS, bowls
minimize(bowls(at=170, do=lambda: os._exit(9)), np.zeros(4), rounds=5, algorithm=FEDZO, store=sys.argv[1], **SETTINGS)
"""


def test_a_run_whose_process_was_killed_goes_on_after_its_last_round(tmp_path):
    path = tmp_path / "runs.db"
    here = os.path.dirname(os.path.abspath(__file__))
    env = os.environ | {"PYTHONPATH": os.pathsep.join([here, *sys.path])}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=env, timeout=120)
    assert ended.returncode == 9
    assert load(path).rounds == 2
    uncounted = "queries of the round in which it was killed are not counted"
    assert load(path).message == f"its process is gone; {uncounted}"
    then = bowls()
    more = minimize(then, np.zeros(4), rounds=5, algorithm=FEDZO, resume="FedZO", store=path, **SETTINGS)
    same_history(more, minimize(bowls(), np.zeros(4), rounds=5, algorithm=FEDZO, **SETTINGS))
    assert asked(then) == 3 * 3 * 3 * 21
    assert more.message == load(path).message == f"all 5 rounds are done; {uncounted}"


# Constraints: multipliers go on


def limited(at=0, do=None):
    """Two of three have constraints, of which the first has two; they bind at the minimum."""
    plain = bowls(at, do)

    def first(x):
        return plain[0](x), [float(x[0] - 0.15), float(x.sum() - 0.9)]

    def second(x):
        return plain[1](x), 0.2 - float(x[1])

    return [first, second, plain[2]], plain


@pytest.mark.parametrize(("algorithm", "stored"), [(Auto(), True), (FEDZO, False)], ids=["stored", "as a result"])
def test_a_run_with_constraints_goes_on(algorithm, stored, tmp_path):
    """Multipliers and penalties are those of a run that was longer from the start, and what is known to be feasible."""
    settings = SETTINGS | {"algorithm": algorithm}
    file = {"store": tmp_path / "runs.db", "name": "limited"} if stored else {}
    (first, one), (then, two), (whole, all_of_it) = limited(), limited(), limited()
    start = minimize(first, np.zeros(4), rounds=4, **settings, **file)
    more = minimize(then, np.zeros(4), rounds=9, resume="limited" if stored else start, **settings, **file)
    at_once = minimize(whole, np.zeros(4), rounds=9, **settings)
    same_history(more, at_once)
    assert (more.feasible, more.violation) == (at_once.feasible, at_once.violation)
    assert [r.feasible for r in more.history] == [r.feasible for r in at_once.history]
    assert any(r.violation > 0 for r in at_once.history), "the constraints bind"
    assert asked(one) + asked(two) == asked(all_of_it)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("how", ["raised", "returned", "from the first query on"])
def test_failures_with_constraints_are_resumed(how, stored, tmp_path):
    """A query that raised has no constraints, one that returned NaN has: each is again what it was."""

    def make(count):
        functions, _ = limited()

        def sometimes(x):
            count.append(x)
            if how == "from the first query on" and len(count) <= 6:
                raise OSError("not yet")
            if how == "from the first query on" or len(count) not in (7, 8):
                return functions[0](x)
            if how == "raised":
                raise OSError("no connection")
            return math.nan, [math.nan] * 2

        return [sometimes, *functions[1:]]

    settings, count = SETTINGS | {"algorithm": Auto(), "on_failure": "skip"}, []
    file = {"store": tmp_path / "runs.db", "name": "limited"} if stored else {}
    start = minimize(make(count), np.zeros(4), rounds=4, **settings, **file)
    more = minimize(make(count), np.zeros(4), rounds=9, resume="limited" if stored else start, **settings, **file)
    at_once = minimize(make([]), np.zeros(4), rounds=9, **settings)
    if not stored:  # files of runs have no infinite violation, as it is where x has no value
        same_history(more, at_once)
    assert more.x.tobytes() == at_once.x.tobytes()
    assert (more.queries_per_client, more.bytes_up) == (at_once.queries_per_client, at_once.bytes_up)
    assert [r.feasible for r in more.history] == [r.feasible for r in at_once.history]
    assert at_once.failed == more.failed > 0


# What is refused


def test_what_is_refused(tmp_path):
    first = minimize(bowls(), np.zeros(4), rounds=3, store=tmp_path / "runs.db", **SETTINGS)

    def go_on(objectives=None, x0=None, **changes):
        settings = SETTINGS | {"rounds": 5, "resume": first} | changes
        return minimize(objectives or bowls(), np.zeros(4) if x0 is None else x0, **settings)

    for changes, message in [
        ({"rounds": 3}, "rounds is 3, but the run to resume has 3 rounds already"),
        ({"seed": 1}, "resume: the run has seed = 0: leave seed and rng out"),
        ({"algorithm": FedZO()}, "resume: the run was started with algorithm = "),
        ({"bounds": (-1, 2)}, "resume: the run was started with bounds = "),
        ({"monitor": "clients"}, "resume: the run was started with share_values = None, not True"),
        ({"objectives": bowls()[:2]}, "the run to resume has 3 clients, but there are 2 objectives"),
        ({"x0": np.full(4, 0.1)}, "resume: round 1 leads to another x here"),
        ({"resume": replace(first)}, "resume is a result without the values of its queries"),
        ({"resume": load(tmp_path / "runs.db")}, "resume is a result without the values of its queries"),
        ({"resume": "mine"}, "resume names the run 'mine': store must say in which file"),
        ({"resume": "mine", "store": tmp_path / "runs.db"}, "has no run 'mine'; it has 1 \\(FedTrustRegion\\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            go_on(**changes)
    with pytest.raises(TypeError, match="resume must be a result of minimize, or the name or id"):
        go_on(resume=3.5)
    assert load(tmp_path / "runs.db").status == "completed"


def test_on_the_command_line(tmp_path, run_command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", "quadratic", "--dim", "4", "--clients", "2", "--algorithm", "fedzo", "--quiet"]
    store = ["--store", "runs.db"]
    for more, code in [
        (["--rounds", "2"], 0),
        (["--rounds", "4", "--resume", "1"], 0),
        (["--rounds", "5", "--resume", "9"], 2),
    ]:
        found, _, err = run_command(*words, *store, *more)
        assert found == code
    assert "has no run '9'" in err
    assert load("runs.db").rounds == 4
    with Store("runs.db") as store:
        assert len(store.runs) == 1
    assert "--resume 1 needs --store" in run_command(*words, "--resume", "1")[2]
