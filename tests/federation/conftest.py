"""Processes that can be killed: see helpers/fault_jobs.py."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HELPERS = Path(__file__).parent / "helpers"
sys.path.insert(0, str(HELPERS))

from fault_jobs import receive  # noqa: E402


class Child:
    """A process of the nursery, at work on a job."""

    def __init__(self, nursery, pid, line):
        self._nursery, self._status = nursery, None
        self.pid, self.line = pid, line

    def result(self):
        """What the job says at its end, and how the process ended: (values or None, exit status)."""
        data = receive(self.line)
        return None if data is None else json.loads(data), self.wait()

    def kill(self, close=True):
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
        return self.wait(close)

    def wait(self, close=True):
        """The exit status; -9 after a kill."""
        if self._status is None:
            self._status = self._nursery.order({"wait": self.pid})
        if close:
            self.line.close()
        return self._status


class Nursery:
    """Starts children; see fault_jobs.py."""

    def __init__(self):
        self._orders, theirs = socket.socketpair()
        command = [sys.executable, str(HELPERS / "fault_jobs.py"), str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def order(self, job, fds=()):
        socket.send_fds(self._orders, [json.dumps(job).encode()], fds)
        return json.loads(self._orders.recv(64))

    def start(self, job, *, limit=None, kill_at=..., **values):
        mine, theirs = socket.socketpair()
        order = {"job": job, "with": values, "limit": limit} | ({} if kill_at is ... else {"kill_at": kill_at})
        pid = self.order(order, [theirs.fileno()])
        theirs.close()
        return Child(self, pid, mine)

    def run(self, job, **values):
        return self.start(job, **values).result()

    def close(self):
        self._orders.close()
        self._process.wait()


@pytest.fixture(scope="module")
def nursery():
    """One for each file: what happens in the tests of others in between does not concern it."""
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def folder():
    """An empty folder, in memory where that is possible: a killed process loses nothing of it, and it is quick."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="fzoos-", dir=memory if os.access(memory, os.W_OK) else None))
    yield path
    shutil.rmtree(path)
