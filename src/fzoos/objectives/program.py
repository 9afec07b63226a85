"""Objectives that are programs: one line of JSON out for each batch of points, one line back.

    request   {"x": [[0.5, 1.0], [0.25, 0.0]], "id": 7}     n points of d numbers each; named variables are objects:
              {"x": [{"rate": 0.5, "depth": 3}], "id": 8}
    answer    {"y": [1.25, null], "id": 7}                  n numbers; null or NaN marks a point that failed
    or        {"y": [1.25, null],                           with constraints: k numbers for each point, which are to
               "c": [[-0.5, 0.1], null], "id": 7}           be at most zero; null where it failed
    or        {"error": "no licence", "id": 7}              why there are none; the program continues

The id says to which request an answer belongs: a late answer is dropped, and never taken for the next one. A program
may omit the id; it must then write one line for each request, and no other line.

A program reads requests from its standard input until that ends, and then ends, too: so it does not outlive a caller
that was killed. It writes nothing but answers to its standard output, and flushes each of them; its standard error is
free for anything else. Numbers are sent with all their digits, so nothing is rounded.

Programs need a POSIX system: see `process.py`.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_positive
from fzoos.objectives.process import BadAnswer, Process, cut, show
from fzoos.objectives.values import as_returned

__all__ = ["Program", "ProgramError"]

_HOUR = 3600.0  # seconds after which a program without an answer is considered to hang
_GRACE = 2.0  # seconds in which a program whose input has ended may end by itself
_LONGEST = 2**20  # bytes of an answer, and 1024 more per point: far more than needed, and they fit in memory
_REASON = 2_000  # characters of an error that a program answered


class ProgramError(RuntimeError):
    """A program did not start, died, hung, or answered with an error or something invalid.

    Example:
        >>> from fzoos.objectives.program import Program, ProgramError
        >>> try:
        ...     Program(["no-such-program"])([0.5])
        ... except ProgramError as error:
        ...     print(error)
        program 'no-such-program' cannot be started: [Errno 2] No such file or directory: 'no-such-program'
    """


class Program:
    """An objective that is a program, in any language, and stays alive between queries.

    The first query starts it. If it dies it is restarted, and the batch that was in flight is sent again. It maps x of
    shape (d,) to a float and (n, d) to (n,), so it can be used with and without `vectorized`; with constraints it
    returns a pair (f, c). Threads that share it wait for each other.

    Args:
        command: the program and its arguments; no shell interprets them.
        timeout: seconds for each batch, including the start of the program; then it is killed, the query fails, and the
            next one restarts it. The default is an hour; None: no limit.
        restarts: how often one batch may be sent again because the program died.
        cwd: the folder it runs in; None: this process's.
        env: environment variables for it, in addition to those of this process.

    Raises:
        ProgramError: from a query, if the program fails in any way.

    Example:
        >>> import sys
        >>> from fzoos.objectives.program import Program
        >>> simulator = '''
        ... import json, sys
        ... for line in sys.stdin:
        ...     y = [sum(v * v for v in x) for x in json.loads(line)["x"]]
        ...     print(json.dumps({"y": y}), flush=True)
        ... '''
        >>> with Program([sys.executable, "-c", simulator], timeout=60) as f:
        ...     f([3.0, 4.0]), f([[0.0, 1.0], [2.0, 0.0]])
        (25.0, array([1., 4.]))
    """

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        timeout: float | None = _HOUR,
        restarts: int = 1,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(command, (str, bytes, os.PathLike)) or not all(
            isinstance(w, (str, os.PathLike)) for w in command
        ):
            raise TypeError(
                f'command must be a sequence of words such as ["./simulate", "--case", "3"], got {command!r}'
            )
        if not command:
            raise ValueError("command is empty: it must name a program")
        if timeout is not None:
            check_positive("timeout", timeout)
        check_count("restarts", restarts)
        self.command = tuple(os.fspath(word) for word in command)
        self.timeout = timeout
        self._restarts, self._cwd, self._env = restarts, cwd, dict(env or {})
        self._name = f"program {cut(shlex.join(self.command))!r}"
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._finalizer: weakref.finalize[..., Program] | None = None
        self._closed = False
        self._last_id = 0  # of the latest request

    @classmethod
    def python(
        cls,
        path: str | os.PathLike[str],
        function: str = "objective",
        *,
        vectorized: bool = False,
        timeout: float | None = _HOUR,
        restarts: int = 1,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Self:
        """Run a function of a Python file in another process: its crashes, hangs and leaks do not affect this one.

        What the function prints goes to that process's standard error. An exception is a failed query; the process
        continues.

        Args:
            path: the file; modules beside it can be imported by it.
            function: the name of the function in that file.
            vectorized: whether the function itself takes batches, (n, d) -> (n,), and not one x of shape (d,).
            timeout: as of `Program`, like `restarts`, `cwd` and `env`.

        Example:
            >>> import tempfile
            >>> from pathlib import Path
            >>> from fzoos.objectives.program import Program
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = Path(folder, "mine.py")
            ...     _ = file.write_text("def loss(x): return x.sum()")
            ...     with Program.python(file, "loss") as f:
            ...         f([1.5, 2.0])
            3.5
        """
        # -P: a file in the current folder must not hide a module of the same name.
        command = [sys.executable, "-P", "-m", "fzoos.objectives.serve", str(Path(path).absolute()), function]
        if vectorized:
            command.append("--vectorized")
        return cls(command, timeout=timeout, restarts=restarts, cwd=cwd, env=env)

    def __call__(self, x: ArrayLike | Mapping[str, Any]) -> Any:
        """Return the value at x, shape (d,), a float, or the values at the rows of x, shape (n, d), an array (n,).

        With constraints, a pair of these and c, shape (k,) or (n, k), is returned. Named variables are a dict, or a
        dict of arrays; each point is then a JSON object.
        """
        if isinstance(x, Mapping):
            rows = named_rows(x)
            return as_returned(self._values(rows), single=not any(np.ndim(column) for column in x.values()))
        points = np.asarray(x, dtype=np.float64)
        if points.ndim not in (1, 2):
            raise ValueError(f"x must have shape (d,) or (n, d), got shape {points.shape}")
        if not np.all(np.isfinite(points)):
            raise ValueError("x must hold finite numbers")
        if points.ndim == 1:
            return as_returned(self._values([points.tolist()]), single=True)
        return as_returned(self._values(points.tolist())) if len(points) else np.empty(0)

    def close(self) -> None:
        """Close the program's input, and kill the program if it does not end then. A query in flight fails."""
        self._closed = True
        if not self._lock.acquire(blocking=False):
            process = self._process
            if process is not None:
                process.kill()  # the query that holds the lock notices that it died
            self._lock.acquire()
        try:
            self._end(_GRACE)
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Program({list(self.command)!r})"

    def _values(self, points: list[Any]) -> FloatArray:
        """Send the points, again after each restart."""
        with self._lock:
            self._last_id += 1
            request = json.dumps({"x": points, "id": self._last_id}).encode() + b"\n"
            for _ in range(self._restarts + 1):
                process = self._running()
                try:
                    line = process.query(request, self._last_id, _LONGEST + 1024 * len(points), self.timeout)
                    return _numbers(line, len(points), self._last_id)
                except EOFError:
                    ending = self._end(_GRACE)
                except _Refusal as refusal:
                    raise ProgramError(f"{self._name} answered an error: {refusal}") from None
                except TimeoutError:
                    self._end()
                    raise ProgramError(
                        f"{self._name} gave no answer in {self.timeout:g} s{process.last_lines()}"
                    ) from None
                except BadAnswer as problem:
                    self._end()
                    raise ProgramError(f"{self._name} {problem}{process.last_lines()}") from None
                except BaseException:  # Ctrl-C: a late answer must not be taken for the next one
                    self._end()
                    raise
            self._refuse_if_closed()
            times = "" if self._restarts == 0 else f", queried {self._restarts + 1} times"
            raise ProgramError(f"{self._name} {ending} before it answered{times}{process.last_lines()}")

    def _running(self) -> Process:
        """Return the process, started if there is none or if it died since the last query."""
        if self._process is not None:
            try:
                if self._process.is_ready(self._last_id):
                    return self._process
            except BadAnswer as problem:
                self._end()
                raise ProgramError(f"{self._name} {problem}") from None
            self._end(_GRACE)
        self._refuse_if_closed()
        try:
            process = self._process = Process(self.command, self._cwd, os.environ | self._env)
        except OSError as error:
            raise ProgramError(f"{self._name} cannot be started: {error}") from None
        self._finalizer = weakref.finalize(self, process.end, _GRACE)  # if close() is never called
        self._refuse_if_closed()  # close() may not have seen the process just started
        return process

    def _refuse_if_closed(self) -> None:
        if self._closed:
            self._end()
            raise ProgramError(f"{self._name} was closed")

    def _end(self, grace: float = 0.0) -> str:
        process, self._process = self._process, None
        if process is None or self._finalizer is None:
            return "was not running"
        ending = process.end(grace)
        self._finalizer.detach()
        return ending


