"""Named variables: their map to the cube, randomised rounding, and how objectives get them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos import (
    Auto,
    Choice,
    FedCMA,
    FedZO,
    FiniteDifferences,
    Integer,
    Log,
    Program,
    Real,
    Space,
    Study,
    load,
    minimize,
)
from fzoos.engines import LocalStudy
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.space import SpaceBox
from fzoos.objectives.values import takes_keywords

SPACE = Space(rate=Log(1e-5, 1e-1), depth=Integer(1, 12), mix=Real(-1, 3), kernel=Choice("rbf", "linear", "poly"))
BOX = SpaceBox.around(SPACE)
START = {"rate": 5e-5, "depth": 2, "mix": 0.0, "kernel": "poly"}
CHEAP = FedZO(differences=FiniteDifferences(count=4))


def test_what_the_cube_means():
    """Logarithms for `Log`: the middle of 1e-5 and 1e-1 is 1e-3; linear for the others; a choice is its weights."""
    u = np.array([0.5, 0.5, 0.25, 0.2, 0.9, 0.1])
    x = BOX.from_cube(u)
    assert x == pytest.approx([1e-3, 6.5, 0.0, 0.2, 0.9, 0.1])
    assert BOX.to_cube(x) == pytest.approx(u)
    assert SPACE.variables(x) == {"rate": x[0], "depth": 7, "mix": 0.0, "kernel": "linear"}


@given(st.lists(st.floats(0, 1), min_size=6, max_size=6))
def test_the_cube_never_leaves_the_bounds(u):
    x = BOX.from_cube(np.array(u))
    assert np.all(x >= BOX.lower)
    assert np.all(x <= BOX.upper)


@pytest.mark.parametrize("depth", [1, 7, 12])
def test_whole_numbers_go_there_and_back(depth):
    values = START | {"depth": depth}
    assert SPACE.variables(BOX.from_cube(BOX.to_cube(SPACE.encode(values)))) == pytest.approx(values)


# Randomised rounding


@pytest.mark.parametrize("alike", [False, True])
def test_rounding_is_unbiased(alike):
    """The mean of what is asked is u, in every coordinate; of a choice, u over its sum. 4 standard errors of 1/2."""
    u = np.array([0.3, 0.437, 0.7, 0.2, 0.3, 0.1])
    rng, n = np.random.default_rng(0), 4000
    asked = np.concatenate([BOX.round_randomly(np.tile(u, (2, 1)), rng, alike) for _ in range(n // 2)])
    expected = [0.3, 0.437, 0.7, 2 / 6, 3 / 6, 1 / 6]
    assert np.mean(asked, axis=0) == pytest.approx(expected, abs=4 * 0.5 / math.sqrt(n / 2))


def test_draws_are_spread_over_a_batch():
    """Of 100 queries at 5.81 between 5 and 6, 81 are rounded up, but for one; alike, all go the same way."""
    u = np.tile(BOX.to_cube(SPACE.encode(START)), (100, 1))
    u[:, 1] = (5.81 - 1) / 11
    rng = np.random.default_rng(0)
    spread = BOX.from_cube(BOX.round_randomly(u, rng, alike=False))[:, 1]
    assert abs(np.sum(spread == 6) - 81) <= 1
    assert np.sum(spread == 5) == 100 - np.sum(spread == 6)
    assert len(set(BOX.round_randomly(u, rng, alike=True)[:, 1])) == 1


def test_a_choice_without_weights_is_any_of_its_options():
    rng = np.random.default_rng(0)
    asked = np.concatenate([BOX.round_randomly(np.zeros((3, 6)), rng, alike=False) for _ in range(50)])
    assert asked[:, 3:].sum(axis=0).tolist() == [50, 50, 50]


def test_without_spread_rows_are_rounded_independently():
    u = np.random.default_rng(0).random((4, 6))
    seed = np.random.SeedSequence(3)
    batch, alone = (Evaluator(lambda x: 0.0, BOX, seed=seed) for _ in range(2))
    points, _ = batch.evaluate(u, spread=False)
    np.testing.assert_array_equal(points, np.concatenate([alone.evaluate(row[None])[0] for row in u]))


def test_the_evaluator_returns_the_points_that_were_evaluated():
    """Whole numbers and corners, in the cube as in the user's coordinates; the value belongs to that point."""
    seen = []

    def objective(x):
        seen.append(x)
        return x[1]

    evaluator = Evaluator(objective, BOX, seed=np.random.SeedSequence(0))
    points, y = evaluator.evaluate(np.random.default_rng(0).random((20, 6)))
    assert all(x[1] == int(x[1]) and sorted(x[3:]) == [0, 0, 1] for x in seen)
    assert np.array_equal(BOX.from_cube(points)[:, 1], y)
    assert BOX.from_cube(points) == pytest.approx(np.array(seen))


# Objectives


def by_name(calls):
    def loss(rate, depth, mix, kernel):
        calls.append((rate, depth, mix, kernel))
        return (math.log10(rate) + 3) ** 2 / 4 + (depth - 8) ** 2 / 30 + (mix - 1) ** 2 / 9 + 0.4 * (kernel != "linear")

    return loss


