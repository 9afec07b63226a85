"""`Program`: it is started when it is needed, may die or hang, and leaves nothing behind.

Every program here is a real one. They are told what to do by the first number of the point they are asked for.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from programs import FIRST, HEAD, PID, eventually, gone, logged, reaped

from fzoos.objectives.program import Program, ProgramError

# Life and death


def test_the_first_query_starts_it(make, tmp_path):
    """Making one starts nothing; all queries go to the same process."""
    (tmp_path / "starts").touch()
    f = Program(["sh", "-c", 'echo x >> starts; while read -r l; do echo "{\\"y\\": [$$]}"; done'], cwd=tmp_path)
    assert (tmp_path / "starts").read_text(encoding="utf-8") == ""
    with f:
        assert f([0.0]) == f([1.0]) == f([2.0])
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "x\n"


@pytest.mark.parametrize("restarts", [0])
def test_killed_between_queries(make, tmp_path, restarts):
    """A program that died between two queries is restarted; that does not count as a restart of a batch."""
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


@pytest.mark.parametrize("restarts", [0, 2])
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


def test_the_error_names_the_signal(make):
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
    """After the time-out it is killed and not queried again; the next query restarts it."""
    f = make("    if x[0][0] == 5: time.sleep(600)\n" + PID, timeout=20.0)
    first = int(f([0.0]))
    f.timeout = 1.0
    with pytest.raises(ProgramError, match="gave no answer in 1 s"):
        f([5.0])
    assert reaped(first)
    f.timeout = 20.0
    assert int(f([1.0])) != first
    assert len(logged(tmp_path)) == 3


def test_what_a_program_started_ends_with_it(tmp_path):
    """A killed program's own processes are killed too."""
    f = Program(["sh", "-c", "sleep 600 & echo $! > pid; wait"], cwd=tmp_path, timeout=2.0)
    with pytest.raises(ProgramError, match="gave no answer"):
        f([0.0])
    child = int((tmp_path / "pid").read_text(encoding="utf-8"))
    eventually(lambda: gone(child))


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


@pytest.mark.parametrize("ending", ["time.sleep(600)", "raise ValueError"])
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
    """A forked process starts its own program: neither reads the other's values, nor ends the other's program."""
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
