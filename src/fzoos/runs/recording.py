"""What a run of `minimize` is resumed from: its settings, its seed and the values of its queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.result import Record, Result

__all__ = ["Recording", "describe_seed", "find_recording"]

_CHANGEABLE = ("rounds", "seed", "entropy")  # settings that may differ when a run is resumed


@dataclass(frozen=True)
class Recording:
    """A run that can be repeated without a query."""

    settings: Mapping[str, Any]  # what it was started with, as a file of runs has them
    result: Result  # its result
    points: tuple[FloatArray, ...]  # x after each round
    values: tuple[FloatArray, ...]  # of each client's queries in their order, as `join_stored` has them
    run: int | None = None  # its id, if it is in a file

    @property
    def history(self) -> tuple[Record, ...]:
        """Return the records of the rounds so far."""
        return self.result.history

    @property
    def unanswered(self) -> list[int]:
        """Queries per client that were counted and have no value."""
        pairs = zip(self.result.queries_per_client, self.values, strict=True)
        return [max(0, counted - len(values)) for counted, values in pairs]

    @property
    def seed(self) -> np.random.SeedSequence:
        """The seed from which all randomness of the run comes."""
        known = self.settings.get("entropy")
        if known is None:
            return np.random.SeedSequence(self.settings["seed"])
        entropy = [int(word) for word in known["entropy"]]
        return np.random.SeedSequence(entropy[0] if known["plain"] else entropy, spawn_key=tuple(known["spawn_key"]))

    def attach_to(self, result: Result) -> Result:
        """Return the result with this recording in it: not as a field, so that tables and files leave it out."""
        object.__setattr__(result, "_recording", self)
        return result

    def check_resumable(self, settings: Mapping[str, Any], rounds: int, clients: int) -> None:
        """Raise a ValueError unless the run can be resumed with these settings."""
        if clients != len(self.values):
            raise ValueError(f"the run to resume has {len(self.values)} clients, but there are {clients} objectives")
        for name in {**self.settings, **settings}:
            before, now = (json.loads(json.dumps(some.get(name))) for some in (self.settings, settings))
            if name not in _CHANGEABLE and before != now:
                raise ValueError(f"resume: the run was started with {name} = {before}, not {now}")
        before = self.settings.get("seed")
        if settings.get("seed") not in (None, before):
            raise ValueError(f"resume: the run has seed = {before}: leave seed and rng out")
        if rounds <= len(self.history):
            raise ValueError(
                f"rounds is {rounds}, but the run to resume has {len(self.history)} rounds already, which count"
            )


def describe_seed(seed: np.random.SeedSequence) -> dict[str, Any]:
    """A seed as it is stored among the settings; `Recording.seed` is the way back."""
    plain = isinstance(seed.entropy, int)
    words = [seed.entropy] if plain else seed.entropy or ()
    return {"entropy": [str(word) for word in words], "plain": plain, "spawn_key": list(seed.spawn_key)}  # type: ignore[union-attr]


def find_recording(resume: Any, store: str | Path | None) -> Recording:
    """The recording in a result, or of a run in a file by its name or id.

    Raises:
        TypeError: `resume` is none of these.
        ValueError: there is no such run, or nothing was recorded of it.
    """
    if isinstance(resume, Result):
        found = getattr(resume, "_recording", None)
        if not isinstance(found, Recording):
            raise ValueError(
                "resume is a result without the values of its queries: give the result that minimize returned, or the "
                "run's name and its store"
            )
        return found
    if isinstance(resume, bool) or not isinstance(resume, (str, int)):
        raise TypeError(f"resume must be a result of minimize, or the name or id of a run in the store, got {resume!r}")
    if store is None:
        raise ValueError(f"resume names the run {resume!r}: store must say in which file")
    return _stored(resume, store)


def _stored(resume: str | int, store: str | Path) -> Recording:
    from fzoos.runs.store import Store  # here, because SQLite is slow to load and most runs have no file

    with Store(store, create=False) as file:
        runs = file.runs
        ids = [run.id for run in runs if resume in (run.id, run.name) or resume == str(run.id)]
        if not ids:
            names = ", ".join(f"{run.id} ({run.name})" for run in runs[-5:]) or "none"
            raise ValueError(f"resume: {file.path} has no run {resume!r}; it has {names}")
        run = ids[-1]
        file.check(run)
        settings, result, values = file.settings(run), file.result(run), file.values(run)
        points = tuple(file.x_after_rounds(run).values())[1:]
    if result.rounds and not any(map(len, values)):
        raise ValueError(f"resume: the values of run {run} were not stored; a study is resumed with --resume")
    return Recording(settings, result, points, values, run)
