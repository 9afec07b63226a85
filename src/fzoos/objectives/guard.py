"""Ends a program and all that it started when the process that uses it is gone, killed or not.

    python guard.py LEADER MARK        with its standard input connected to that process

LEADER is the program's process id, which leads a group of its own. What the program started is in that group, unless it
left it (`setsid`, a daemon): it then still has MARK in its environment, where /proc shows it. This file imports nothing
of ours, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

__all__ = ["VARIABLE", "kill_all", "marked"]

VARIABLE = "FZOOS_PROGRAM"  # the environment variable that has the mark

_GRACE = 2.0  # seconds in which a program whose input has ended may end by itself
_LOOK = 1.0  # seconds between two looks whether the caller lives: one that it forked may hold the pipe
_TRIES = 20  # what is killed may have started something a moment before


def marked(mark: str) -> list[int]:
    """Process ids of all that have the mark; none where there is no /proc."""
    wanted, found = f"{VARIABLE}={mark}".encode(), []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # others' cannot be read
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def kill_all(leader: int, mark: str) -> None:
    """Kill the leader's group and everything that has the mark."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: only zombies left, on macOS
        os.killpg(leader, signal.SIGKILL)
    for _ in range(_TRIES):
        left = [pid for pid in marked(mark) if pid != os.getpid()]
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.01)


def _main(leader: int, mark: str) -> None:
    watch, caller = select.poll(), os.getppid()
    watch.register(0, 0)  # no events: only the end of the pipe is reported
    while not watch.poll(1000 * _LOOK) and os.getppid() == caller:
        pass
    time.sleep(_GRACE)
    kill_all(leader, mark)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
