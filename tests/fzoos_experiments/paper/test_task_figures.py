"""The figures of the attack and metric tasks, at toy size, from archives to files: `fzoos reproduce FIGURE --quick`.

Everything is real save the data, which are generated, the recipes of the clients' models, which are for so few
images, and the number of images attacked. One folder of results serves all tests: a test that changes results works on
a copy.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

from fzoos import FedZO
from fzoos.cli import main
from fzoos.objectives.evaluator import Evaluator
from fzoos_experiments.paper import runner
from fzoos_experiments.paper.figures import Figure, Line, Panel, Scale, make
from fzoos_experiments.paper.reproduce import reproduce
from fzoos_experiments.paper.run import Run
from fzoos_experiments.paper.runner import execute
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import _build, build
from fzoos_experiments.tasks import classifier, clients
from fzoos_experiments.tasks.attack import DATASETS
from fzoos_experiments.tasks.data import data_digest, load_covtype
from fzoos_experiments.tasks.models import Recipe

TOY = {
    "mnist": Recipe("cnn", width=8, epochs=8, batch=8, learning_rate=3e-3, min_accuracy=0.3),
    "cifar10": Recipe("resnet18", width=2, epochs=4, batch=8, learning_rate=2e-2, min_accuracy=0.25),
}
IMAGES = 2
LINES = ("FedZO", "FedProx", "ScaffoldI", "ScaffoldII", "FZooS, nearest 150", "FedLineSearch (Auto)")
ATTACKS = {  # titles of the panels and their T
    "fig7": {"T = 5": 5},
    "fig8": {"P = 0.7, T = 5": 5, "P = 0.7, T = 10": 10},
}
METRICS = {
    "fig3": {"P = 0.3, T = 10": 10},
    "fig9": {"P = 0.3, T = 5": 5},
    "fig12": {"P = 0.3, T = 10": 10, "P = 0.3, T = 5": 5},
}
NAMES = {"fig3": "precision", "fig9": "precision", "fig12": "jaccard"}

Finished = Callable[[str], Path]


@pytest.fixture(scope="module", autouse=True)
def toy_world(toy_archives, tmp_path_factory) -> Iterator[None]:
    """Data, cache and recipes, for all tests of this file; no task of another file is taken for one of these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FZOOS_DATA", str(toy_archives))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for name, recipe in TOY.items():
            patch.setitem(DATASETS, name, replace(DATASETS[name], quick=recipe))
        pick = Scale.pick
        patch.setattr(Scale, "pick", lambda self, *both: IMAGES if both == (15, 3) else pick(self, *both))
        _build.cache_clear()
        yield
    _build.cache_clear()


