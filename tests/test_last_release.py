"""Runs, journals and studies that release 0.1.0 made: they open, and they go on (data/release-0.1.0/make.py)."""

from __future__ import annotations

import json
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import fzoos
from fzoos import Study
from fzoos.cli import main
from fzoos.engines import LocalStudy
from fzoos.runs.export import export
from fzoos.runs.reader import read, runs_at

pytestmark = pytest.mark.filterwarnings("ignore:.*the old name goes with the next release:FutureWarning")

DATA = Path(__file__).parent / "data" / "release-0.1.0"
EXPECTED = json.loads((DATA / "expected.json").read_text())
BOXES = [lambda x, c=c: float(((x - c) ** 2).sum()) for c in (0.2, -0.4)]
UNFINISHED = ("fedzo", "scaffold1", "fzoos")
SAME = {"rel": 0.0, "abs": 1e-9}  # bit for bit on the machine that made them; others round differently


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(DATA / "artefacts.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def open_study(folder: Path) -> Study:
    """The study; what is named in an old way is said to be."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study = Study.load(folder / "study.toml")
    words = [str(warning.message) for warning in caught if warning.category is FutureWarning]
    if folder.name == "scaffold1":
        assert words == ["the algorithm 'scaffold1' is now 'scaffoldi'; the old name goes with the next release"]
    return study


def test_runs_of_minimize(old: Path) -> None:
    runs = runs_at(old / "runs.db")
    assert [(run.name, run.status, run.rounds) for run in runs] == [
        ("FedZO", "completed", 3),
        ("FZooS", "completed", 3),
    ]
    for run, expected in zip(runs, EXPECTED["runs.db"], strict=True):
        result = fzoos.load(old / "runs.db", run.id)
        assert result.x.tolist() == expected["x"]
        assert (result.queries, result.rounds) == (expected["queries"], 3)
        assert result.history[-1].monitor == expected["monitor"]


def test_a_finished_study(old: Path) -> None:
    result = fzoos.load(old / "finished")
    assert (result.status, result.x.tolist()) == ("completed", EXPECTED["finished"]["x"])
    study = open_study(old / "finished")
    assert study.id == EXPECTED["finished"]["id"]
    again = LocalStudy(study, old / "finished", [unasked, unasked]).run(resume=True)
    assert (again.status, again.x.tolist()) == ("completed", EXPECTED["finished"]["x"])


def unasked(x: np.ndarray) -> float:
    raise AssertionError("asked")


@pytest.mark.parametrize("name", UNFINISHED)
def test_an_unfinished_study_goes_on(old: Path, name: str) -> None:
    """To the x and the number of queries of a run of the old code that nobody interrupted."""
    study, expected = open_study(old / name), EXPECTED[name]
    assert study.id == expected["id"]
    before = fzoos.load(old / name)
    assert (before.status, before.rounds) == ("interrupted", 2)
    result = LocalStudy(study, old / name, BOXES).run(resume=True)
    assert (result.status, result.rounds) == ("completed", expected["rounds"])
    assert result.x == pytest.approx(expected["x"], **SAME)
    assert list(result.queries_per_client) == expected["queries"]
    assert result.history[:2] == before.history


@pytest.mark.parametrize("name", UNFINISHED)
def test_the_journals_of_a_study_whose_server_has_lost_its_file(old: Path, name: str) -> None:
    """Nothing is asked again that is in the journals."""
    study = open_study(old / name)
    (old / name / "result.db").unlink()
    asked = [0, 0]

    def counted(i: int):
        def objective(x: np.ndarray) -> float:
            asked[i] += 1
            return BOXES[i](x)

        return objective

    result = LocalStudy(study, old / name, [counted(0), counted(1)]).run()
    assert result.x == pytest.approx(EXPECTED[name]["x"], **SAME)
    assert sum(asked) < sum(EXPECTED[name]["queries"]) / 2 + 2


@pytest.mark.parametrize("name", ["runs.db", "finished", *UNFINISHED])
def test_commands(old: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """list, show, export and compare-runs, in words and as JSON."""
    path = str(old / name)
    for words in (["list", path], ["list", path, "--json"], ["show", path], ["show", path, "--json"]):
        assert call(words) == 0
    assert call(["compare-runs", path, str(old / "runs.db:1")]) == 0
    assert "completed" in capsys.readouterr().out
    for suffix in (".csv", ".json", ".parquet"):
        file = old / f"exported{suffix}"
        export(read(path), file)
        assert file.stat().st_size > 100
    assert len((old / "exported.csv").read_text().splitlines()) == 1 + read(path).result.rounds
    assert call(["export", path, "--output", str(old / "again.csv")]) == 0
    assert call(["report", path, "--output", str(old / "report.html")]) == 0


def call(words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_the_command_that_goes_on_with_a_study(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = old / "scaffold1"
    (folder / "site").mkdir()
    (folder / "site" / "objective.py").write_text(
        'import os\nCENTRE = {"a": 0.2, "b": -0.4}[os.environ["SITE"]]\n'
        "def objective(x):\n    return float(((x - CENTRE) ** 2).sum())\n"
    )
    with pytest.warns(FutureWarning, match="'scaffold1' is now 'scaffoldi'"):
        assert call(["study", str(folder), "--resume", "--quiet"]) == 0
    assert fzoos.load(folder).x == pytest.approx(EXPECTED["scaffold1"]["x"], **SAME)
