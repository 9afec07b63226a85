"""Queries that fail and are left out: their number, the first of them, and where both are shown."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest

from fzoos import FedZO, FiniteDifferences, ObjectiveError, Study, load, minimize
from fzoos.algorithms import ALGORITHMS
from fzoos.engines import LocalStudy
from fzoos.federation.check import check_reply
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.objectives.program import Program
from fzoos.runs.dashboard.view import details
from fzoos.runs.reader import Reader

Q = 4
CHEAP = FedZO(local_steps=2, differences=FiniteDifferences(count=Q))


class Flaky:
    """Raises at every `every`-th call."""

    def __init__(self, every):
        self.every, self.calls, self.raised = every, 0, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls % self.every == 0:
            self.raised += 1
            raise OSError(f"no answer to call {self.calls}")
        return float(np.sum(x**2))


def run(objectives, **changes):
    settings = {"bounds": (-1, 1), "algorithm": CHEAP, "rounds": 3, "seed": 0, "on_failure": "skip"}
    return minimize(objectives, [0.5, 0.5, 0.5], **(settings | changes))


@pytest.mark.parametrize("workers", [1, 2])
def test_exceptions_are_skipped_and_counted(workers):
    """Every query counts, failed or not; the result and every record know how many failed so far."""
    sites = [Flaky(every=7), Flaky(every=10**9)]
    records = []
    result = run([lambda x, site=site: site(x) for site in sites], callback=records.append, workers=workers)
    assert result.status == "completed"
    assert result.queries_per_client == tuple(site.calls for site in sites) == (3 * 2 * (Q + 1),) * 2
    assert result.failed == sites[0].raised == 30 // 7
    assert [record.failed for record in records] == [10 // 7, 20 // 7, 30 // 7]
    assert result.columns["failed"] == [1, 2, 4]
    assert "OSError: no answer to call 7\n" in result.first_failure
    assert "4 of them, the first: objective of client 0 raised OSError: no answer to call 7" in str(result)


@pytest.mark.parametrize("name", ["auto", "fedcma", "fzoos"])
def test_every_kind_of_algorithm_continues(name):
    """An exception and NaN lead to the same x, bit for bit."""

    def failing(fail):
        calls = []

        def objective(x):
            calls.append(1)
            return fail() if len(calls) % 5 == 0 else float(np.sum(x**2))

        return objective

    def error():
        raise ValueError("no")

    raised, nan = (run(failing(fail), algorithm=ALGORITHMS[name]()) for fail in (error, lambda: float("nan")))
    assert np.array_equal(raised.x, nan.x)
    assert raised.failed == nan.failed > 0


@pytest.mark.parametrize("name", ["auto", "fedzo", "fzoos", "fedlinesearch"])
def test_a_run_without_any_value_has_failed(name):
    """It may look converged, since x does not move; one value is enough for it to be what it looks like."""
    result = run([Flaky(every=1), Flaky(every=1)], algorithm=ALGORITHMS[name](), rounds=10)
    assert (result.status, result.success, result.failed) == ("failed", False, result.queries)
    assert result.message.startswith(f"none of the {result.queries} queries had a value: call the objective at x0")
    assert run([Flaky(every=1), Flaky(every=2)], algorithm=ALGORITHMS[name]()).success


def test_a_study_names_the_sites_without_any_value(tmp_path):
    study = Study("demo", **STUDY, algorithm=TABLE, on_failure="skip")
    result = LocalStudy(study, tmp_path / "one", [Flaky(every=2), Flaky(every=1)]).run()
    assert (result.success, result.message) == (True, "all 2 rounds are done; no query had a value at b")
    result = LocalStudy(study, tmp_path / "both", [Flaky(every=1), Flaky(every=1)]).run()
    assert result.status == "failed"
    assert result.message.endswith("; no query had a value at a, b")


def test_nothing_failed():
    """Then failures are not mentioned, and not a byte is sent for them."""
    result = run(lambda x: float(np.sum(x**2)))
    assert (result.failed, result.first_failure) == (0, "")
    assert "failed" not in result.columns
    assert "failed" not in str(result)
    assert result.bytes_up == 3 * (3 + 2) * 8  # x, queries and the correction length


def test_failures_are_stored_and_shown(tmp_path, run_command):
    path = tmp_path / "runs.db"
    result = run(Flaky(every=7), store=path)
    again = load(path)
    assert (again.failed, again.first_failure) == (result.failed, result.first_failure)
    assert [r.failed for r in again.history] == [r.failed for r in result.history]
    words = "failed   4 of these queries; the first: objective of client 0 raised OSError"
    assert words in run_command("show", path)[1]
    with Reader(path) as reader:
        assert details(reader.run(1))["failed"] == 4


STUDY = {"x0": 0.5, "dim": 2, "bounds": (0.0, 1.0), "sites": ("a", "b"), "rounds": 2}
TABLE = {"name": "fedzo", "local_steps": 2}


def test_failures_of_a_study(tmp_path, run_command):
    """Sites send their number, not what went wrong. A resumed study knows it, too."""
    study = Study("demo", **STUDY, algorithm=TABLE, on_failure="skip")
    sites = [Flaky(every=20), Flaky(every=10**9)]
    result = LocalStudy(study, tmp_path, sites).run()
    assert (result.failed, result.first_failure) == (84 // 20, "")
    longer = Study("demo", **(STUDY | {"rounds": 3}), algorithm=TABLE, on_failure="skip")
    result = LocalStudy(longer, tmp_path, [Flaky(every=10**9), Flaky(every=10**9)]).run(resume=True)
    assert (result.rounds, result.failed) == (3, 84 // 20)
    assert "failed   4 of these queries" in run_command("show", tmp_path)[1]


def test_a_private_study_does_not_send_failures(tmp_path):
    """Noise protects the reply; a plain count beside it would not be private."""
    pytest.importorskip("dp_accounting")
    study = Study("demo", **STUDY, algorithm=TABLE, on_failure="skip", privacy={"clip": 0.1, "noise": 1.0})
    assert LocalStudy(study, tmp_path, [Flaky(every=20), Flaky(every=20)]).run().failed == 0


def test_study_whose_objective_raises(tmp_path, caplog):
    """The log says so once for each site, with the line of the user's file, and queries are counted."""
    file = tmp_path / "objective.py"
    lines = ["import math", "def objective(x):", "    return helper(x)", "def helper(x):", "    return math.sqrt(-1)"]
    file.write_text("\n".join(lines))
    study = Study("demo", **STUDY, algorithm=TABLE, retries=2)
    with caplog.at_level(logging.WARNING, "fzoos"):
        result = LocalStudy(study, tmp_path, [Program.python(file) for _ in study.sites]).run()
    assert result.status == "failed"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert all("ValueError: math domain error (objective.py, line 5)" in line for line in said)
    assert result.queries_per_client == (3, 3)  # the first query, in each of three attempts


@pytest.mark.parametrize("failed", [-1, 43])
def test_impossible_count_is_refused(failed):
    request = Message("update", 1, {"x": np.zeros(2)})
    reply = Message("iterate", 1, {"x": np.zeros(2)}, {"queries": 42, "failed": failed})
    with pytest.raises(MessageError, match="failed queries"):
        check_reply(CHEAP, CHEAP.server(2), request, reply)


def test_the_error_can_be_pickled():
    """With its point and the result so far, which its message does not hold."""
    with pytest.raises(ObjectiveError) as caught:
        minimize([lambda x: float("nan")], x0=np.zeros(2), bounds=(-1, 1), rounds=1, seed=0)
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert (error.client, error.round, error.x.tolist()) == (0, 1, caught.value.x.tolist())
    assert error.result.rounds == 0
