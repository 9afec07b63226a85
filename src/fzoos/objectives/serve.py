"""Functions of Python files as objectives: as a program that `fzoos.Program` runs, or sent to other processes.

    python -m fzoos.objectives.serve FILE FUNCTION [--vectorized]

To try the program: echo '{"x": [[0.5, 1.0]]}' | python -m fzoos.objectives.serve objective.py objective
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from fzoos.objectives.guard import wait_for_end
from fzoos.objectives.values import join_values, read_values, takes_keywords

if TYPE_CHECKING:
    from fzoos._util.arrays import FloatArray
    from fzoos.objectives.box import Objective

__all__ = ["FileObjective", "load_function", "load_namesake", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Reply to requests until standard input ends."""
    parser = argparse.ArgumentParser(
        "python -m fzoos.objectives.serve", description="Reply to requests for values of a function."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a Python file")
    parser.add_argument("function", metavar="FUNCTION", help="the name of a function in it")
    parser.add_argument(
        "--vectorized", action="store_true", help="the function maps (n, d) to (n,), not (d,) to a float"
    )
    chosen = parser.parse_args(arguments)
    requests, replies = _take_pipes()
    if os.getsid(0) == os.getpid():  # started by `Program`, which gives every program a session of its own
        atexit.register(_end_helpers)  # before all that the file registers, so it runs after that
        threading.Thread(target=_end_with_caller, args=(requests.fileno(), os.getppid()), daemon=True).start()
    evaluate = _vector if chosen.vectorized else _scalars
    _serve(requests, replies, chosen.file, lambda: load_function(chosen.file, chosen.function), evaluate)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output from the function: whatever it prints goes to standard error."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies


def _end_helpers() -> None:
    """Terminate what the function started and left running, but not this process, which still writes its files."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def _end_with_caller(requests: int, caller: int) -> None:
    """Kill this process, and what it started, soon after the caller has ended, even during an evaluation."""
    wait_for_end(requests, caller)
    os.killpg(0, signal.SIGKILL)


def _serve(
    requests: BinaryIO,
    replies: BinaryIO,
    file: Path,
    load: Callable[[], Objective],
    evaluate: Callable[[Objective, list[Any]], FloatArray],
) -> None:
    objective: Objective | None = None
    for line in requests:
        if not line.endswith(b"\n"):
            return  # the caller ended while it wrote
        reply: dict[str, Any]
        id: dict[str, Any] = {}
        try:
            request = json.loads(line)
            id = {"id": request["id"]} if "id" in request else {}
            if objective is None:
                objective = load()
            values = evaluate(objective, request["x"])
            f, c = (values, None) if values.ndim == 1 else (values[:, 0], values[:, 1:])
            reply = {"y": f.tolist()} if c is None else {"y": f.tolist(), "c": c.tolist()}
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}{_where(error, file)}"}
        sys.stderr.flush()
        replies.write(json.dumps({**reply, **id}).encode() + b"\n")
        replies.flush()


def _where(error: BaseException, file: Path) -> str:
    """The line of the user's file that raised the error, if one did."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f" ({file.name}, line {lines[-1]})" if lines else ""


def load_namesake(file: Path) -> None:
    """Load the module that has the name of a user's file, such as random.py, so that later imports find the module."""
    name = file.stem
    if not name.isidentifier() or name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None and Path(spec.origin).resolve() != file.resolve():
        with suppress(ImportError):
            importlib.import_module(name)


def load_function(file: Path, function: str) -> Objective:
    """Load a function from a file, which may import modules beside it, as if it were run by `python FILE`."""
    load_namesake(file)
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_file"  # a file may be called random.py
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file: its name must end in .py")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    objective: Objective | None = getattr(module, function, None)
    if not callable(objective):
        raise ImportError(f"{file} has no function {function!r}")
    return objective


_load_once = cache(load_function)


class FileObjective:
    """A function of a Python file that can be sent to other processes, which have the file at the same path.

    Args:
        path: the file.
        function: the function's name.
        env: environment variables that are set before the function is called.
    """

    def __init__(self, path: str | os.PathLike[str], function: str = "objective", **env: str) -> None:
        self._path, self._function, self._env = Path(path).absolute(), function, env

    def __call__(self, x: Any) -> Any:
        """Evaluate the function at a point, or at named variables."""
        os.environ.update(self._env)
        function = _load_once(self._path, self._function)
        by_keyword = isinstance(x, Mapping) and takes_keywords(function, tuple(x))
        return function(**x) if by_keyword else function(x)


def _scalars(objective: Objective, points: list[Any]) -> FloatArray:
    """Evaluate a function (d,) -> float, or of named variables, at the points."""
    if points and isinstance(points[0], dict):
        by_keyword = takes_keywords(objective, tuple(points[0]))
        found = [objective(**point) if by_keyword else objective(point) for point in points]
        dim = len(points[0])
    else:
        rows = np.array(points, dtype=np.float64)
        found, dim = [objective(row.copy()) for row in rows], rows.shape[-1]
    return join_values([read_values(value, (1, dim), False, "function") for value in found] or [np.empty(0)])


def _vector(objective: Objective, points: list[Any]) -> FloatArray:
    """Evaluate a function (n, d) -> (n,), or of arrays of named variables."""
    if points and isinstance(points[0], dict):
        columns = {name: np.array([point[name] for point in points]) for name in points[0]}
        found = objective(**columns) if takes_keywords(objective, tuple(columns)) else objective(columns)
        return read_values(found, (len(points), len(columns)), True, "function")
    x = np.array(points, dtype=np.float64)
    return read_values(objective(x), x.shape, True, "function")


if __name__ == "__main__":
    main()
