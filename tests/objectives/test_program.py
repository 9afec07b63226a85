"""`Program`: values travel exactly, whatever the program does is one clear error, and nothing is left behind.

Every program here is a real one. They are told what to do by the first number of the point they are asked for.
"""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fzoos import FedZO, FiniteDifferences, FixedFZooS, ObjectiveError, minimize
from fzoos.objectives.program import Program, ProgramError

HEAD = """
import json, os, sys, time
def answer(y):
    print(json.dumps({"y": y}), flush=True)
def log(text):
    with open("log", "a") as file:
        file.write(text + "\\n")
for line in sys.stdin:
    x = json.loads(line)["x"]
    log(line.strip())
"""
FIRST = "    answer([p[0] for p in x])\n"
PID = "    answer([os.getpid()] * len(x))\n"


@pytest.fixture
def make(tmp_path):
    """Programs that run in tmp_path; `code` is what one of them does for each request."""
    made = []

    def program(code, **settings):
        made.append(Program([sys.executable, "-c", HEAD + code], cwd=tmp_path, **settings))
        return made[-1]

    yield program
    for one in made:
        one.close()


def logged(folder):
    """The requests, without their ids."""
    lines = (folder / "log").read_text(encoding="utf-8").splitlines()
    return [re.sub(r', "id": \d+', "", line) for line in lines]


def eventually(condition):
    """Wait until it holds; a minute is for a machine that is very busy."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def gone(pid):
    """Whether a process has ended; one that nobody asked for its exit status (a zombie) has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def reaped(pid):
    """Whether not even a zombie is left."""
    return not Path(f"/proc/{pid}").exists()


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


# Life and death


def test_started_by_the_first_query_and_kept(make, tmp_path):
    """Making one starts nothing; all queries go to the same process."""
    (tmp_path / "starts").touch()
    f = Program(["sh", "-c", 'echo x >> starts; while read -r l; do echo "{\\"y\\": [$$]}"; done'], cwd=tmp_path)
    assert (tmp_path / "starts").read_text(encoding="utf-8") == ""
    with f:
        assert f([0.0]) == f([1.0]) == f([2.0])
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "x\n"


@pytest.mark.parametrize("restarts", [0, 1])
def test_killed_between_queries(make, tmp_path, restarts):
    """A program that died while nothing was asked is started anew; that is no second try of any batch."""
    f = make(PID, restarts=restarts)
    first = int(f([0.0]))
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    second = int(f([1.0]))
    assert second != first
    assert reaped(first)
    assert logged(tmp_path) == ['{"x": [[0.0]]}', '{"x": [[1.0]]}']


HANG_ONCE = """
    if not os.path.exists("hung"):
        with open("pid", "w") as file:
            file.write(str(os.getpid()))
        os.rename("pid", "hung")
        time.sleep(600)
    answer([p[0] for p in x])
"""


def test_killed_during_a_query(make, tmp_path):
    """The batch in flight, and only that, is asked again, and the caller gets its values as if nothing had happened."""

    def kill():
        eventually((tmp_path / "hung").exists)
        os.kill(int((tmp_path / "hung").read_text(encoding="utf-8")), signal.SIGKILL)

    f = make(HANG_ONCE)
    killer = threading.Thread(target=kill)
    killer.start()
    assert np.array_equal(f([[0.25], [0.5]]), [0.25, 0.5])
    killer.join()
    assert f([1.0]) == 1.0
    assert logged(tmp_path) == ['{"x": [[0.25], [0.5]]}'] * 2 + ['{"x": [[1.0]]}']


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_dies_always(make, tmp_path, restarts):
    """It is asked 1 + restarts times; the error names the program, its exit status and its last words."""
    f = make(
        """    print("licence server not found", "giving up", sep="\\n", file=sys.stderr)\n    sys.exit(3)\n""",
        restarts=restarts,
    )
    with pytest.raises(ProgramError) as error:
        f([0.0])
    message = str(error.value)
    assert Path(sys.executable).name in message
    assert "ended with exit status 3 before it answered" in message
    assert message.endswith("standard error:\n  licence server not found\n  giving up")
    assert len(logged(tmp_path)) == 1 + restarts


