"""Changing what is kept of runs: their names, their tags, and whether they are there at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fzoos._util.processes import is_gone
from fzoos.runs import digests
from fzoos.runs.rows import storable_text
from fzoos.runs.store import Store, StoreError
from fzoos.runs.tags import checked_tags

__all__ = ["LONGEST_NAME", "RunEditor"]

LONGEST_NAME = 200  # characters
_TABLES = {"runs": "id"} | dict.fromkeys(("rounds", "failures", "digests", "answers"), "run")


class RunEditor(Store):
    """A file of runs whose runs are renamed, tagged and deleted.

    Each change names the run by its id and by when it began: an id may be given again after a deletion, and a page that
    was opened before must not change another run. A run that is damaged is not changed, because the change would make
    its digest fit again.

    Args:
        path: the file.

    Raises:
        StoreError: there is none, or it cannot be used.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> from fzoos.runs.edit import RunEditor
        >>> path = Path(tempfile.mkdtemp()) / "runs.db"
        >>> for seed in (1, 2):
        ...     result = minimize([lambda x: float(x @ x)], np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=1,
        ...                       rng=seed, store=path)
        >>> with RunEditor(path) as editor:
        ...     first, second = editor.runs
        ...     editor.rename(first.id, first.started, "a first try")
        ...     editor.tag(first.id, first.started, ["kept"])
        ...     editor.delete(second.id, second.started)
        ...     [(run.name, editor.tags(run.id)) for run in editor.runs]
        [('a first try', ('kept',))]
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, create=False)

    def rename(self, run: int, started: float, name: str) -> None:
        """Give a run another name.

        Raises:
            ValueError: it is empty or too long.
            StoreError: there is no such run, or it is damaged.
        """
        text = " ".join(storable_text(name).split()) if isinstance(name, str) else ""
        if not text or len(text) > LONGEST_NAME:
            raise ValueError(f"name must be of 1 to {LONGEST_NAME} characters, got {name!r}")
        self._change(run, started, "name", text)

    def tag(self, run: int, started: float, tags: Sequence[str]) -> None:
        """Give a run these tags, in place of those that it has.

        Raises:
            ValueError: they are not texts, too many or too long.
            StoreError: there is no such run, or it is damaged.
        """
        self._change(run, started, "tags", json.dumps(checked_tags(tags)))

    def delete(self, run: int, started: float) -> None:
        """Delete a run with all of its rounds. It cannot be brought back.

        Raises:
            StoreError: there is no such run, it is running, or a study goes on from it.
        """
        with self._transaction():
            status, host, pid = self._find(run, started)
            if status == "running" and not is_gone(host, pid):
                raise StoreError(f"run {run} of {self.path} is running: end it first")
            if self._db.execute("SELECT 1 FROM checkpoints WHERE run = ?", (run,)).fetchone() is not None:
                raise StoreError(f"run {run} of {self.path} is a study's, which goes on from it: remove its folder")
            for table, column in _TABLES.items():
                self._execute(f"DELETE FROM {table} WHERE {column} = ?", (run,))

    def _find(self, run: int, started: float) -> tuple[Any, ...]:
        row = self._db.execute("SELECT started, status, host, pid FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None or row[0] != started:
            raise StoreError(f"{self.path} has no such run {run} any more")
        return tuple(row[1:])

    def _change(self, run: int, started: float, column: str, value: str) -> None:
        with self._transaction():
            self._find(run, started)
            damaged = digests.damaged_rows(self._db, run)
            if damaged:
                raise StoreError(f"{self.path} is damaged: {damaged[0]} is not what was written")
            self._execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (value, run))
            digests.note(self._db, run)
