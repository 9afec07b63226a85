"""`minimize`: bad input, failing objectives, Ctrl-C, and what is shared with the caller."""

import threading
import time

import numpy as np
import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    Adam,
    Constant,
    DistanceAware,
    FedProx,
    FedZO,
    FiniteDifferences,
    FZooS,
    Measured,
    ObjectiveError,
    SquaredExponential,
    Theoretical,
    minimize,
)

NAN, INF = float("nan"), float("inf")
Q = 4
CHEAP = FedZO(local_steps=2, differences=FiniteDifferences(count=Q))


def f(x):
    return float(np.sum(x**2))


def call(**changes):
    arguments = {
        "objectives": [f, f],
        "x0": [0.5, 0.5, 0.5],
        "bounds": (-1, 1),
        "algorithm": CHEAP,
        "rounds": 1,
        "seed": 0,
    } | changes
    return minimize(arguments.pop("objectives"), arguments.pop("x0"), **arguments)


# The arguments of minimize: (argument, value, error); the message must name the argument.
BAD = [
    ("objectives", [], ValueError),
    ("objectives", None, TypeError),
    ("objectives", (g for g in [f]), TypeError),
    ("objectives", [f, 3], TypeError),
    ("x0", [0.5, NAN, 0.5], ValueError),
    ("x0", [0.5, 1.5, 0.5], ValueError),
    ("x0", [], ValueError),
    ("x0", [[0.5, 0.5, 0.5]], ValueError),
    ("x0", ["a", "b", "c"], TypeError),
    ("x0", [1j, 0, 0], TypeError),
    ("bounds", (1, -1), ValueError),
    ("bounds", [(-1, 1), (-1, 1), (2, 1)], ValueError),
    ("bounds", (NAN, 1), ValueError),
    ("bounds", (-INF, INF), ValueError),
    ("scale", 2.0, ValueError),
    ("bounds", (-1e308, 1e308), ValueError),
    ("bounds", [(-1, 1), (-1, 1)], ValueError),
    ("bounds", 1, ValueError),
    ("bounds", None, (TypeError, ValueError)),
    ("algorithm", FedZO, TypeError),
    ("algorithm", "fedzo", TypeError),
    ("stop", 3, TypeError),
    ("rounds", -1, ValueError),
    ("rounds", 1.5, TypeError),
    ("rounds", True, TypeError),
    ("local_steps", 2, TypeError),  # both are settings of the algorithms that have local steps
    ("optimizer", Adam(), TypeError),
    ("weights", [1, -1], ValueError),
    ("weights", [1, NAN], ValueError),
    ("weights", [0, 0], ValueError),
    ("weights", [1, 1, 1], ValueError),
    ("weights", 1, ValueError),
    ("weights", ["a", "b"], TypeError),
    ("participation", 0, ValueError),
    ("participation", 3, ValueError),
    ("participation", 0.0, ValueError),
    ("participation", 1.5, ValueError),
    ("participation", NAN, ValueError),
    ("participation", True, TypeError),
    ("max_queries", -1, ValueError),
    ("max_queries", 10.0, TypeError),
    ("on_failure", "ignore", ValueError),
    ("monitor", 3, TypeError),
    ("callback", "stop", TypeError),
    ("seed", -1, ValueError),
    ("seed", 1.0, TypeError),
    ("seed", True, TypeError),
    ("rng", 3, ValueError),
    ("workers", 0, ValueError),
    ("workers", 1.0, TypeError),
]


@pytest.mark.parametrize(("argument", "value", "error"), BAD, ids=[f"{name}-{k}" for k, (name, *_) in enumerate(BAD)])
def test_bad_argument(argument, value, error):
    """A ValueError (or TypeError) that names the argument, before any query is made."""
    asked = []

    def objective(x):
        asked.append(x)
        return f(x)

    changes = {argument: value} if argument == "objectives" else {"objectives": [objective] * 2, argument: value}
    with pytest.raises(error, match=rf"\b{argument}\b"):
        call(**changes)
    assert not asked