def test_killed_by_a_signal_is_told(make):
    """A negative exit status is a signal, and it is told by name."""
    with pytest.raises(ProgramError, match="was killed by SIGSEGV before it answered"):
        make("    os.kill(os.getpid(), 11)\n")([0.0])


def test_only_the_end_of_standard_error_is_shown(make):
    """A program may write a lot there without ever waiting: the last ten lines are told, long ones cut."""
    code = """    for i in range(20000): print("line", i, "z" * (i % 2 * 1000), file=sys.stderr)\n    sys.exit(1)\n"""
    with pytest.raises(ProgramError) as error:
        make(code)([0.0])
    lines = str(error.value).splitlines()[1:]
    assert [line.split()[1] for line in lines] == [str(i) for i in range(19990, 20000)]
    assert max(map(len, lines)) < 250


def test_standard_error_between_queries_is_drained(make, tmp_path):
    """More than a pipe holds, written while nobody asks, does not stop the program."""
    f = make("    answer([1.0])\n    print('z' * 1000000, file=sys.stderr)\n    open('written', 'w').close()\n")
    f([0.0])
    eventually((tmp_path / "written").exists)


def test_dies_but_its_pipes_live_on(tmp_path):
    """A process that the program leaves behind holds its pipes open: the death is seen, and that process ends too."""
    f = Program(["sh", "-c", "sleep 600 & echo $! > pid; read -r l; exit 3"], cwd=tmp_path, restarts=0)
    with pytest.raises(ProgramError, match="exit status 3"):
        f([0.0])
    left = int((tmp_path / "pid").read_text(encoding="utf-8"))
    eventually(lambda: gone(left))


@pytest.mark.parametrize("closes", ["exec <&-", "exec >&-"])
def test_closes_its_pipes_and_lives_on(closes):
    """A program that can no longer answer is ended and told."""
    f = Program(["sh", "-c", f"{closes}; sleep 600"], restarts=0)
    with pytest.raises(ProgramError, match="closed its pipes"):
        f(np.zeros((100, 2000)))


# Time-outs


def test_hangs(make, tmp_path):
    """After the time-out it is killed and not asked again; the next query starts it anew."""
    f = make("    if x[0][0] == 5: time.sleep(600)\n" + PID, timeout=20.0)
    first = int(f([0.0]))
    f.timeout = 1.0
    with pytest.raises(ProgramError, match="gave no answer in 1 s"):
        f([5.0])
    assert reaped(first)
    f.timeout = 20.0
    assert int(f([1.0])) != first
    assert len(logged(tmp_path)) == 3


def test_hangs_without_reading():
    """The time-out holds while a request larger than a pipe is written too."""
    with pytest.raises(ProgramError, match="gave no answer"):
        Program(["sleep", "600"], timeout=0.3)(np.zeros((100, 2000)))


def test_hangs_while_it_writes():
    """Nor does a program that dribbles out an answer without end get more time."""
    dribble = "printf '{\"y\": ['; while :; do printf 1,; sleep 0.01; done"
    with pytest.raises(ProgramError, match="gave no answer"):
        Program(["sh", "-c", dribble], timeout=0.5)([0.0])


def test_what_a_program_started_ends_with_it(tmp_path):
    """A killed program's own processes are killed too."""
    f = Program(["sh", "-c", "sleep 600 & echo $! > pid; wait"], cwd=tmp_path, timeout=2.0)
    with pytest.raises(ProgramError, match="gave no answer"):
        f([0.0])
    child = int((tmp_path / "pid").read_text(encoding="utf-8"))
    eventually(lambda: gone(child))


# Answers

