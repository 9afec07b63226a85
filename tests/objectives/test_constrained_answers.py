"""Constraints from a program and from people: (f, c) as an objective in this process would return it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fzoos import ManualObjective, Program, minimize
from fzoos.objectives.program import ProgramError
from fzoos.result import ValuePending

FILE = """
import numpy as np

def objective(x):
    return float(np.sum((x - 2.0) ** 2)), [float(x @ x) - 1.0, 0.2 - x[0]]

def batch(x):
    return np.sum((x - 2.0) ** 2, axis=1), np.stack([np.vecdot(x, x) - 1.0, 0.2 - x[:, 0]], axis=1)

def free(x):
    return float(np.sum((x - 1.0) ** 2))

def fails(x):
    return float("nan") if x[0] < 0.0 else objective(x)

def changes(x):
    return objective(x) if x[0] < 0.5 else (1.0, 2.0)
"""
DIRECT: dict = {}
exec(FILE, DIRECT)


@pytest.fixture
def make(tmp_path):
    """Programs of functions of the file above."""
    made = []

    def program(function, **settings):
        (tmp_path / "objective.py").write_text(FILE)
        made.append(Program.python(tmp_path / "objective.py", function, **settings))
        return made[-1]

    yield program
    for one in made:
        one.close()


def answering(*lines):
    """A program that answers these lines, whatever it is asked."""
    code = f"import sys\nlines = iter({list(lines)!r})\nfor _ in sys.stdin: print(next(lines), flush=True)"
    return Program([sys.executable, "-c", code], restarts=0)


def test_what_a_program_with_constraints_returns():
    with answering('{"y": [1.5], "c": [[-0.5, 0.1]]}', '{"y": [1.5, null], "c": [[-0.5, 0.1], null]}') as f:
        value, c = f([0.0])
        assert (value, c.tolist()) == (1.5, [-0.5, 0.1])
        values, rows = f([[0.0], [1.0]])
        assert np.array_equal(values, [1.5, np.nan], equal_nan=True)
        assert np.array_equal(rows, [[-0.5, 0.1], [np.nan, np.nan]], equal_nan=True)
    with answering(
        '{"y": [1.5, 2.5], "c": [-0.5, 0.25]}', '{"y": [null], "c": [null]}', '{"y": [3.0], "c": null}'
    ) as f:
        values, rows = f([[0.0], [1.0]])  # one constraint may come without its list
        assert rows.tolist() == [[-0.5], [0.25]]
        assert np.isnan(f([0.0]))
        assert f([0.0]) == 3.0


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"y": [1.0, 2.0], "c": [[0.0]]}', "one list of constraints for each of 2 points"),
        ('{"y": [1.0, 2.0], "c": [[0.0], [0.0, 1.0]]}', "as many constraints for each point"),
        ('{"y": [1.0, 2.0], "c": [[], []]}', "one at least"),
        ('{"y": [1.0, 2.0], "c": [[0.0], null]}', "constraints for each point that has a value"),
        ('{"y": [1.0, 2.0], "c": [["a"], [0.0]]}', "must answer numbers, got 'a'"),
    ],
)
def test_what_it_may_not_answer(line, complaint):
    with answering(line) as f, pytest.raises(ProgramError, match=complaint):
        f([[0.0], [1.0]])


def test_a_run_with_a_program_is_that_of_the_function(make):
    settings = {"x0": np.zeros(2), "bounds": (-2, 2), "rounds": 5, "seed": 1, "vectorized": True}
    expected = minimize([DIRECT["batch"]] * 2, **settings)
    result = minimize([make("batch", vectorized=True)] * 2, **settings)
    assert result.x.tobytes() == expected.x.tobytes()
    assert (result.feasible, result.violation) == (expected.feasible, expected.violation)


X = np.array([[0.5, 0.25], [0.1, 0.2], [0.3, 0.3]])


@pytest.fixture
def person(tmp_path):
    """A site that has been asked for three points, and their ids."""
    site = ManualObjective(tmp_path, "a")
    with pytest.raises(ValuePending):
        site(X)
    return site, [id for id, _ in site.requested()]


def test_people_tell_constraints(person, tmp_path):
    site, ids = person
    assert site.constraints == 0
    assert site.tell([(ids[0], (1.5, [-0.5, 0.1])), (ids[1], (1 / 3, np.array([0.0, -1.0])))]) == 2
    assert site.tell([(ids[0], (1.5, [-0.5, 0.1])), (ids[2], float("nan"))], failures=True) == 1  # again does no harm
    again = ManualObjective(tmp_path, "a")
    assert again.constraints == 2
    values, c = again(X)
    assert np.array_equal(values, [1.5, 1 / 3, np.nan], equal_nan=True)
    assert np.array_equal(c, [[-0.5, 0.1], [0.0, -1.0], [np.nan, np.nan]], equal_nan=True)
    assert again.values()[ids[0]] == 1.5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2.0, "has no constraints, and other points of a have 2 constraints: all must have as many"),
        ((2.0, 1.0), "has 1 constraint, and other points of a have 2 constraints"),
        ((2.0, [1.0, np.nan]), "the constraint of .* must be a finite number, got nan; with on_failure"),
        ((2.0, []), r"a pair \(f, c\) without constraints"),
        ((2.0, "far"), r"must be a number, or a pair \(f, c\) of numbers"),
        ((1.0, 2.0, 3.0), r"must be a number, or a pair \(f, c\) of numbers"),
    ],
)
def test_wrong_constraints_are_refused(person, value, message):
    site, ids = person
    site.tell([(ids[0], (1.5, [-0.5, 0.1]))])
    with pytest.raises(ValueError, match=message):
        site.tell([(ids[1], value), (ids[2], (1.0, [0.0, 0.0]))])
    assert set(site.values()) == {ids[0]}  # all or none


def test_other_constraints_than_those_given_before(person):
    site, ids = person
    site.tell([(ids[0], (1.5, -0.5))])
    with pytest.raises(ValueError, match=r"was entered before: 1.5 -0.5, not 1.5 -0.25"):
        site.tell([(ids[0], (1.5, -0.25))])
    with pytest.raises(ValueError, match=r"has no constraints, and other points of a have 1 constraint"):
        site.tell([(ids[1], 1.0)])
