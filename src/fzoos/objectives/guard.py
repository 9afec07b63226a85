"""Kills a program and all that it started when the process that uses it has ended, killed or not.

    python guard.py LEADER MARK        with its standard input connected to that process

LEADER is the id of the program, which leads its own process group. What the program started is in that group, unless
it left the group (`setsid`, a daemon): then /proc still shows MARK in its environment. This file imports nothing from
fzoos, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

__all__ = ["VARIABLE", "kill_all", "marked", "wait_for_end"]

VARIABLE = "FZOOS_PROGRAM"  # the environment variable that has the mark

_GRACE = 2.0  # seconds in which a program whose input has ended may end by itself
_POLL = 1.0  # seconds between two checks whether the caller is alive
_TRIES = 20  # a killed process may have started another just before


def marked(mark: str) -> list[int]:
    """Return the ids of all processes that have the mark; none where there is no /proc."""
    wanted, found = f"{VARIABLE}={mark}".encode(), []
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{name}/environ", "rb") as file,
            ):
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def kill_all(leader: int, mark: str) -> None:
    """Kill the leader's group and all processes that have the mark."""
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


def wait_for_end(pipe: int, caller: int) -> None:
    """Wait until the caller has ended, and a little longer, in which the program may end by itself.

    Its parent is watched beside the pipe, since a process that the caller forked may hold the other end of the pipe.
    """
    watch = select.poll()
    watch.register(pipe, 0)  # no events: only the end of the pipe is reported
    while not watch.poll(1000 * _POLL) and os.getppid() == caller:
        pass
    time.sleep(_GRACE)


if __name__ == "__main__":
    wait_for_end(0, os.getppid())
    kill_all(int(sys.argv[1]), sys.argv[2])
