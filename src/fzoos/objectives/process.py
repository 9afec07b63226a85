"""A running program and its pipes: write a line, read a line within a time-out, end it with all that it started.

This needs a POSIX system: `poll` waits for pipes, and signals end a program together with all that it started.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, cast

from fzoos.objectives import guard

__all__ = ["BadAnswer", "Process", "cut", "show"]

_POLL = 1.0  # seconds between two checks whether it is alive: something that it started may keep its pipes open
_CHUNK = 65_536  # bytes: what a pipe holds
_TAIL = 8_192  # bytes of standard error that are stored
_LINES = 10  # lines of them that are shown
_SHOWN = 200  # characters of a line that are shown


class BadAnswer(Exception):
    """A program wrote something that is not an answer; the message says what."""


class Process:
    """A running program and its pipes.

    It leads its own session: Ctrl-C at a terminal does not reach it, and all that it started can be ended with it. What
    leaves the session has a mark in its environment. A second process, `guard.py`, ends all of them if this one is
    killed.
    """

    def __init__(self, command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._mark = secrets.token_hex(16)
        marked = {**env, guard.VARIABLE: self._mark}
        self._popen = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, cwd=cwd, env=marked, start_new_session=True
        )
        self._guard = _start_guard(self._popen.pid, self._mark)
        self._stdin, self._stdout = cast(IO[bytes], self._popen.stdin), cast(IO[bytes], self._popen.stdout)
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._owner = os.getpid()
        self._tail = bytearray()
        self._drain = threading.Thread(target=_drain, args=(self._popen.stderr, self._tail), daemon=True)
        self._drain.start()

    def is_ready(self, id: int) -> bool:
        """Whether the program is alive and its next line is the answer to request `id`; late answers are dropped.

        Raises:
            BadAnswer: it wrote another line.
        """
        if self._popen.poll() is not None:
            return False  # as in a forked process, which must not use its parent's program
        unrequested = bytearray()
        while True:
            try:
                chunk = os.read(self._stdout.fileno(), _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            unrequested += chunk
            _drop_late(unrequested, id)
            if unrequested:
                raise BadAnswer(f"wrote a line that was not requested: {show(unrequested)}")

    def query(self, request: bytes, id: int, longest: int, timeout: float | None) -> bytes:
        """Write request `id`, a line, and read the answer, `longest` bytes at most, within `timeout` seconds for both.

        Raises:
            EOFError: the program has ended.
            TimeoutError: there was no answer in time.
            BadAnswer: it wrote something else.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        unsent, answer = memoryview(request), bytearray()
        with selectors.PollSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            selector.register(self._stdout, selectors.EVENT_READ)
            while unsent or not answer.endswith(b"\n"):
                left = _POLL if deadline is None else min(_POLL, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError
                dead = self._popen.poll() is not None  # checked before the pipes, so that its last line is read
                ready = selector.select(0 if dead else left)
                if dead and not ready:
                    raise EOFError
                for key, _ in ready:
                    if key.fileobj is self._stdin:
                        unsent = unsent[self._write(unsent) :]
                        if not unsent:
                            selector.unregister(self._stdin)
                    else:
                        _add(answer, os.read(key.fd, _CHUNK), longest, id)
        return bytes(answer)

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data)
        except BrokenPipeError:
            raise EOFError from None

    def kill(self) -> None:
        """Kill the program and all that it started."""
        guard.kill_all(self._popen.pid, self._mark)

    def end(self, grace: float = 0.0) -> str:
        """Close the pipes, wait `grace` seconds, kill what is left, and return how the program ended."""
        self._stdin.close()
        self._stdout.close()
        if self._owner != os.getpid():
            self._popen.returncode = self._guard.returncode = 0  # the parent's business
            cast(IO[bytes], self._guard.stdin).close()
            return "belongs to another process"
        by_itself = True
        try:
            self._popen.wait(grace)
        except subprocess.TimeoutExpired:
            by_itself = False
        finally:
            self.kill()
            self._guard.kill()
            cast(IO[bytes], self._guard.stdin).close()
            self._guard.wait()
        status = self._popen.wait()
        self._drain.join(1.0)  # it continues only while something that left the session has standard error open
        if not by_itself:
            return "closed its pipes"
        return f"ended with exit status {status}" if status >= 0 else f"was killed by {_signal_name(-status)}"

    def last_lines(self) -> str:
        """The last lines of standard error, as the end of an error message."""
        lines = self._tail.decode(errors="replace").splitlines()[-_LINES:]
        shown = "".join(f"\n  {cut(line)}" for line in lines)
        return f"; the last lines of its standard error:{shown}" if lines else ""


def _start_guard(leader: int, mark: str) -> subprocess.Popen[bytes]:
    """Start the process that ends the program if this one is killed; -I and -S: without packages and settings."""
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-I", "-S", guard.__file__, str(leader), mark]
    env = {name: value for name, value in os.environ.items() if name != guard.VARIABLE}  # not another program's own
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, env=env, start_new_session=True
    )


def _drain(stream: IO[bytes], tail: bytearray) -> None:
    """Read all of a stream, so that the program never waits, and store its end."""
    with stream:
        while chunk := stream.read(_CHUNK):
            tail += chunk
            del tail[:-_TAIL]


def _add(answer: bytearray, chunk: bytes, longest: int, id: int) -> None:
    """Add what was read to the answer, which must be one line."""
    if not chunk:
        raise EOFError
    answer += chunk
    _drop_late(answer, id)
    end = answer.find(b"\n")
    if len(answer) > longest:
        raise BadAnswer(f"answered with a line of more than {longest:,} bytes: {show(answer)}")
    if end >= 0 and end != len(answer) - 1:
        raise BadAnswer(f"answered with more than one line: {show(answer)}")


def _drop_late(lines: bytearray, id: int) -> None:
    """Drop complete lines at the start that answer a request before this one."""
    while (end := lines.find(b"\n")) >= 0 and _is_late(bytes(lines[:end]), id):
        del lines[: end + 1]


def _is_late(line: bytes, id: int) -> bool:
    try:
        answered = json.loads(line).get("id")
    except (ValueError, AttributeError, RecursionError):
        return False
    return type(answered) is int and answered < id


def show(data: bytes | bytearray) -> str:
    """Return what a program wrote, shortened for an error message."""
    return repr(cut(data[: 4 * _SHOWN].decode(errors="replace")))


def cut(text: str, longest: int = _SHOWN) -> str:
    """Return the start of a text, for an error message."""
    return text if len(text) <= longest else text[:longest] + "..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
