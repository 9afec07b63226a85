"""`Program.python` and `python -m fzoos.objectives.serve`: a function of a Python file, in a process of its own."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from programs import eventually, gone

from fzoos import ActiveQueries, FedZO, FiniteDifferences, FZooS, minimize
from fzoos.objectives.program import Program, ProgramError

SMALL = FZooS(features=100, active=ActiveQueries(10, 2, 0.05), refresh=ActiveQueries(10, 3))


@pytest.fixture
def make(tmp_path):
    """Programs of functions in a file with the given text."""
    made = []

    def program(text, function="objective", *, name="objective.py", **settings):
        (tmp_path / name).write_text(text, encoding="utf-8")
        made.append(Program.python(tmp_path / name, function, **settings))
        return made[-1]

    yield program
    for one in made:
        one.close()


# Values

SITE = """
import numpy as np
from target import TARGET
def objective(x):
    assert x.shape == (6,) and x.dtype == np.float64 and x.flags.writeable
    return np.mean((x - TARGET) ** 2) + np.sin(x).sum() / 3
def batch(x):
    assert x.shape[1:] == (6,) and x.flags.c_contiguous
    return np.mean((x - TARGET) ** 2, axis=1) + np.sin(x).sum(axis=1) / 3
"""


@pytest.mark.parametrize(
    ("algorithm", "vectorized"), [(SMALL, True), (FedZO(differences=FiniteDifferences(count=4)), False)]
)
def test_the_run_is_the_same_bit_for_bit(make, tmp_path, monkeypatch, algorithm, vectorized):
    """`minimize` gives what it gives on the function called in its own process. The file imports its neighbour."""
    (tmp_path / "target.py").write_text("TARGET = 0.3\n", encoding="utf-8")
    function = "batch" if vectorized else "objective"
    f = make(SITE, function, vectorized=vectorized)
    names = {}
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        exec(SITE, names)
    settings = {"x0": np.full(6, 0.1), "bounds": (-1, 1), "algorithm": algorithm, "rounds": 2, "seed": 1}
    direct = minimize([names[function]], vectorized=vectorized, **settings)
    result = minimize([f], vectorized=vectorized, **settings)
    assert result.x.tobytes() == direct.x.tobytes()
    assert result.queries == direct.queries


# What the function does


def test_printing_does_not_disturb(make):
    """Whatever way a function writes to standard output, it goes to standard error; answers are not disturbed."""
    text = """
import os, subprocess, sys
print("at import")
def objective(x):
    print("printed"); sys.__stdout__.write("dunder\\n"); sys.__stdout__.flush()
    os.write(1, b"raw\\n"); subprocess.run(["echo", "child"]); os.system("echo system")
    if x[0] == 5: os._exit(3)
    return x.sum()