# Settings: (what makes them, error, name in the message)
BAD_SETTINGS = [
    (lambda: FZooS(features=0), ValueError, "features"),
    (lambda: FZooS(features=10.0), TypeError, "features"),
    (lambda: FZooS(noise=-1e-6), ValueError, "noise"),
    (lambda: FZooS(kernel="rbf"), TypeError, "kernel"),
    (lambda: FZooS(points=0), ValueError, "points"),
    (lambda: FZooS(feature_points=0), ValueError, "feature_points"),
    (lambda: FZooS(active=5), TypeError, "active"),
    (lambda: FZooS(active=ActiveQueries(10, 5)), ValueError, "active"),
    (lambda: FZooS(initial=None), TypeError, "initial"),
    (lambda: FZooS(length=1.0), TypeError, "length"),
    (lambda: FZooS(length=Measured(), refresh=None), ValueError, "refresh"),
    (lambda: FZooS(vector="both"), ValueError, "vector"),
    (lambda: ActiveQueries(5, 6, 0.01), ValueError, "picks"),
    (lambda: ActiveQueries(5, 2, 0.0), ValueError, "radius"),
    (lambda: SquaredExponential(0.0), ValueError, "length_scale"),
    (lambda: FedProx(gamma=-1.0), ValueError, "gamma"),
    (lambda: FedZO(differences=20), TypeError, "differences"),
    (lambda: FiniteDifferences(count=0), ValueError, "count"),
    (lambda: FiniteDifferences(step=0.0), ValueError, "step"),
    (lambda: FiniteDifferences(directions="axes"), ValueError, "directions"),
    (lambda: Constant(1.5), ValueError, "gamma"),
    (lambda: Theoretical(heterogeneity=0.0), ValueError, "heterogeneity"),
    (lambda: DistanceAware(heterogeneity=NAN), ValueError, "heterogeneity"),
    (lambda: Theoretical(heterogeneity=1.0, delta=1.0), ValueError, "delta"),
    (lambda: Adam(0.0), ValueError, "learning_rate"),
    (lambda: Adam(beta1=1.0), ValueError, "beta1"),
    (lambda: SGD(-0.1), ValueError, "learning_rate"),
]


@pytest.mark.parametrize(("make", "error", "name"), BAD_SETTINGS)
def test_bad_setting(make, error, name):
    """Settings are checked when they are made, and the message names the setting."""
    with pytest.raises(error, match=rf"\b{name}\b"):
        make()


# Objectives that return the wrong thing


@pytest.mark.parametrize("wrong", [lambda x: 1.0, lambda x: np.zeros((len(x), 1)), lambda x: np.zeros(len(x) + 1)])
def test_vectorized_shape(wrong):
    """A vectorised objective that returns the wrong shape is bad input: a ValueError that names it."""
    with pytest.raises(ValueError, match=r"vectorized objective of client 1 must return shape \(5,\)"):
        call(objectives=[lambda x: np.sum(x**2, axis=1), wrong], vectorized=True)


# Objectives that fail


class Failing:
    """Fails at its `at`-th call, and remembers what it was asked."""

    def __init__(self, at, fail):
        self._at, self._fail = at, fail
        self.asked = []

    def __call__(self, x):
        self.asked.append(x.copy())
        return self._fail() if len(self.asked) == self._at else f(x)

    def __reduce__(self):
        raise TypeError("it counts in this process: several workers are threads then")


def error_of():
    raise ZeroDivisionError("no luck")


@pytest.mark.parametrize(("at", "workers"), [(1, 1), (3, 2), (2 * (Q + 1) + 4, 1)])
def test_raises(at, workers):
    """ObjectiveError names client, round and the very point; the cause is kept; complete rounds are on the exception.

    With T = 2 a round has 2 (Q + 1) queries a client: calls 1 and 3 are in round 1, the last one in round 2.
    """
    failing = Failing(at, error_of)
    with pytest.raises(ObjectiveError) as caught:
        call(objectives=[f, failing], rounds=4, workers=workers)
    error = caught.value
    complete = 0 if at <= 2 * (Q + 1) else 1
    assert (error.client, error.round) == (1, complete + 1)
    assert np.array_equal(error.x, failing.asked[-1])
    assert isinstance(error.__cause__, ZeroDivisionError)
    message = str(error)
    assert all(word in message for word in ("client 1", f"round {complete + 1}", "ZeroDivisionError: no luck"))
    assert np.array2string(error.x, separator=", ") in message
    result = error.result
    assert (result.status, result.rounds, len(result.history)) == ("failed", complete, complete)
    assert result.message == message
    assert result.x == pytest.approx(call(rounds=complete).x, abs=0)
    assert result.queries == sum(result.queries_per_client)
    assert result.queries_per_client[1] == at  # what was really asked, the failed query included


