"""One site of a study, its requests, and what its journal holds."""

import sqlite3
from contextlib import closing

import numpy as np
from fault_jobs import Box, logged, make_study

from fzoos.federation.site import StudySite
from fzoos.messages.message import Message

STUDY = make_study("scaffoldi", sites=("a",))  # T = 2, Q = 2: 6 queries in an update, 3 in a refresh
X = np.array([0.5, 0.25])
UPDATE = Message("update", 1, {"x": X})
REFRESH = Message("refresh", 2, {"x": X})
SECOND = Message("update", 2, {"c": np.zeros(2)})


def site(folder, objective=None, study=STUDY, **settings):
    box = objective or Box(0.2, folder / "a.log")
    return StudySite(study, 0, box, folder / "a.journal", **{"site_seed": study.seed} | settings)


def asked(folder):
    return len(logged(folder, "a"))


def queries(folder):
    with closing(sqlite3.connect(folder / "a.journal")) as db:
        return db.execute("SELECT x, y, error FROM queries ORDER BY id").fetchall()


def same(one, two):
    assert (one.kind, one.round, dict(one.scalars)) == (two.kind, two.round, dict(two.scalars))
    assert {name: a.tobytes() for name, a in one.arrays.items()} == {n: a.tobytes() for n, a in two.arrays.items()}
