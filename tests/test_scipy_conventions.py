"""What users of SciPy bring with them: its bounds, its rng, its names of a result, its ways to stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import Bounds

from fzoos import Auto, FedCMA, FedLBFGS, FedZO, FiniteDifferences, minimize

CHEAP = FedZO(local_steps=2, differences=FiniteDifferences(count=4))


def f(x):
    return float(np.sum((x - 0.25) ** 2))


def run(objectives=f, x0=(0.5, 0.5, 0.5), **changes):
    return minimize(objectives, x0, **({"bounds": (-1, 1), "algorithm": CHEAP, "rounds": 2, "seed": 0} | changes))


# Bounds


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (Bounds(-1, 2), (-1, 2)),
        (Bounds([-1, -1, 0], 2), [(-1, 2), (-1, 2), (0, 2)]),
        (Bounds([-1, -1, 0], [1, 2, 3]), [(-1, 1), (-1, 2), (0, 3)]),
    ],
)
def test_bounds_of_scipy(given, same):
    """The same bits as the pairs that a `Bounds` stands for."""
    assert np.array_equal(run(bounds=given).x, run(bounds=same).x)


def test_fixed_coordinates_are_asked_at_their_value_and_cost_nothing():
    """A run with a fixed coordinate is the run without it, bit for bit: FedLBFGS asks d + 1 points for the free d."""
    asked = []

    def with_fixed(x):
        asked.append(x)
        return f(x[[0, 2]])

    bounds = [(-1, 1), (7, 7), (-1, 1)]
    fixed = run(with_fixed, (0.5, 7.0, 0.5), bounds=bounds, algorithm=FedLBFGS(), rounds=3)
    without = run(f, (0.5, 0.5), algorithm=FedLBFGS(), rounds=3)
    assert {x[1] for x in asked} == {7.0}
    assert fixed.queries == without.queries == 3 * (2 + 1)
    assert np.array_equal(fixed.x, [without.x[0], 7.0, without.x[1]])


@pytest.mark.parametrize("bounds", [None, (None, None), Bounds()])
def test_no_bounds(bounds):
    """x goes where the minimum is, several units away from x0; with a unit of 2 it is a run in a box of that width."""

    def bowl(centre):
        return lambda x: float(np.sum((x - centre) ** 2))

    open_box = {"bounds": bounds, "scale": 2.0, "algorithm": Auto()}
    far = run(bowl(5.0), np.zeros(3), **open_box, rounds=30)
    assert np.all(abs(far.x - 5.0) < 0.05)
    near = run(bowl(0.1), np.zeros(3), **open_box)
    boxed = run(bowl(0.1), np.zeros(3), algorithm=Auto())  # (-1, 1), never reached
    assert np.array_equal(near.x, boxed.x)


@pytest.mark.parametrize(
    "algorithm", [replace(CHEAP, local_steps=10), Auto(), FedCMA()], ids=lambda algorithm: algorithm.name
)
def test_one_sided_bounds_are_kept(algorithm):
    """No query beyond a bound that is there; x ends at the bound in the coordinates whose minimum is beyond it."""
    asked = []

    def beyond(x):
        asked.append(x)
        return float((x[0] + 3) ** 2 + (x[1] - 3) ** 2 + (x[2] - 3) ** 2)

    bounds = [(0, None), (None, 1), (-1, 1)]
    result = run(beyond, (1.0, 0.0, 0.0), bounds=bounds, scale=[1.0, 2.0, 99.0], algorithm=algorithm, rounds=30)
    assert np.all(np.array(asked)[:, 0] >= 0)
    assert np.all(np.array(asked)[:, 1:] <= 1)
    assert result.x == pytest.approx([0.0, 1.0, 1.0], abs=0.01)


def test_scale_is_asked_for():
    with pytest.raises(ValueError, match="bounds must be finite numbers, or scale must say what a unit is"):
        run(bounds=(0, None))


def test_algorithms_whose_server_projects_say_so():
    """FedLBFGS's server does not know the bounds: all of them or none."""
    with pytest.raises(ValueError, match="bounds must be finite or all missing for FedLBFGS"):
        run(bounds=(0, None), scale=1.0, algorithm=FedLBFGS())
    assert run(bounds=None, scale=1.0, algorithm=FedLBFGS(), rounds=9).x == pytest.approx([0.25] * 3, abs=0.002)