def named_rows(x: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make one dict of JSON values for each point, from variables or columns of them."""
    columns = {name: np.atleast_1d(np.asarray(column)).tolist() for name, column in x.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class _Refusal(Exception):
    """The program's answer is an error; the message is its reason."""


def _numbers(line: bytes, count: int, id: int) -> FloatArray:
    """Return the values in the answer to this request, shape (count,), or with k constraints (count, 1 + k)."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise BadAnswer(f"answered with a line that is not JSON: {show(line)}") from None
    if isinstance(answer, dict) and answer.get("id", id) != id:
        raise BadAnswer(f"answered request {cut(repr(answer['id']))}, which is not the one that was made: {id}")
    if isinstance(answer, dict) and "error" in answer:
        raise _Refusal(cut(str(answer["error"]), _REASON))
    y = answer.get("y") if isinstance(answer, dict) else None
    if not isinstance(y, list):
        raise BadAnswer(f'must answer {{"y": [...]}} or {{"error": "..."}}, got {show(line)}')
    if len(y) != count:
        raise BadAnswer(f"answered {len(y)} values for {count} points")
    rows = [[value] for value in y] if answer.get("c") is None else _with_constraints(y, answer["c"])
    for value in (value for row in rows for value in row):
        if type(value) not in (float, int, type(None)):
            raise BadAnswer(f"must answer numbers, got {cut(repr(value))}")
    try:
        numbers = np.array(rows, dtype=np.float64)  # None becomes NaN
    except OverflowError:
        raise BadAnswer(f"answered a number that is too large: {show(line)}") from None
    return numbers if numbers.shape[1] > 1 else numbers[:, 0]


def _with_constraints(y: list[Any], c: Any) -> list[list[Any]]:
    """Return f, c_1, ..., c_k of each point; NaN where a point failed and has no constraints."""
    if not isinstance(c, list) or len(c) != len(y):
        raise BadAnswer(f'must answer "c" with one list of constraints for each of {len(y)} points, got {cut(repr(c))}')
    found = [one if isinstance(one, list) or one is None else [one] for one in c]
    counts = {len(one) for one in found if one is not None}
    if len(counts) > 1 or 0 in counts:
        raise BadAnswer(f"must answer as many constraints for each point, and one at least, got {cut(repr(c))}")
    width = counts.pop() if counts else 0
    if any(one is None and value is not None and value == value for value, one in zip(y, found, strict=True)):
        raise BadAnswer(f"must answer constraints for each point that has a value, got {cut(repr(c))}")
    return [[value, *([None] * width if one is None else one)] for value, one in zip(y, found, strict=True)]
