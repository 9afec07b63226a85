"""One run of a program, with its pipes: a line in, a line out, a deadline, and an end for all that it started.

Needs a POSIX system: pipes are waited for with `poll`, and a program is ended together with all it started.
"""

from __future__ import annotations

import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, cast

from fzoos.objectives import guard

__all__ = ["BadAnswer", "Process", "cut", "show"]

_LOOK = 1.0  # seconds between two looks at whether it lives, in case something it started keeps its pipes open
_CHUNK = 65_536  # bytes: what a pipe holds
_TAIL = 8_192  # bytes of standard error that are kept
_LINES = 10  # lines of them that are shown
_SHOWN = 200  # characters of a line that are shown


class BadAnswer(Exception):
    """Says what a program wrote that is no answer."""


class Process:
    """One run of a program, with its pipes.

    It leads a session of its own: Ctrl-C at a terminal does not reach it, and all that it started can be ended with it.
    What leaves the session is known by a mark in its environment. A second process, a guard, ends all of them if this
    one is killed.
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

    def waits(self, late: Callable[[bytes], bool] = lambda line: False) -> bool:
        """Whether it lives and has said nothing that it was not asked, so that the next line is the next answer.

        Args:
            late: whether a line answers an earlier request; such lines are dropped.
        """
        if self._popen.poll() is not None:
            return False  # so it is for a forked process too, which must not talk to its parent's program
        unasked = bytearray()
        while True:
            try:
                chunk = os.read(self._stdout.fileno(), _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            unasked += chunk
            _drop_late(unasked, late)
            if unasked:
                raise BadAnswer(f"wrote a line that it was not asked for: {show(unasked)}")

    def ask(
        self,
        request: bytes,
        longest: int,
        timeout: float | None,
        late: Callable[[bytes], bool] = lambda line: False,
    ) -> bytes:
        """Write the request and read a line; EOFError if it dies, TimeoutError after `timeout` seconds.

        Args:
            request: a line.
            longest: bytes that the answer may have.
            timeout: seconds for both; None: wait for ever.
            late: whether a line answers an earlier request; such lines are dropped.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        unsent, answer = memoryview(request), bytearray()
        with selectors.PollSelector() as selector:
            selector.register(self._stdin, selectors.EVENT_WRITE)
            selector.register(self._stdout, selectors.EVENT_READ)
            while unsent or not answer.endswith(b"\n"):
                left = _LOOK if deadline is None else min(_LOOK, deadline - time.monotonic())
                if left <= 0:
                    raise TimeoutError
                dead = self._popen.poll() is not None  # asked before the pipes are: its last words are not missed
                ready = selector.select(0 if dead else left)
                if dead and not ready:
                    raise EOFError
                for key, _ in ready:
                    if key.fileobj is self._stdin:
                        unsent = unsent[self._write(unsent) :]
                        if not unsent:
                            selector.unregister(self._stdin)
                    else:
                        _add(answer, os.read(key.fd, _CHUNK), longest, late)
        return bytes(answer)

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._stdin.fileno(), data)
        except BrokenPipeError:
            raise EOFError from None

    def kill(self) -> None:
        """Kill it and all that it started."""
        guard.kill_all(self._popen.pid, self._mark)

    def end(self, grace: float = 0.0) -> str:
        """Close its pipes, give it `grace` seconds to end, kill what is left, and say how it ended."""
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
        self._drain.join(1.0)  # it goes on only while something that left the session has standard error open
        if not by_itself:
            return "closed its pipes"
        return f"ended with exit status {status}" if status >= 0 else f"was killed by {_signal_name(-status)}"

    def last_lines(self) -> str:
        """The end of an error message: the last lines of standard error, if there are any."""
        lines = self._tail.decode(errors="replace").splitlines()[-_LINES:]
        shown = "".join(f"\n  {cut(line)}" for line in lines)
        return f"; the last lines of its standard error:{shown}" if lines else ""


def _start_guard(leader: int, mark: str) -> subprocess.Popen[bytes]:
    """What ends the program if this process is killed; -I and -S: it needs no package, and nobody's settings."""
    nothing = subprocess.DEVNULL
    command = [sys.executable, "-I", "-S", guard.__file__, str(leader), mark]
    env = {name: value for name, value in os.environ.items() if name != guard.VARIABLE}  # not another program's own
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, env=env, start_new_session=True
    )


def _drain(stream: IO[bytes], tail: bytearray) -> None:
    """Read all there is, so that the program never waits, and keep the end."""
    with stream:
        while chunk := stream.read(_CHUNK):
            tail += chunk
            del tail[:-_TAIL]


def _add(answer: bytearray, chunk: bytes, longest: int, late: Callable[[bytes], bool]) -> None:
    """Add what was read to a line that must end where the answer ends."""
    if not chunk:
        raise EOFError
    answer += chunk
    _drop_late(answer, late)
    end = answer.find(b"\n")
    if len(answer) > longest:
        raise BadAnswer(f"answered with a line of more than {longest:,} bytes: {show(answer)}")
    if end >= 0 and end != len(answer) - 1:
        raise BadAnswer(f"answered with more than one line: {show(answer)}")


def _drop_late(lines: bytearray, late: Callable[[bytes], bool]) -> None:
    """Drop complete lines at the beginning that answer an earlier request."""
    while (end := lines.find(b"\n")) >= 0 and late(bytes(lines[:end])):
        del lines[: end + 1]


def show(data: bytes | bytearray) -> str:
    """What a program wrote, for an error message."""
    return repr(cut(data[: 4 * _SHOWN].decode(errors="replace")))


def cut(text: str, longest: int = _SHOWN) -> str:
    """The beginning of a text, for an error message."""
    return text if len(text) <= longest else text[:longest] + "..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