@pytest.mark.parametrize("beyond", [1e-12, -1e-12])
def test_x0_within_rounding_of_its_bounds(beyond):
    """1 + 1e-12 is at the bound 1; a number that differs visibly is written with all its digits."""
    inside = run(x0=[1.0, 0.5, 0.5])
    assert np.array_equal(run(x0=[1.0 + beyond, 0.5, 0.5]).x, inside.x) == (beyond > 0)
    with pytest.raises(ValueError, match=r"x0\[0\] = 1.0000001 is not in \[-1, 1\]"):
        run(x0=[1.0000001, 0.5, 0.5])


# One function, rng


def test_rng_as_scipy_has_it():
    """An int and a SeedSequence of it are the seed, however often it is used; a Generator goes on."""
    by_seed = run(seed=7).x
    sequence = np.random.SeedSequence(7)
    for rng in (7, np.int64(7), sequence, sequence):
        assert np.array_equal(run(seed=None, rng=rng).x, by_seed)
    generator = np.random.default_rng(7)
    first, second = (run(seed=None, rng=generator).x for _ in range(2))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, run(seed=None, rng=np.random.default_rng(7)).x)


@pytest.mark.parametrize(("rng", "error"), [("zero", TypeError), (-1, ValueError)])
def test_bad_rng(rng, error):
    with pytest.raises(error, match="rng must be"):
        run(seed=None, rng=rng)


# Stopping, and errors of the monitor and the callback


def test_callback_may_raise_stop_iteration():
    def callback(record):
        if record.round == 2:
            raise StopIteration

    result = run(callback=callback, rounds=5)
    assert (result.status, result.rounds, result.success) == ("stopped", 2, True)


@pytest.mark.parametrize("who", ["monitor", "callback"])
def test_errors_of_monitor_and_callback_name_them(who):
    """The user's own error, of its own type; a note names who raised it, and it carries the rounds up to then."""
    calls = []

    def fail(given):
        calls.append(given)
        if len(calls) == 3:
            raise ZeroDivisionError("no luck")
        return 0

    with pytest.raises(ZeroDivisionError, match="no luck") as caught:
        run(rounds=5, **{who: fail})
    assert any(who in note and "round 3" in note for note in caught.value.__notes__)
    result = caught.value.result
    assert result.rounds == (2 if who == "monitor" else 3)  # the round is recorded before the callback is called
    assert np.array_equal(result.x, run(rounds=result.rounds).x)
    assert not result.success


# The result


def test_names_of_scipy():
    result = run(monitor=f, rounds=3)
    assert (result.nit, result.nfev, result.fun) == (3, result.queries, result.history[-1].monitor)
    assert result.fun == f(result.x)
    assert run().fun is None
    assert run(rounds=0, monitor=f).fun is None


def test_result_by_name():
    result = run()
    assert result["x"] is result.x
    assert result["nfev"] == result.queries
    assert dict(result)["status"] == "completed"
    assert "x" in result
    assert "y" not in result
    with pytest.raises(KeyError, match="a result has no 'y'; it has x, rounds"):
        result["y"]


def test_repr_is_one_line_and_print_a_table():
    """However many coordinates and rounds there are; the table shows the last rounds and says what F is."""
    algorithm = replace(CHEAP, local_steps=1)
    result = minimize(f, np.full(500, 0.5), bounds=(-1, 1), algorithm=algorithm, rounds=40, monitor=f)
    assert len(repr(result)) < 200
    assert "\n" not in repr(result)
    assert repr(result).startswith("Result(status='completed', x=[")
    text = str(result)
    assert len(text.splitlines()) < 25
    assert max(map(len, text.splitlines())) <= 120
    assert f"{result.fun:.6g}" in text
    assert "completed: all 40 rounds are done" in text
    assert f"{result.queries:,}" in text
    assert [line.split()[0] for line in text.splitlines()[-6:]] == [str(r) for r in range(35, 41)]
    assert "not known" in str(run())