"""
    f = make(text, restarts=0)
    assert f([1.0, 2.0]) == 3.0
    assert np.array_equal(f([[1.0], [2.0]]), [1.0, 2.0])
    with pytest.raises(ProgramError) as error:
        f([5.0])
    assert "exit status 3" in str(error.value)
    assert str(error.value).split()[-5:] == ["printed", "dunder", "raw", "child", "system"]


def test_reading_finds_nothing(make):
    """Nor can it take requests for its own input: standard input is empty for it and for what it starts."""
    f = make("import subprocess, sys\ndef objective(x): return len(sys.stdin.read() + subprocess.getoutput('cat'))\n")
    assert [f([0.0]), f([1.0])] == [0.0, 0.0]


EXCEPTIONS = [
    ("raise ValueError('no mesh')", "ValueError: no mesh"),
    ("raise KeyError('a')", "KeyError: 'a'"),
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("sys.exit('enough')", "SystemExit: enough"),
    ("return None", "TypeError: the function must return numbers, got None"),
    ("return x", "ValueError: the function must return one number for x of shape (2,), got shape (2,)"),
    ("return 'two'", "TypeError: the function must return numbers, got 'two'"),
]


def test_exceptions(make):
    """An exception is an error that names its type; the same process goes on."""
    cases = "".join(f"    if x[0] == {k}: {statement}\n" for k, (statement, _) in enumerate(EXCEPTIONS))
    f = make(f"import os, sys\ndef objective(x):\n{cases}    return os.getpid()\n")
    first = f([-1.0])
    for k, (_, text) in enumerate(EXCEPTIONS):
        with pytest.raises(ProgramError) as error:
            f([k, 5.0])
        assert f"answered an error: {text}" in str(error.value)
    assert f([-1.0]) == first


def test_vectorized_shape(make):
    """A batch function that returns another shape is told what was expected."""
    f = make("def objective(x): return x\n", vectorized=True)
    with pytest.raises(ProgramError, match=r"must return shape \(2,\) for x of shape \(2, 3\), got shape \(2, 3\)"):
        f(np.zeros((2, 3)))


# Files


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("mine.py", "def f(x): return 0.0\n", "ImportError: {file} has no function 'objective'"),
        ("mine.py", "objective = 3\n", "ImportError: {file} has no function 'objective'"),
        ("mine.txt", "", "ImportError: {file} is not a Python file: its name must end in .py"),
        ("mine.py", "def objective(x) return 0.0\n", "SyntaxError: expected ':' (mine.py, line 1)"),
        ("mine.py", "import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("mine.py", "import sys\nsys.exit(1)\n", "SystemExit: 1"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_use(make, tmp_path, name, text, complaint):
    """One line says why, at the first query."""
    f = make(text, name=name)
    with pytest.raises(ProgramError) as error:
        f([0.0])
    assert f"answered an error: {complaint.format(file=tmp_path / name)}" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_yet(make, tmp_path):
    """It is named; once it is there, and right, queries work."""
    f = Program.python(tmp_path / "late.py")
    with f:
        with pytest.raises(ProgramError, match=r"FileNotFoundError: .*late\.py'$"):
            f([0.0])
        (tmp_path / "late.py").write_text("def objective(x): return 4.0\n", encoding="utf-8")
        assert f([0.0]) == 4.0


@pytest.mark.parametrize("name", ["random.py", "numpy.py", "fzoos.py", "my.file.py"])
def test_a_file_called_like_a_module(make, tmp_path, monkeypatch, name):
    """Neither is the module taken for the file, nor the file for the module."""
    monkeypatch.chdir(tmp_path)
    f = make("import random, json\ndef objective(x): return random.Random(0).random() * x.sum()\n", name=name)
    assert f([1.0]) == 0.8444218515250481  # what the documentation of `random` promises to keep for this seed


def test_a_path_is_the_caller_s(make, tmp_path, monkeypatch):
    """A relative path is found from where the caller is, whatever folder the function runs in."""
    (tmp_path / "site").mkdir()
    make("import os\ndef objective(x): return len(os.listdir('.'))\n", name="site/objective.py").close()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with Program.python("site/objective.py", cwd=tmp_path / "empty") as f:
        monkeypatch.chdir("/")
        assert f([0.0]) == 0.0


# By hand


def serve(folder, *arguments, requests):
    command = [sys.executable, "-m", "fzoos.objectives.serve", *arguments]
    return subprocess.run(command, cwd=folder, input=requests, capture_output=True, text=True, timeout=120)


def test_by_hand(make, tmp_path):
    """The line in the module's documentation works, and the function may take its time although the input has ended."""
    make("import time\ndef objective(x):\n    time.sleep(3.5)\n    return x.sum()\n")
    done = serve(tmp_path, "objective.py", "objective", requests='{"x": [[0.5, 1.0]]}\n')
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (0, {"y": [1.5]}, "")


def test_bad_requests(make, tmp_path):
    """A line that is no request is answered with an error; half a line, whose writer was killed, is not evaluated."""
    make("def objective(x): open('asked', 'a').write('z'); return x.sum()\n")
    lines = ["no json", "[]", "{}", '{"x": [["a"]]}', '{"x": [[1.0], [2.0, 3.0]]}', '{"x": [[4.0]]}', '{"x": [[5.0]]}']
    done = serve(tmp_path, "objective.py", "objective", requests="\n".join(lines))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [set(answer) for answer in answers] == [{"error"}] * 5 + [{"y"}]
    assert answers[-1] == {"y": [4.0]}
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "z"


# Nothing left behind

CALLER = """
import os, sys, time
from fzoos.objectives.program import Program
f = Program.python("objective.py")
if {forked}:
    f([0.0])
    if os.fork() == 0:          # holds the pipes, and lives on
        os.close(1)
        print(os.getpid(), file=open("fork", "w"), flush=True)
        time.sleep(600)
f([{x}])
time.sleep(600)
"""


@pytest.mark.parametrize(("x", "forked"), [(0.0, True), (5.0, False)], ids=["waiting", "evaluating"])
def test_ends_when_the_caller_is_killed(make, tmp_path, x, forked):
    """kill -9 of the caller ends the process and what the function started, while it waits and while it evaluates."""
    make("""
import os, subprocess, time
started = subprocess.Popen(["sleep", "600"])
def objective(x):
    with open("new", "w") as file: print(os.getpid(), started.pid, file=file)
    os.rename("new", f"asked{x[0]}")
    if x[0] == 5: time.sleep(600)
    return 0.0
""").close()
    caller = subprocess.Popen([sys.executable, "-c", CALLER.format(x=x, forked=forked)], cwd=tmp_path)
    with caller:
        eventually((tmp_path / f"asked{x}").exists)
        pids = (tmp_path / f"asked{x}").read_text(encoding="utf-8").split()
        assert not any(map(gone, pids))
        if forked:
            eventually(lambda: (tmp_path / "fork").exists() and (tmp_path / "fork").read_text(encoding="utf-8"))
        caller.kill()
    try:
        eventually(lambda: all(map(gone, pids)))
    finally:
        if forked:
            os.kill(int((tmp_path / "fork").read_text(encoding="utf-8")), 9)
