"""Flipped bits in a file of runs: a result is the one that was written, or there is none."""

import random
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import fzoos
from fzoos.engines import LocalStudy
from fzoos.federation.study import Study
from fzoos.runs.store import StoreError

STUDY = Study(
    "demo",
    x0=0.5,
    dim=2,
    bounds=(0, 1),
    sites=("a", "b"),
    rounds=4,
    algorithm={"name": "fedzo", "local_steps": 1, "differences": {"count": 2}},
)


@pytest.fixture
def folder(tmp_path):
    LocalStudy(STUDY, tmp_path, [lambda x: float(x @ x)] * 2).run()
    with closing(sqlite3.connect(tmp_path / "result.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA journal_mode = DELETE")
    return tmp_path


def test_flipped_bits(folder):
    """150 of them, one at a time: never a wrong number, never an error of another kind."""
    whole, path = fzoos.load(folder), folder / "result.db"
    body, rng, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(150):
        data = bytearray(body)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        for file in folder.glob("result.db*"):
            file.unlink()
        path.write_bytes(data)
        try:
            found = fzoos.load(folder)
        except StoreError:
            refused += 1
            continue
        assert np.array_equal(found.x, whole.x)
        assert found.history == whole.history
        assert (found.message, found.status, found.queries) == (whole.message, whole.status, whole.queries)
    assert refused > 5


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE rounds SET step = step + 1e-9 WHERE round = 2", "round 2 of run 1"),
        ("UPDATE runs SET message = 'better'", "run 1"),
        ("DELETE FROM rounds WHERE round = 3", "round 3 of run 1"),
        ("DELETE FROM rounds WHERE round = 4", "round 4 of run 1"),
        ("UPDATE runs SET rounds = 3", "run 1"),
    ],
)
def test_a_changed_row_is_named(folder, change, named):
    """When it is loaded, and before it is resumed."""
    with closing(sqlite3.connect(folder / "result.db")) as db, db:
        db.execute(change)
    with pytest.raises(StoreError, match=f"is damaged: {named} is not what was written"):
        fzoos.load(folder)
    with pytest.raises(StoreError, match="is not what was written"):
        LocalStudy(STUDY, folder, [lambda x: float(x @ x)] * 2).run(resume=True)
