"""Programs that are told what to do by the first number of the point they are asked for, and what becomes of them."""

import re
import time
from pathlib import Path

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
