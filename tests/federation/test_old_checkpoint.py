"""A study that the last release left in the middle: this one takes it up and ends where that one would have.

The folders are of commit 753bf51: three sites of which two take part in a round, stopped before an update, with the run
that was not stopped in `expected.json`. "refreshed" is FZooS between the two exchanges of round 3, with an averaged
payload; "rebuilt" is HiSo before round 4, whose state has more in it than x.
"""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fault_jobs import CENTRES, Box
from wire import Wire

from fzoos import StoreError
from fzoos.federation.conductor import conduct
from fzoos.federation.study import Study

FOLDERS = Path(__file__).parent / "old_checkpoints"


def test_fzoos_without_settings_is_another_study(folder):
    """The same file means another algorithm today: nobody goes on with its numbers by mistake."""
    zipfile.ZipFile(FOLDERS / "refreshed.zip").extractall(folder)
    expected = json.loads((folder / "expected.json").read_text())
    assert expected["study"]["algorithm"] == {"name": "fzoos"}
    study = Study(**expected["study"])
    assert study.id != expected["id"]
    with (
        Wire(study, folder, [Box(centre) for centre in CENTRES]) as engine,
        pytest.raises(StoreError, match="another algorithm"),
    ):
        conduct(study, engine, folder / "result.db", resume=True)


@pytest.mark.parametrize("name", ["rebuilt"])
def test_its_checkpoint_is_taken_up(folder, name):
    """The same x, queries, bytes and steps of all rounds; on another machine but for the last digits."""
    zipfile.ZipFile(FOLDERS / f"{name}.zip").extractall(folder)
    expected = json.loads((folder / "expected.json").read_text())
    study = Study(**expected["study"])
    assert study.id == expected["id"]
    with Wire(study, folder, [Box(centre) for centre in CENTRES]) as engine:
        result = conduct(study, engine, folder / "result.db", resume=True)
    assert result.status == "completed"
    assert result.x == pytest.approx(np.array(expected["x"]), abs=1e-9)
    assert list(result.queries_per_client) == expected["queries"]
    assert [result.bytes_up, result.bytes_down] == expected["bytes"]
    assert [record.step for record in result.history] == pytest.approx(expected["steps"], abs=1e-9)