NONSENSE = [
    ("nan(", "a line that is not JSON: 'nan("),
    ("", "a line that is not JSON"),
    ("[" * 100_000, "a line that is not JSON"),
    ("\ufffd\x00", "a line that is not JSON"),
    ("9" * 5_000, "a line that is not JSON"),
    ("[1.0]", 'must answer {"y": [...]}'),
    ('{"Y": [1.0]}', 'must answer {"y": [...]}'),
    ('{"y": 1.0}', 'must answer {"y": [...]}'),
    ('{"y": {"0": 1.0}}', 'must answer {"y": [...]}'),
    ('{"y": []}', "answered 0 values for 1 points"),
    ('{"y": [1.0, 2.0]}', "answered 2 values for 1 points"),
    ('{"y": ["1.0"]}', "must answer numbers, got '1.0'"),
    ('{"y": [true]}', "must answer numbers, got True"),
    ('{"y": [[1.0]]}', "must answer numbers, got [1.0]"),
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


def test_unasked_line(make, tmp_path):
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
    with pytest.raises(ProgramError, match=r"a line that it was not asked for: .*99.0"):
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


def test_big_batch(make):
    """100 points of 2,000 numbers, and as much to read on both ways back, while the request is still being written."""
    noise = "import os, sys\nos.write(2, b'z' * 1000000)\n"
    tail = "    print(json.dumps({'y': [sum(p) for p in x], 'note': 'z' * 900000}), flush=True)\n"
    x = np.random.default_rng(0).standard_normal((100, 2000))
    with Program([sys.executable, "-c", noise + HEAD.replace("log(line.strip())", "") + tail]) as f:
        for _ in range(3):
            assert np.array_equal(f(x), [sum(row) for row in x.tolist()])


# Nothing left behind


def test_close(make):
    """The program ends by itself when its input ends, and no zombie is left; then it takes no queries."""
    f = make(PID + "log('the end')\n")
    with f:
        pid = int(f([0.0]))
        assert not gone(pid)
    assert reaped(pid)
    f.close()
    with pytest.raises(ProgramError, match="was closed"):
        f([0.0])


def test_the_program_may_finish_its_work(make, tmp_path):
    """What it does after its last request is done before close() returns."""
    f = make(PID + "time.sleep(0.3)\nlog('the end')\n")
    f([0.0])
    f.close()
    assert logged(tmp_path)[-1] == "the end"


def test_close_of_a_program_that_stays(make):
    """One that does not end when its input ends is killed."""
    f = make(PID + "time.sleep(600)\n")
    pid = int(f([0.0]))
    f.close()
    assert reaped(pid)


def test_close_during_a_query(make, tmp_path):
    """close() from another thread ends a query that would never end."""
    f = make(HANG_ONCE.replace("answer", "time.sleep(600)  # "))
    raised = []

    def ask():
        try:
            f([0.0])
        except ProgramError as error:
            raised.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    eventually((tmp_path / "hung").exists)
    f.close()
    thread.join()
    assert len(raised) == 1
    assert raised[0].endswith("was closed")
    assert reaped(int((tmp_path / "hung").read_text(encoding="utf-8")))
    assert len(logged(tmp_path)) == 1


def test_forgotten(tmp_path):
    """A program whose object is gone ends."""
    f = Program([sys.executable, "-c", HEAD + PID], cwd=tmp_path)
    pid = int(f([0.0]))
    del f
    gc.collect()
    assert reaped(pid)


def test_files_and_threads_are_given_back(make, tmp_path):
    """Starts, deaths, time-outs and nonsense leave no open file and no thread."""
    f = make("    if x[0][0] == 1: sys.exit(1)\n    if x[0][0] == 2: print('z', flush=True)\n    else: answer([0.0])\n")
    f([0.0])
    f.close()
    files, threads = os.listdir("/proc/self/fd"), threading.active_count()
    for _ in range(3):
        with Program(f.command, cwd=tmp_path) as g:
            g([0.0])
            for x in (1.0, 2.0):
                with pytest.raises(ProgramError):
                    g([x])
    with pytest.raises(ProgramError):
        Program(["sleep", "600"], timeout=0.1)([0.0])
    assert os.listdir("/proc/self/fd") == files
    assert threading.active_count() == threads


@pytest.mark.parametrize("ending", ["time.sleep(600)", "sys.exit()", "raise ValueError", "os._exit(0)"])
def test_ends_with_the_caller(tmp_path, ending):
    """Whether the caller is killed (kill -9), ends, fails or leaves without a word: the program sees its input end."""
    code = f"""
import os, sys, time
from fzoos.objectives.program import Program
f = Program([sys.executable, "-c", {HEAD + PID!r}])
print(int(f([0.0])), flush=True)
{ending}
"""
    caller = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with caller:
        pid = int(caller.stdout.readline())
        if "sleep" in ending:
            assert not gone(pid)
            caller.kill()
    eventually(lambda: gone(pid))


def test_ctrl_c(make, tmp_path):
    """A query can be interrupted; the answer it would have got is not taken for the next one's."""
    f = make("    open('asked', 'w').close()\n    time.sleep(600 * (x[0][0] == 5))\n" + FIRST)

    def interrupt():
        eventually((tmp_path / "asked").exists)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        f([5.0])
    thread.join()
    assert f([1.0]) == 1.0


def test_fork(tmp_path):
    """A forked process gets a program of its own: the two do not read each other's answers, nor end each other's."""
    code = f"""
import os, sys
from fzoos.objectives.program import Program
f = Program([sys.executable, "-c", {HEAD + PID!r}])
first = f([0.0])
child = os.fork()
if child == 0:
    sys.exit(0 if f([0.0]) not in (first, 0) else 1)
status = os.waitpid(child, 0)[1]
sys.exit(status or f([0.0]) != first)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_threads_take_turns(make):
    """Four threads share one program; each gets the answers to its own questions."""
    f = make(FIRST)

    def ask(k):
        questions = [[k + i / 64, k - i / 64] for i in range(50)]
        return all(np.array_equal(f(np.array(x)[:, None]), x) for x in questions)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"command": "./simulate"}, TypeError, "command"),
        ({"command": Path("simulate")}, TypeError, "command"),
        ({"command": ["simulate", 3]}, TypeError, "command"),
        ({"command": []}, ValueError, "command"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"timeout": "1"}, TypeError, "timeout"),
        ({"timeout": float("inf")}, ValueError, "timeout"),
        ({"restarts": -1}, ValueError, "restarts"),
        ({"restarts": 1.5}, TypeError, "restarts"),
    ],
)
def test_bad_arguments(arguments, error, name):
    """They are named when the object is made."""
    with pytest.raises(error, match=name):
        Program(**{"command": ["simulate"], **arguments})


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


def test_environment():
    """Variables are added to the caller's own."""
    script = """while read -r l; do echo "{\\"y\\": [${#PATH}, $CASE]}"; done"""
    with Program(["sh", "-c", script], env={"CASE": "3"}) as f:
        assert np.array_equal(f([[0.0], [0.0]]), [len(os.environ["PATH"]), 3.0])


def test_long_commands_are_cut():
    """An error message stays readable."""
    with pytest.raises(ProgramError) as error:
        Program(["no-such-program", "z" * 10_000])([0.0])
    assert len(str(error.value)) < 500


# In a run

BOWL = """    answer([sum((v - {target}) ** 2 for v in p) for p in x])\n"""


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("algorithm", [FixedFZooS(features=100), FedZO(differences=FiniteDifferences(count=4))])
def test_the_run_is_the_same_bit_for_bit(make, algorithm, vectorized, workers):
    """`minimize` on programs gives what it gives on the same functions called directly."""

    def bowl(target):
        def values(x):
            y = [sum((v - target) ** 2 for v in p) for p in np.atleast_2d(x).tolist()]
            return np.array(y) if vectorized else y[0]

        return values

    targets = (0.25, -0.5)
    settings = {
        "x0": np.full(5, 0.1),
        "bounds": (-1, 1),
        "algorithm": algorithm,
        "rounds": 2,
        "local_steps": 3,
        "seed": 1,
    }
    direct = minimize([bowl(t) for t in targets], vectorized=vectorized, **settings)
    programs = [make(BOWL.format(target=t)) for t in targets]
    result = minimize(programs, vectorized=vectorized, workers=workers, **settings)
    assert result.x.tobytes() == direct.x.tobytes()
    assert result.queries == direct.queries


def test_a_failure_in_a_run(make):
    """A program's failure is an objective's failure: client, round and point are told, the cause is kept."""
    f = make("    sys.exit(3)\n")
    with pytest.raises(ObjectiveError, match=r"objective of client 0 raised ProgramError.*exit status 3") as error:
        minimize([f], x0=[0.0], bounds=(-1, 1), rounds=1, seed=0)
    assert isinstance(error.value.__cause__, ProgramError)
