"""What a run of `minimize` can be made again from, and go on: its settings, its seed, and the values of its queries.

On disk the values are in a table of their own in the file of runs, 8 bytes a query, written with each round; with k
constraints 1 + k numbers a query, and for each round and client i a row of client -1 - i that has this width. Runs of
the last release have none, and cannot go on.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.sqlite import SqliteFile
from fzoos.objectives.memory import join_answers
from fzoos.result import Record, Result
from fzoos.runs.rows import ANSWERS, array_of, bytes_of
from fzoos.runs.store import Store, StoreError

__all__ = ["Recording", "ValueTable", "find_recording"]

_CHANGES = ("rounds", "seed", "entropy")  # settings with which a run may go on that had others


@dataclass(frozen=True)
class Recording:
    """A run that can be made again without asking anything.

    Args:
        settings: with which it was made, as a file of runs has them.
        result: what it left.
        walk: x after each round.
        values: of each client's queries, in their order, with constraints as `join_answers` has them.
        run: its id, if it is in a file.
    """

    settings: Mapping[str, Any]
    result: Result
    walk: tuple[FloatArray, ...]
    values: tuple[FloatArray, ...]
    run: int | None = None

    @property
    def history(self) -> tuple[Record, ...]:
        """Its rounds."""
        return self.result.history

    @property
    def unanswered(self) -> list[int]:
        """Queries of each client that were paid for and have no value."""
        pairs = zip(self.result.queries_per_client, self.values, strict=True)
        return [max(0, paid - len(values)) for paid, values in pairs]

    @property
    def seed(self) -> np.random.SeedSequence:
        """Of everything random."""
        kept = self.settings.get("entropy")
        if kept is None:
            return np.random.SeedSequence(self.settings["seed"])
        entropy = [int(word) for word in kept["entropy"]]
        return np.random.SeedSequence(entropy[0] if kept["plain"] else entropy, spawn_key=tuple(kept["spawn_key"]))

    @staticmethod
    def entropy(seed: np.random.SeedSequence) -> dict[str, Any]:
        """A seed as settings keep it."""
        plain = isinstance(seed.entropy, int)
        words = [seed.entropy] if plain else seed.entropy or ()
        return {"entropy": [str(word) for word in words], "plain": plain, "spawn_key": list(seed.spawn_key)}  # type: ignore[union-attr]

    def within(self, result: Result) -> Result:
        """The result, from which the run can go on: no field, so that tables and files of results leave it out."""
        object.__setattr__(result, "_recording", self)
        return result

    def take_up(self, settings: Mapping[str, Any], rounds: int, clients: int) -> np.random.SeedSequence:
        """The seed of the run; a ValueError unless one of these settings can go on from here."""
        if clients != len(self.values):
            raise ValueError(f"start has {len(self.values)} clients, and there are {clients} objectives")
        for name in {**self.settings, **settings}:
            before, now = (_plain(some.get(name)) for some in (self.settings, settings))
            if name not in _CHANGES and before != now:
                raise ValueError(f"start was made with {name} = {before}, and cannot go on with {now}")
        if settings.get("seed") is not None and settings["seed"] != self.settings.get("seed"):
            before = self.settings.get("seed")
            raise ValueError(f"start was made with seed = {before}, and goes on with it: leave seed and rng out")
        if self.result.feasible is not None and all(values.ndim == 1 for values in self.values):
            raise ValueError("start: the values of its constraints were not stored; begin a new run with x0=start.x")
        if rounds <= len(self.history):
            raise ValueError(f"rounds is {rounds}, and start has made {len(self.history)} of them, which count")
        return self.seed


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def find_recording(start: Any, store: str | Path | None) -> Recording:
    """Of a result, or of a run in a file by its name or id.

    Raises:
        TypeError: it is none of these.
        ValueError: there is no such run, or nothing was recorded of it.
    """
    if isinstance(start, Result):
        found = getattr(start, "_recording", None)
        if not isinstance(found, Recording):
            raise ValueError(
                "start is a result without the values of its queries: give that of minimize itself, or the "
                "run's name and its store"
            )
        return found
    if isinstance(start, bool) or not isinstance(start, (str, int)):
        raise TypeError(f"start must be a result of minimize, or the name or id of a run in the store, got {start!r}")
    if store is None:
        raise ValueError(f"start names the run {start!r}: store must say in which file")
    with Store(store, create=False) as file:
        ids = [run.id for run in file.runs if start in (run.id, run.name) or start == str(run.id)]
        if not ids:
            raise ValueError(f"start: {file.path} has no run {start!r}; it has {_names(file)}")
        run = ids[-1]
        file.check(run)
        settings, result = file.study(run), file.result(run)
    with ValueTable(store) as table:
        walk, values = table.walk(run), table.read(run, len(result.queries_per_client))
    if result.rounds and not any(map(len, values)):
        raise ValueError(f"start: the values of run {run} were not stored; a study goes on with --resume")
    return Recording(settings, result, walk, values, run)


def _names(file: Store) -> str:
    names = [f"{run.id} ({run.name})" for run in file.runs]
    return ", ".join(names[-5:]) if names else "none"


class ValueTable(SqliteFile):
    """The values of runs in a file of runs.

    Args:
        path: the file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos.runs.recording import ValueTable
        >>> with ValueTable(Path(tempfile.mkdtemp()) / "runs.db") as table:
        ...     table.write(1, 1, [np.array([0.5, 0.25])])
        ...     table.write(1, 2, [np.array([0.125])])
        ...     table.read(1, clients=1)
        (array([0.5  , 0.25 , 0.125]),)
    """

    def __init__(self, path: str | Path) -> None:
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
            self._db.execute(ANSWERS)
        except sqlite3.Error as error:
            raise StoreError(f"{path} cannot be read as a file of runs: {error}") from None
        self._path = path

    def begin(self, run: int) -> None:
        """A new run: it has none, whatever a run of its id had that is gone."""
        self._db.execute("DELETE FROM answers WHERE run = ?", (run,))

    def write(self, run: int, round: int, values: Sequence[FloatArray]) -> None:
        """Store those of a round, of each client; once more: in place of what was there."""
        try:
            with closing(self._db.cursor()) as cursor:
                cursor.execute("BEGIN IMMEDIATE")
                rows = [(run, round, client, bytes_of(y)) for client, y in enumerate(values) if len(y)]
                wide = [(client, y.shape[1]) for client, y in enumerate(values) if len(y) and y.ndim == 2]
                rows += [(run, round, -1 - client, bytes_of(np.array([float(width)]))) for client, width in wide]
                cursor.execute("DELETE FROM answers WHERE run = ? AND round >= ?", (run, round))
                cursor.executemany("INSERT INTO answers VALUES (?, ?, ?, ?)", rows)
                cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"{self._path} cannot be written: {error}") from None

    def read(self, run: int, clients: int) -> tuple[FloatArray, ...]:
        """All of a run, of each client."""
        found: list[list[FloatArray]] = [[np.empty(0)] for _ in range(clients)]
        widths: dict[int, int] = {}  # of this round: its rows of negative clients come first
        for client, y in self._db.execute("SELECT client, y FROM answers WHERE run = ? ORDER BY round, client", (run,)):
            if client < 0:
                widths[-1 - client] = int(array_of(y)[0])
                continue
            width = widths.pop(client, 0)
            found[client].append(array_of(y).reshape(-1, width) if width else array_of(y))
        return tuple(join_answers(parts) for parts in found)

    def walk(self, run: int) -> tuple[FloatArray, ...]:
        """x after each round of a run."""
        rows = self._db.execute("SELECT x FROM rounds WHERE run = ? ORDER BY round", (run,))
        return tuple(array_of(row[0]) for row in rows)
