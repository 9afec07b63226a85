"""A study with differential privacy, its objectives, and what is kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fzoos.federation.journal import Journal
from fzoos.federation.privacy import Privacy, sent
from fzoos.federation.study import Study
from fzoos.messages.message import Message
from fzoos.runs.store import Store

SITES = ("a", "b", "c")
NOISY = {"clip": 0.1, "noise": 2.0}
QUIET = 1e-9  # a noise that leaves nine digits of what was clipped


def study(**changes: Any) -> Study:
    settings: dict[str, Any] = {
        "name": "private",
        "x0": 0.8,
        "dim": 3,
        "bounds": (-1.0, 1.0),
        "sites": SITES,
        "rounds": 3,
        "algorithm": {"name": "fedzo", "local_steps": 2, "differences": {"count": 2}},
        "privacy": NOISY,
    }
    return Study(**(settings | changes))


class Box:
    """An objective that counts its calls."""

    def __init__(self, centre: float) -> None:
        self.centre, self.calls = centre, 0

    def __call__(self, x: np.ndarray) -> float:
        self.calls += 1
        return float(np.sum((x - self.centre) ** 2))


def boxes() -> list[Box]:
    return [Box(centre) for centre in (-0.3, 0.1, 0.5)]


def payload(array: np.ndarray, **settings: float) -> np.ndarray:
    """A payload array as it leaves."""
    reply = Message("payload", 2, {"c": array}, {"queries": 1})
    return Privacy(**settings).protect(reply, np.zeros(1)).arrays["c"]


def extra(path: Path) -> dict[str, Any]:
    with Store(path, create=False) as store:
        assert store.last is not None
        return store.extra(store.last)


def told(folder: Path, ours: Study, site: str) -> int:
    """What a site's own journal says it has sent."""
    with Journal(folder / "journals" / f"{site}.journal", ours.id, site) as journal:
        return sent(journal, ours)