def test_objectives_get_their_variables():
    """As keywords or as a dict, of the right types and within bounds; both are the same run, bit for bit."""
    calls = []
    settings = {"bounds": SPACE, "algorithm": CHEAP, "rounds": 3, "seed": 0}
    keywords = minimize(by_name(calls), START, **settings)
    assert all(type(depth) is int and 1 <= depth <= 12 for _, depth, _, _ in calls)
    assert all(type(kernel) is str for *_, kernel in calls)
    assert all(1e-5 <= rate <= 1e-1 and -1 <= mix <= 3 for rate, _, mix, _ in calls)
    as_dict = minimize(lambda values: by_name([])(**values), START, **settings)
    assert np.array_equal(keywords.x, as_dict.x)
    vectorized = minimize(
        lambda v: np.array([by_name([])(*row) for row in zip(*v.values(), strict=True)]),
        START,
        **settings,
        vectorized=True,
    )
    assert vectorized.x == pytest.approx(keywords.x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: 0, True),
        (lambda a, b, c=1: 0, True),
        (lambda **v: 0, True),
        (lambda v: 0, False),
        (lambda a: 0, False),
        (lambda a, b, c: 0, False),
    ],
)
def test_who_takes_keywords(function, expected):
    assert takes_keywords(function, ("a", "b")) is expected


@pytest.mark.parametrize("algorithm", [Auto(), FedCMA()], ids=lambda a: a.name)
def test_all_kinds_come_out_right(algorithm):
    """The minimum is at rate 1e-3, depth 8, mix 1 and linear; the start is far from it in all of them."""
    monitored = []
    result = minimize(
        [by_name([]), by_name([])],
        START,
        bounds=SPACE,
        algorithm=algorithm,
        rounds=30,
        seed=0,
        monitor=by_name(monitored),
    )
    found = result.variables
    assert found["kernel"] == "linear"
    assert abs(found["depth"] - 8) <= 1
    assert abs(math.log10(found["rate"]) + 3) < 0.2
    assert abs(found["mix"] - 1) < 0.2
    assert monitored[-1] == tuple(found.values())  # F is measured where the variables are
    assert result.fun == by_name([])(**found)


# Results and files


def test_stored_runs_know_their_variables(tmp_path, run_command):
    path = tmp_path / "runs.db"
    result = minimize(by_name([]), START, bounds=SPACE, algorithm=CHEAP, rounds=3, seed=0, store=path)
    again = load(path)
    assert again.variables == result.variables == SPACE.variables(result.x)
    assert f"depth = {result.variables['depth']}" in run_command("show", path)[1]
    assert f"kernel   {result.variables['kernel']}" in str(result)


STUDY = """
name = "lab"
x0 = { rate = 1e-4, depth = 3, kernel = "poly" }
sites = ["a", "b"]
rounds = 1

[bounds]
rate = { name = "Log", low = 1e-5, high = 1e-1 }
depth = { name = "Integer", low = 1, high = 12 }
kernel = { name = "Choice", options = ["rbf", "linear", "poly"] }

[algorithm]
name = "fedzo"
local_steps = 2
differences = { count = 2, step = 0.1 }
"""


def test_study_with_programs(tmp_path):
    """A Python file of named variables; a study killed and resumed ends with the same bits."""
    (tmp_path / "study.toml").write_text(STUDY.replace("rounds = 1", "rounds = 3"))
    file = tmp_path / "objective.py"
    body = "    return rate * depth + (kernel == 'rbf')\n"
    file.write_text(f"def objective(rate, depth, kernel):\n{body}")
    study = Study.load(tmp_path / "study.toml")
    make = lambda: [Program.python(file) for _ in study.sites]
    whole = LocalStudy(study, tmp_path / "whole", make(), site_seed=study.seed).run()
    LocalStudy(study, tmp_path / "parts", make(), site_seed=study.seed).run(callback=lambda record: record.round == 1)
    parts = LocalStudy(study, tmp_path / "parts", make(), site_seed=study.seed).run(resume=True)
    assert parts.status == "completed"
    assert np.array_equal(parts.x, whole.x)
    assert whole.variables["kernel"] in ("rbf", "linear", "poly")


def test_space_as_a_table():
    assert Space.of(json.loads(json.dumps(SPACE.table()))) == SPACE
    study = Study("s", x0=START, bounds=SPACE, sites=("a",))
    assert Study(**study.settings).id == study.id
    assert study.dim == 6
    assert study.id != Study("s", x0=START | {"depth": 3}, bounds=SPACE, sites=("a",)).id


# What is refused


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Real(1, 1), ValueError, "low must be below high"),
        (lambda: Log(0, 1), ValueError, "low must be positive"),
        (lambda: Integer(1.5, 3), TypeError, "low must be an integer"),
        (lambda: Choice("a"), ValueError, "options must be two or more"),
        (lambda: Choice("a", ["b"]), TypeError, "options must be text"),
        (lambda: Space(), ValueError, "needs variables"),
        (lambda: Space(rate=(0, 1)), TypeError, "rate must be a Real, Log, Integer or Choice"),
        (lambda: Space.of({"rate": {"name": "Loq"}}), ValueError, "bounds.rate: name must be one of Real, Log"),
        (lambda: Space.of({"kernel": {"name": "Choice"}}), ValueError, "bounds.kernel: a Choice has options"),
        (lambda: SPACE.encode({"rate": 1e-3}), ValueError, "x0 has no 'depth'"),
        (lambda: SPACE.encode(START | {"size": 1}), ValueError, "x0 has 'size', which is no variable"),
        (lambda: SPACE.encode(START | {"depth": 2.5}), ValueError, r"x0\['depth'\] must be a whole number"),
        (lambda: SPACE.encode(START | {"rate": 1.0}), ValueError, r"x0\['rate'\] must be a finite number in"),
        (lambda: SPACE.encode(START | {"kernel": "cubic"}), ValueError, r"x0\['kernel'\] must be one of 'rbf'"),
        (lambda: SPACE.encode([1, 2]), TypeError, "x0 must be a dict of rate, depth"),
        (lambda: minimize(by_name([]), START, bounds=SPACE, scale=1.0), ValueError, "scale"),
    ],
)
def test_what_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
