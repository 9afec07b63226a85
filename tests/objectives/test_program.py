"""`Program`: values travel exactly, and whatever the program answers is a value or one clear error.

Every program here is a real one. They are told what to do by the first number of the point they are asked for.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import FIRST, PID, eventually, logged, reaped

from fzoos import ActiveQueries, FedZO, FiniteDifferences, FZooS, minimize
from fzoos.objectives.program import Program, ProgramError

SMALL = FZooS(features=100, active=ActiveQueries(10, 2, 0.05), refresh=ActiveQueries(10, 3))

# Values


@pytest.fixture(scope="module")
def flatten():
    """Gives back each number it is sent."""
    code = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"y": [number for number, in json.loads(line)["x"]]}), flush=True)
"""
    with Program([sys.executable, "-c", code]) as program:
        yield program


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_travel_exactly(flatten, numbers):
    """All bits of every finite float64, there and back: zeros of both signs, subnormals, the largest."""
    x = np.array(numbers)
    assert flatten(x[:, None]).tobytes() == x.tobytes()
    one = flatten(x[:1])
    assert type(one) is float
    assert np.float64(one).tobytes() == x[:1].tobytes()


def test_shapes(make, tmp_path):
    """(d,) is one point, (n, d) is n points in one request, no points are no request."""
    f = make(FIRST)
    assert f([2.5, 1.0]) == 2.5
    assert np.array_equal(f(np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]])), [1.0, 2.0, 3.0])
    assert f(np.empty((0, 2))).shape == (0,)
    assert logged(tmp_path) == ['{"x": [[2.5, 1.0]]}', '{"x": [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]}']


@pytest.mark.parametrize("x", [1.0, np.zeros((1, 1, 1)), [np.nan, 0.0], [[0.0], [np.inf]]])
def test_bad_points(x):
    """Neither is the program asked nor started for what is no point."""
    with pytest.raises(ValueError, match="x must"):
        Program(["no-such-program"])(x)


def test_failed_points(make):
    """null and NaN mark a failed point; infinity, which is one too for `minimize`, stays what it is."""
    y = make("""    print('{"y": [1.5, null, NaN, -Infinity, 7]}', flush=True)\n""")(np.zeros((5, 1)))
    assert np.array_equal(y, [1.5, np.nan, np.nan, -np.inf, 7.0], equal_nan=True)


AWK = """#!/bin/sh
while read -r line; do
  echo $$ >> pids
  printf '%s\\n' "$line" | awk '{
    gsub(/[^-+.0-9e]/, " ")
    n = split($0, v, " ")
    for (i = 1; i < n; i += 2) list = list (i > 1 ? ", " : "") sprintf("%.17g", v[i] * v[i + 1])
    print "{\\"y\\": [" list "]}"
  }'
done
"""


def test_shell_and_awk(tmp_path):
    """A program that is not Python, in a file: its products are float64 products, one process answers all queries."""
    script = tmp_path / "simulate"
    script.write_text(AWK, encoding="utf-8")
    script.chmod(0o755)
    rng = np.random.default_rng(0)
    with Program([script], cwd=tmp_path, env={"LC_ALL": "C"}) as f:
        for n in (1, 2, 30):
            x = rng.standard_normal((n, 2)) * 10.0 ** rng.integers(-9, 9, (n, 2))
            assert np.array_equal(f(x), x[:, 0] * x[:, 1])
    pids = (tmp_path / "pids").read_text(encoding="utf-8").split()
    assert len(pids) == 3
    assert len(set(pids)) == 1


# Answers

NONSENSE = [
    ("nan(", "a line that is not JSON: 'nan("),
    ("", "a line that is not JSON"),
    ("[" * 100_000, "a line that is not JSON"),
    ("[1.0]", 'must answer {"y": [...]}'),
    ('{"y": {"0": 1.0}}', 'must answer {"y": [...]}'),
    ('{"y": [1.0, 2.0]}', "answered 2 values for 1 points"),
    ('{"y": ["1.0"]}', "must answer numbers, got '1.0'"),
    ('{"y": [true]}', "must answer numbers, got True"),
    (f'{{"y": [1{"0" * 400}]}}', "a number that is too large"),
    ('{"y": [1.0]}\n{"y": [1.0]}', "more than one line"),
    ("{\n  'y': [\n    1.0\n  ]\n}", "more than one line"),
    ("z" * 2_000_000, "a line of more than 1,049,600 bytes: 'zzz"),
]