def test_error_in_an_objective_that_minimizes():
    """An ObjectiveError from a run inside an objective is that objective's failure: client and round are the outer
    run's, the inner error is the cause."""

    def inner(x):
        return call(objectives=[f, Failing(1, error_of)]).queries

    with pytest.raises(ObjectiveError) as caught:
        call(objectives=[inner, f])
    assert (caught.value.client, caught.value.round) == (0, 1)
    assert isinstance(caught.value.__cause__, ObjectiveError)
    assert caught.value.__cause__.client == 1


def test_result_of_a_failed_parallel_run_is_settled():
    """The counts on the exception are final: no worker asks anything more after the result was made."""
    slow = Failing(-1, None)

    def sluggish(x):
        time.sleep(0.002)
        return slow(x)

    with pytest.raises(ObjectiveError) as caught:
        call(objectives=[Failing(1, error_of), sluggish], workers=2)
    assert caught.value.result.queries_per_client == (1, len(slow.asked))


# Ctrl-C


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupt_in_the_first_round(workers):
    """Ctrl-C before the first round is complete: x0, no records, and the queries made."""
    failing = Failing(3, interrupt)
    result = call(objectives=[f, failing], workers=workers, rounds=3)
    assert (result.status, result.rounds, result.history) == ("interrupted", 0, ())
    assert result.x == pytest.approx([0.5, 0.5, 0.5], abs=1e-15)
    assert "round 1" in result.message
    assert len(failing.asked) == 3
    assert 3 <= result.queries_per_client[1] <= Q + 1  # the batch it happened in may count as a whole


def test_interrupt_in_the_callback():
    """Ctrl-C between rounds keeps the round just done."""
    result = call(callback=lambda record: interrupt() if record.round == 2 else None, rounds=5)
    assert (result.status, result.rounds) == ("interrupted", 2)
    assert np.array_equal(result.x, call(rounds=2).x)


# What is shared and what is not


def test_workers_run_at_the_same_time():
    """With 3 workers three clients are inside their objectives together: each waits for the other two."""
    barrier = threading.Barrier(3, timeout=20)

    def together(x):
        barrier.wait()
        return f(x)

    assert call(objectives=[together] * 3, workers=3).status == "completed"


def test_seconds():
    """Seconds are the run's, without the monitor's and the callback's."""
    result = call(
        objectives=[lambda x: time.sleep(0.002) or f(x)],
        monitor=lambda x: time.sleep(0.3) or 0.0,
        callback=lambda record: time.sleep(0.3),
    )
    assert 2 * (Q + 1) * 0.002 <= result.seconds < 0.3


def test_arguments_are_not_written_to():
    """x0, bounds and weights are left as they were, and the result's x is not x0's memory."""
    x0, bounds, weights = np.full(3, 0.5), np.array([(-1.0, 1.0)] * 3), np.array([1.0, 3.0])
    copies = x0.copy(), bounds.copy(), weights.copy()
    result = call(x0=x0, bounds=bounds, weights=weights)
    for now, before in zip((x0, bounds, weights), copies, strict=True):
        assert np.array_equal(now, before)
    assert not np.shares_memory(result.x, x0)


@pytest.mark.parametrize("x0", [np.zeros(3, dtype=np.float32), np.zeros(6)[::2], range(2)])
def test_x0_may_be_any_vector(x0):
    """Whatever NumPy makes a vector of."""
    assert call(x0=x0).x.shape == (len(x0),)


def test_an_interrupt_in_the_monitor_leaves_x_where_the_history_ends():
    """The round that was not recorded is not in x either."""
    seen = []

    def monitor(x):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(x.copy())
        return 0.0

    result = call(monitor=monitor, rounds=5)
    assert (result.status, result.rounds, len(result.history)) == ("interrupted", 2, 2)
    np.testing.assert_array_equal(result.x, seen[-1])
    assert "round 3" in result.message