def command(name: str, output: Path, *more: object, rounds: int = 1, samples: int = 700) -> int:
    """`fzoos reproduce NAME` at toy size; its exit code."""
    size = ["--quick", "--seeds", 1, "--rounds", rounds, "--samples", samples]
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in ("reproduce", name, *size, "--output", output, "--quiet", *more)])
    return int(end.value.code or 0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Finished:
    """The results folder in which a figure has been made, without interruption."""
    results, made = tmp_path_factory.mktemp("results"), set()

    def folder(name: str) -> Path:
        if name not in made:
            assert command(name, results) == 0
            made.add(name)
        return results

    return folder


@pytest.fixture
def copy(finished, tmp_path) -> Finished:
    """A copy of the results folder in which a figure has been made."""
    return lambda name: Path(shutil.copytree(finished(name), tmp_path / "results"))


@pytest.fixture
def runs_made(monkeypatch) -> list[Run]:
    """The runs that are made from here on."""
    made, original = [], Run.__call__
    monkeypatch.setattr(Run, "__call__", lambda self, progress: made.append(self) or original(self, progress))
    return made


def table(folder: Path) -> list[dict[str, str]]:
    with open(folder / "curves.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def curve(rows: list[dict[str, str]], panel: str, line: str, column: str) -> list[float]:
    return [float(row[column]) for row in rows if (row["panel"], row["line"]) == (panel, line)]


def check_files(folder: Path, name: str, *further: str) -> None:
    pictures = {f"{name}{which}.{kind}" for which in ("", "-companion") for kind in ("png", "pdf")}
    assert {path.name for path in folder.iterdir()} == {*pictures, "curves.csv", "settings.json", *further}


def check_plots(folder: Path, name: str, lines: int) -> None:
    """The plots of one picture, with so many lines."""
    pixels = np.rint(255 * imread(folder / f"{name}.png")[..., :3]).astype(np.int64)
    colourful = pixels[np.ptp(pixels, axis=2) > 60]  # text, axes and grid are grey
    counts = np.unique(colourful @ [65536, 256, 1], return_counts=True)[1]
    assert np.count_nonzero(counts > 150) >= lines  # each line has its colour, at least in the legend
    assert counts.max() > 1500  # and there are lines, which lie on top of each other where nothing happens in a round
    pdf = (folder / f"{name}.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert re.search(rb"/Type\s*/Page\b", pdf)


def records(runs: Path) -> list[dict[str, Any]]:
    """The stored records of a folder."""
    return [json.loads(line) for line in (runs / "runs.jsonl").read_text(encoding="utf-8").splitlines()]


def check_settings(folder: Path, name: str, runs: Path, count: int) -> list[dict[str, Any]]:
    """Every run that the settings name is stored with those settings: a curve can be traced to its runs."""
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert settings["figure"] == name
    dataset = "covtype" if name in METRICS else "mnist" if name == "fig8" else "cifar10"
    assert settings["data"] == {dataset: data_digest(dataset)}
    assert {"python", "numpy", "torch"} <= settings["made_with"][0].keys()
    named = [run for p in settings["panels"] for line in p["lines"] for seed in line["runs"] for run in seed]
    stored = [record["settings"] for record in records(runs)]
    assert len(named) == count
    assert all(run in stored for run in named)
    return named


def check_axes(rows: list[dict[str, str]], panels: dict[str, int], clients: int) -> None:
    """One curve per panel and algorithm, rounds 0 and 1."""
    assert {row["panel"] for row in rows} == set(panels)
    assert len(rows) == len(panels) * len(LINES) * 2
    for panel, steps in panels.items():
        assert tuple(dict.fromkeys(row["line"] for row in rows if row["panel"] == panel)) == LINES
        for line in LINES:
            assert curve(rows, panel, line, "round") == [0, 1]
            assert curve(rows, panel, line, "seed") == [0, 0]
            queries = curve(rows, panel, line, "queries")
            assert queries[0] == 0 < queries[1]
        # Each client makes T steps of Q + 1 = 21 queries.
        assert curve(rows, panel, "FedZO", "queries") == [0, clients * steps * 21]


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_figures_end_to_end(name, finished):
    results = finished(name)
    check_files(results / name, name, "table.md")
    rows = table(results / name)
    check_axes(rows, ATTACKS[name], clients=10)
    for row in rows:
        assert 0.0 <= float(row["success"]) <= float(row["weak"]) <= 1.0  # F < 0 is the weaker rule
        assert IMAGES * float(row["success"]) in range(IMAGES + 1)
        assert row["round"] != "0" or float(row["success"]) == 0.0  # images are drawn among those not fooled yet
    check_plots(results / name, name, len(LINES) - 1)  # the paper's five
    check_plots(results / name, f"{name}-companion", len(LINES))
    check_settings(results / name, name, results / "runs", count=len(ATTACKS[name]) * len(LINES) * IMAGES)


@pytest.mark.parametrize("name", METRICS)
def test_metric_figures_end_to_end(name, finished):
    results = finished(name)
    check_files(results / name, name)
    rows = table(results / name)
    check_axes(rows, METRICS[name], clients=7)
    for row in rows:
        assert 0.0 <= float(row["F"]) <= 1.0
        assert float(row["percent"]) == pytest.approx(100.0 * float(row["F"]))
    for panel in METRICS[name]:
        starts = {curve(rows, panel, line, "F")[0] for line in LINES}
        assert len(starts) == 1  # all algorithms start from the same classifier
        ends = {curve(rows, panel, line, "F")[1] for line in LINES}
        assert ends != starts
    check_plots(results / name, name, len(LINES) - 1)
    check_plots(results / name, f"{name}-companion", len(LINES))
    named = check_settings(results / name, name, results / "runs", count=len(METRICS[name]) * len(LINES))
    assert {dict(run["task"]["settings"])["metric"] for run in named} == {NAMES[name]}


def test_a_curve_ends_where_all_images_are_attacked(tmp_path):
    """The image nearest to being misclassified is attacked before the last round: run and curve end there."""
    task = make("fig8", Scale(quick=True)).runs[0].task
    attacks = build(task)
    nearest = min(range(len(attacks)), key=lambda i: attacks[i].margin(attacks[i].x0))
    run = Run(task, FedZO(local_steps=20), rounds=15, seed=0, image=nearest)
    figure = Figure("fig8", "one image", "success", (Panel("one", (Line("FedZO", ((run,),)),)),))
    rows = table(reproduce(figure, tmp_path))
    measured = Store(tmp_path / "runs").load(run)
    reached = len(measured) - 1
    assert 0 < reached < 15
    assert [row["margin"] < 0 for row in measured] == [False] * reached + [True]
    assert curve(rows, "one", "FedZO", "success") == [0.0] * reached + [1.0]
    # Ten clients, 20 steps of 21 queries each.
    assert curve(rows, "one", "FedZO", "queries") == [10 * 20 * 21 * r for r in range(reached + 1)]


@pytest.mark.parametrize("name", ["fig7"])
def test_a_second_call_makes_no_run_and_trains_nothing(name, copy, monkeypatch):
    results = copy(name)
    before = (results / name / "curves.csv").read_bytes()
    shutil.rmtree(results / name)
    monkeypatch.setattr(Run, "__call__", lambda *_: pytest.fail("a run was made again"))
    for module in (clients, classifier):
        monkeypatch.setattr(module, "train", lambda *_, **__: pytest.fail("a model was trained again"))
    assert command(name, results) == 0
    assert (results / name / "curves.csv").read_bytes() == before


# FedZO comes first and queries N T times in a run (here T = 5): ten clients make 50, the metric's seven make 35.
@pytest.mark.parametrize(("name", "at", "kept"), [("fig9", 50, 1)])
def test_an_interrupted_figure_continues_and_has_the_same_result(
    name, at, kept, finished, tmp_path, monkeypatch, capsys, runs_made
):
    """Ctrl-C within a query: runs finished by then are stored, the others are made later."""
    expected = (finished(name) / name / "curves.csv").read_bytes()
    count = len(make(name, Scale(quick=True, seeds=1, rounds=1, samples=700)).runs)
    queried, original = [], Evaluator.evaluate

    def interrupted(self, *arguments, **named):
        queried.append(self)
        if len(queried) == at:
            raise KeyboardInterrupt
        return original(self, *arguments, **named)

    monkeypatch.setattr(Evaluator, "evaluate", interrupted)
    runs_made.clear()
    capsys.readouterr()
    assert command(name, tmp_path) == 130
    assert "complete runs are stored in" in capsys.readouterr().err
    assert len(records(tmp_path / "runs")) == kept == len(runs_made) - 1
    assert not (tmp_path / name).exists()
    runs_made.clear()
    assert command(name, tmp_path) == 0
    assert len(runs_made) == count - kept
    assert (tmp_path / name / "curves.csv").read_bytes() == expected


def other_covertype(folder: Path, x: np.ndarray, y: np.ndarray) -> str:
    """A folder for $FZOOS_DATA with these rows in place of the other tests'."""
    folder.mkdir()
    np.savez(folder / "covtype.npz", X=x, y=y)
    return str(folder)


def test_changed_data_are_not_mixed_in(copy, toy_archives, tmp_path, monkeypatch, runs_made, capsys):
    """Into one folder: the same settings on other rows, then on the first rows again. What was made stays."""
    results = copy("fig9")
    first = (results / "fig9" / "curves.csv").read_bytes()
    before = records(results / "runs")
    rows = load_covtype(toy_archives)
    monkeypatch.setenv("FZOOS_DATA", other_covertype(tmp_path / "other", rows.x[::-1], rows.y[::-1]))
    runs_made.clear()
    assert command("fig9", results, "--partial") == 2
    assert "no line of fig9 is finished yet" in capsys.readouterr().err
    assert command("fig9", results) == 0
    assert len(runs_made) == len(LINES)
    assert (results / "fig9" / "curves.csv").read_bytes() != first
    named = json.loads((results / "fig9" / "settings.json").read_text())["data"]
    assert named == {"covtype": data_digest("covtype", tmp_path / "other")}
    assert records(results / "runs")[: len(before)] == before
    monkeypatch.setenv("FZOOS_DATA", str(toy_archives))
    runs_made.clear()
    assert command("fig9", results) == 0
    assert not runs_made
    assert (results / "fig9" / "curves.csv").read_bytes() == first


@pytest.mark.parametrize("name", ["fig9"])
def test_a_finished_figure_is_drawn_without_data(name, copy, tmp_path, monkeypatch, runs_made):
    """Partial or not: the runs are there, so that nothing is looked up, trained or downloaded."""
    results = copy(name)
    first = (results / name / "curves.csv").read_bytes()
    monkeypatch.setenv("FZOOS_DATA", str(tmp_path / "nothing"))
    runs_made.clear()
    for more in ((), ("--partial",)):
        shutil.rmtree(results / name)
        assert command(name, results, *more) == 0
        assert (results / name / "curves.csv").read_bytes() == first
    assert not runs_made


@pytest.mark.parametrize("jobs", [2])
def test_the_classifier_is_trained_once_and_before_the_runs(jobs, tmp_path, monkeypatch, capsys):
    """With its progress and accuracy on standard error, whoever makes the runs."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    _build.cache_clear()
    found = []
    models = cache / "fzoos" / "models"
    monkeypatch.setattr(runner, "results_of", lambda *_: found.append(len(list(models.iterdir()))) or ())
    figure = make("fig10", Scale(quick=True, seeds=3, rounds=1, samples=700))
    capsys.readouterr()
    execute(figure.runs, tmp_path / "runs", jobs)
    assert found == [1]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "training" in printed.err
    assert "100/100" in printed.err
    assert len(re.findall(r"classifier: accuracy 0\.\d+ on the half it was not trained on", printed.err)) == 1
    _build.cache_clear()