@pytest.mark.parametrize(("line", "complaint"), NONSENSE, ids=lambda part: part[:24])
def test_nonsense(make, tmp_path, line, complaint):
    """A line that is no answer is told, cut to a length to read; the program is ended, and the next query works."""
    (tmp_path / "line").write_bytes(line.encode() + b"\n")
    code = "    if x[0][0] == 5:\n        os.write(1, open('line', 'rb').read())\n        continue\n"
    f = make(code + PID)
    first = int(f([0.0]))
    with pytest.raises(ProgramError) as error:
        f([5.0])
    assert complaint in str(error.value)
    assert len(str(error.value)) < 1_000
    assert reaped(first)
    assert int(f([1.0])) != first


def test_endless_line():
    """A line without an end is not waited for, nor held."""
    with pytest.raises(ProgramError, match="a line of more than"):
        Program(["sh", "-c", "tr '\\0' z < /dev/zero"])([0.0])


def test_a_line_that_was_not_requested(make, tmp_path):
    """A second answer is not taken for the answer to the next request."""
    second = """
    answer([1.0])
    if x[0][0] == 5:
        while not os.path.exists("go"): time.sleep(0.01)
        answer([99.0])
        open("written", "w").close()
"""
    f = make(second)
    assert f([5.0]) == 1.0
    (tmp_path / "go").touch()
    eventually((tmp_path / "written").exists)
    with pytest.raises(ProgramError, match=r"a line that was not requested: .*99.0"):
        f([0.0])
    assert f([0.0]) == 1.0


def test_error_answer(make):
    """An error answer is an exception with that text; the same process goes on."""
    f = make(
        """    if x[0][0] == 5:\n        print('{"error": "no mesh for x"}', flush=True)\n        continue\n""" + PID
    )
    first = f([0.0])
    with pytest.raises(ProgramError, match=r"answered an error: no mesh for x$"):
        f([5.0])
    assert f([1.0]) == first


# Arguments


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [("command", value, TypeError) for value in ("./simulate", Path("simulate"), ["simulate", 3])]
    + [("command", [], ValueError), ("restarts", -1, ValueError), ("restarts", 1.5, TypeError)]
    + [("timeout", 0, ValueError), ("timeout", "1", TypeError), ("timeout", float("inf"), ValueError)],
)
def test_bad_arguments(name, value, error):
    """They are named when the object is made."""
    with pytest.raises(error, match=name):
        Program(**{"command": ["simulate"], name: value})


def test_cannot_be_started(tmp_path):
    """No such file, not executable, no such folder: the error names the program and says why."""
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    for command, cwd, why in (
        (["./nothing", "--case", "3"], tmp_path, "No such file"),
        (["./text"], tmp_path, "Permission denied"),
        (["true"], tmp_path / "nowhere", "No such file.*nowhere"),
    ):
        with pytest.raises(ProgramError, match=f"program '{' '.join(command)}' cannot be started: .*{why}"):
            Program(command, cwd=cwd)([0.0])


# In a run

BOWL = """    answer([sum((v - {target}) ** 2 for v in p) for p in x])\n"""


@pytest.mark.parametrize(
    ("algorithm", "workers", "vectorized"),
    [(SMALL, 2, False), (FedZO(differences=FiniteDifferences(count=4)), 1, True)],
)
def test_the_run_is_the_same_bit_for_bit(make, algorithm, vectorized, workers):
    """`minimize` on programs gives what it gives on the same functions called directly."""

    def bowl(target):
        def values(x):
            y = [sum((v - target) ** 2 for v in p) for p in np.atleast_2d(x).tolist()]
            return np.array(y) if vectorized else y[0]

        return values

    targets = (0.25, -0.5)
    settings = {"x0": np.full(5, 0.1), "bounds": (-1, 1), "algorithm": algorithm, "rounds": 2, "seed": 1}
    direct = minimize([bowl(t) for t in targets], vectorized=vectorized, **settings)
    programs = [make(BOWL.format(target=t)) for t in targets]
    result = minimize(programs, vectorized=vectorized, workers=workers, **settings)
    assert result.x.tobytes() == direct.x.tobytes()
    assert result.queries == direct.queries
