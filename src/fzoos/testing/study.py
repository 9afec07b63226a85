"""The small study on which engines and resumption are checked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.base import Algorithm
from fzoos.federation.journal import Journal, read_about, unseal
from fzoos.federation.study import Study
from fzoos.result import Result
from fzoos.testing.quick import as_table, make_quick

__all__ = [
    "SITES",
    "SiteObjective",
    "copy_seeds",
    "make_study",
    "objectives_of",
    "queried_points",
    "registered",
    "same_history",
    "temporary_folder",
]

SITES = ("site-1", "site-2", "site-3")
_CENTRES = dict(zip(SITES, (0.2, 0.45, 0.8), strict=True))


def make_study(algorithm: Algorithm, **changes: Any) -> Study:
    """Return a study of little cost: d = 2, three sites, three rounds, few local steps if there are any."""
    settings: dict[str, Any] = {"x0": 0.5, "dim": 2, "bounds": (0.0, 1.0), "sites": SITES, "rounds": 3, "seed": 5}
    settings |= {"retries": 0, "algorithm": as_table(make_quick(algorithm))}
    return Study("contract", **(settings | changes))


@dataclass(frozen=True)
class SiteObjective:
    """The objective of a site, which records its queries in SITE.asked and raises if the file SITE.raises exists.

    It needs nothing but two strings, so that another process can construct it.

    Args:
        site: the site's name.
        folder: the folder of its files.
    """

    site: str
    folder: str | Path

    def __call__(self, x: FloatArray) -> float:
        """Return the squared distance from the site's own centre."""
        with (Path(self.folder) / f"{self.site}.asked").open("ab") as file:
            file.write(x.astype("<f8").tobytes())
        if (Path(self.folder) / f"{self.site}.raises").exists():
            raise RuntimeError("there is no value today")
        return float(np.sum((x - _CENTRES[self.site]) ** 2))


def objectives_of(study: Study, folder: str | Path) -> list[SiteObjective]:
    """Return the objectives of a study's sites, which share a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return [SiteObjective(site, folder) for site in study.sites]


def queried_points(study: Study, folder: str | Path) -> list[list[list[float]]]:
    """Return, per site, the points at which its objective was queried."""
    files = [Path(folder) / f"{site}.asked" for site in study.sites]
    bodies = [file.read_bytes() if file.exists() else b"" for file in files]
    return [np.frombuffer(body, "<f8").reshape(-1, study.dim).tolist() for body in bodies]


def copy_seeds(study: Study, there: str | Path, here: str | Path) -> None:
    """Begin journals for a `LocalStudy` in the folder `here` with the secret seeds of the sites whose journals are in
    the folder `there`, so that both are the same run."""
    found = {about["site"]: unseal(about) for about in map(read_about, Path(there).rglob("*.journal"))}
    assert set(found) == set(study.sites), "the folder must hold a journal, *.journal, of each site"
    assert len(set(found.values())) == len(found), "each site must have a seed of its own"
    folder = Path(here) / "journals"
    folder.mkdir(parents=True, exist_ok=True)
    for site, seed in found.items():
        Journal(folder / f"{site}.journal", study.id, site, seed=seed).close()


def same_history(one: Result, two: Result) -> None:
    """Check that two runs are equal bit for bit, except for their seconds."""
    assert [replace(record, seconds=0.0) for record in one.history] == [
        replace(record, seconds=0.0) for record in two.history
    ]
    assert one.x.tobytes() == two.x.tobytes()
    assert one.status == two.status
    for name in ("queries_per_client", "bytes_up", "bytes_down"):
        assert getattr(one, name) == getattr(two, name), name


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create an empty folder for a `with` block; in memory where that is possible, since journals wait for the disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fzoos-", dir=memory) as name:
        yield Path(name)


@contextmanager
def registered(algorithm: Algorithm) -> Iterator[None]:
    """Register the algorithm for a `with` block, so that studies find it by its name."""
    before = dict(ALGORITHMS)
    ALGORITHMS[algorithm.name] = type(algorithm)
    try:
        yield
    finally:
        ALGORITHMS.clear()
        ALGORITHMS.update(before)
