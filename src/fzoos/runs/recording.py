"""What a run of `minimize` can be made again from, and go on: its settings, its seed, and the values of its queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.result import Record, Result

if TYPE_CHECKING:
    from fzoos.runs.store import Store

__all__ = ["Recording", "find_recording"]

_CHANGES = ("rounds", "seed", "entropy")  # settings with which a run may go on that had others


@dataclass(frozen=True)
class Recording:
    """A run that can be made again without asking anything.

    Args:
        settings: with which it was made, as a file of runs has them.
        result: what it left.
        walk: x after each round.
        values: of each client's queries, in their order, with constraints as `join_stored` has them.
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
    return _stored(start, store)


def _stored(start: str | int, store: str | Path) -> Recording:
    from fzoos.runs.store import Store  # here, as SQLite is slow to load and most runs have no file
    from fzoos.runs.value_table import ValueTable

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
