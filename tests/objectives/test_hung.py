"""Programs that hang, answer late or leave processes behind: no late line is a value, and nothing outlives a site.

Attackers' scripts, each a real program. Where a process must be found again, it writes its id into a file.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fzoos.federation.study import Study
from fzoos.objectives.program import Program, ProgramError

STUDY = Study(
    "hung",
    x0=0.5,
    dim=2,
    bounds=(0, 1),
    sites=("a", "b"),
    rounds=3,
    timeout=3.0,
    retries=0,
    algorithm={"name": "fedzo", "local_steps": 1, "differences": {"count": 2}},
)


def gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def started(folder, count=1):
    """Process ids that the programs wrote down."""
    eventually(lambda: len(list(folder.glob("*.pid"))) >= count)
    time.sleep(0.1)
    return [int(path.stem) for path in folder.glob("*.pid")]


# Late answers

LATE = """
import json, sys, threading, time
def say(answer):
    sys.stdout.write(json.dumps(answer) + "\\n"); sys.stdout.flush()
for line in sys.stdin:
    request = json.loads(line)
    if request["x"][0][0] == 0.5:       # answered twice: the second time while the next request is worked on
        threading.Timer(0.3, say, [{"y": [666.0], "id": request["id"]}]).start()
    else:
        time.sleep(0.6)
    say({"y": [1.0], "id": request["id"]})
"""


def test_a_late_answer_belongs_to_its_request():
    """666 comes for the first request when the second is asked: it is not the second's value. It was: 1, 666, 1."""
    with Program([sys.executable, "-c", LATE], timeout=60) as f:
        assert [f([x]) for x in (0.5, 0.0, 0.0, 0.5)] == [1.0] * 4
        time.sleep(0.6)  # a late line while nobody asks is dropped, too
        assert f([0.0]) == 1.0


def test_an_answer_to_nothing():
    """An id that was never given out is no answer."""
    code = "import json, sys\nfor line in sys.stdin: print(json.dumps({'y': [1.0], 'id': 99}), flush=True)"
    with (
        Program([sys.executable, "-c", code], timeout=60) as f,
        pytest.raises(ProgramError, match="answered request 99"),
    ):
        f([0.0])


# Time-outs by default


HANGS = """
import os, time
calls = []
def objective(x):
    open(os.path.join(os.path.dirname(__file__), f"{os.getpid()}.pid"), "w").close()
    calls.append(1)
    if os.environ["SITE"] == "b" and len(calls) > 2:
        time.sleep(10_000)
    return float(x @ x)
"""


def test_the_command_ends(tmp_path, run_command):
    """`fzoos study` with an objective that hangs: the study's time-out is the query's, the command ends, and so do the
    programs."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "objective.py").write_text(HANGS, encoding="utf-8")
    (tmp_path / "study.toml").write_text(
        'name = "hung"\nx0 = 0.5\ndim = 2\nbounds = [0.0, 1.0]\nsites = ["a", "b"]\nrounds = 3\n'
        'timeout = 15.0\nretries = 0\nalgorithm = { name = "fedzo", local_steps = 1, differences = { count = 2 } }\n',
        encoding="utf-8",
    )
    began = time.monotonic()
    assert run_command("study", tmp_path, "--workers", "2", "--quiet")[0] == 1
    assert time.monotonic() - began < 60
    for pid in started(tmp_path / "site"):  # a busy machine may not get to the second one in time
        eventually(lambda pid=pid: gone(pid))


def test_a_function_that_hangs_does_not_hold_its_process(tmp_path):
    """It cannot be killed, but the study ends, and so does the process, in the time-out and a few seconds."""
    code = f"""
import threading, time
from fzoos.engines import LocalStudy
from fzoos.federation.study import Study
study = Study(**{STUDY.settings!r})
boxes = [lambda x: float(x @ x), lambda x: time.sleep(10_000)]
print(LocalStudy(study, {str(tmp_path)!r}, boxes, workers=2).run().message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "no answer within 3 s" in done.stdout, done.stderr
    assert done.returncode == 0


# Processes that a program leaves behind

CHILD = "import os, time; open(f'{os.getpid()}.pid', 'w').close(); time.sleep(10_000)"
ESCAPES = {
    "setsid": f"subprocess.Popen([sys.executable, '-c', {CHILD!r}], start_new_session=True)",
    "a daemon": f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec({CHILD!r})
    os._exit(0)
os.wait()""",
}
PARENT = """
import json, os, subprocess, sys, time
{escape}
for line in sys.stdin:
    request = json.loads(line)
    if request["x"][0][0] > 0:
        time.sleep(10_000)
    print(json.dumps({{"y": [0.0]}}), flush=True)
{stays}
"""


def program(escape, stays=""):
    return [sys.executable, "-c", PARENT.format(escape=ESCAPES[escape], stays=stays)]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="what left the session is found in /proc")
@pytest.mark.parametrize(
    ("escape", "ending"), [("a daemon", "closed"), ("setsid", "timed out"), ("a daemon", "killed")]
)
def test_nothing_outlives_its_site(tmp_path, escape, ending):
    """Whether the program is closed, killed for its time-out, or its site's process is killed: what it started ends."""
    if ending == "killed":
        code = f"""
import sys, threading, time
from fzoos.objectives.program import Program
f = Program({program(escape, "time.sleep(10_000)")!r}, cwd={str(tmp_path)!r})
f([0.0])
threading.Thread(target=f, args=([1.0],), daemon=True).start()
time.sleep(0.3)
print("asked", flush=True)
time.sleep(10_000)
"""
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as site:
            assert site.stdout.readline() == "asked\n"
            [pid] = started(tmp_path)
            assert not gone(pid)
            site.kill()
    else:
        with Program(program(escape), cwd=tmp_path, timeout=60.0) as f:
            f([0.0])
            [pid] = started(tmp_path)
            assert not gone(pid)
            if ending == "timed out":
                f.timeout = 0.5
                with pytest.raises(ProgramError, match="gave no answer"):
                    f([1.0])
    eventually(lambda: gone(pid))
