"""Several copies of an objective that takes one query at a time, and files of functions for workers elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fzoos.objectives.box import Objective
from fzoos.objectives.keywords import takes_keywords
from fzoos.objectives.parallel import Parallel
from fzoos.objectives.serve import load_function

__all__ = ["FileObjective", "Several", "several"]


class Several:
    """Copies of an objective, such as programs: each query takes one that is free.

    Args:
        make: makes one copy.
        count: how many.

    Example:
        >>> from fzoos.objectives.several import Several
        >>> Several(lambda: sum, 2)([1.0, 2.0])
        3.0
    """

    def __init__(self, make: Callable[[], Objective], count: int) -> None:
        self._all = [make() for _ in range(count)]
        self._free: SimpleQueue[Objective] = SimpleQueue()
        for objective in self._all:
            self._free.put(objective)

    def __call__(self, x: Any) -> Any:
        """The value, as soon as a copy is free."""
        objective = self._free.get()
        try:
            return objective(x)
        finally:
            self._free.put(objective)

    def close(self) -> None:
        """End all of them."""
        for objective in self._all:
            if hasattr(objective, "close"):
                objective.close()


def several(make: Callable[[], Objective], count: int) -> Objective:
    """One copy, or several with threads that ask them at the same time.

    Example:
        >>> from fzoos.objectives.several import several
        >>> several(lambda: sum, 1) is sum
        True
    """
    return make() if count == 1 else Parallel(Several(make, count), ThreadPoolExecutor(count, "fzoos-program"))


class FileObjective:
    """A function of a Python file that can be sent to other processes, which have the file at the same path.

    Args:
        path: the file.
        function: the function's name.
        env: environment variables that it finds.

    Example:
        >>> import pickle, tempfile
        >>> from pathlib import Path
        >>> from fzoos.objectives.several import FileObjective
        >>> file = Path(tempfile.mkdtemp(), "mine.py")
        >>> _ = file.write_text("def objective(x): return sum(x)")
        >>> pickle.loads(pickle.dumps(FileObjective(file)))([1.0, 2.0])
        3.0
    """

    def __init__(self, path: str | os.PathLike[str], function: str = "objective", **env: str) -> None:
        self._path, self._function, self._env = str(Path(path).absolute()), function, env

    def __call__(self, x: Any) -> Any:
        """The function's value at a point, or of named variables."""
        os.environ.update(self._env)
        function = _loaded(self._path, self._function)
        by_keyword = isinstance(x, Mapping) and takes_keywords(function, tuple(x))
        return function(**x) if by_keyword else function(x)


@cache
def _loaded(path: str, function: str) -> Objective:
    return load_function(Path(path), function)
