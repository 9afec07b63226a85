"""A study that the last release left in the middle, of an algorithm that is another one in this release.

The folders are of commit 753bf51: three sites of which two take part in a round, stopped before an update, with the run
that was not stopped in `expected.json`. "refreshed" is FZooS between the two exchanges of round 3, with an averaged
payload; "rebuilt" is HiSo before round 4, whose state has more in it than x.
"""

import json
import zipfile
from pathlib import Path

import pytest
from fault_jobs import CENTRES, Box
from wire import Wire

from fzoos import StoreError
from fzoos.federation.conductor import conduct
from fzoos.federation.study import Study

FOLDERS = Path(__file__).parent / "old_checkpoints"


@pytest.mark.parametrize(("name", "algorithm"), [("refreshed", "fzoos"), ("rebuilt", "hiso")])
def test_the_same_name_is_another_study(folder, name, algorithm):
    """The same file means other numbers today: nobody goes on with the old ones by mistake."""
    zipfile.ZipFile(FOLDERS / f"{name}.zip").extractall(folder)
    expected = json.loads((folder / "expected.json").read_text())
    assert expected["study"]["algorithm"]["name"] == algorithm
    study = Study(**expected["study"])
    assert study.id != expected["id"]
    with Wire(study, folder, [Box(centre) for centre in CENTRES]) as engine, pytest.raises(StoreError, match="another"):
        conduct(study, engine, folder / "result.db", resume=True)
