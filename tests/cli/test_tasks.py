"""The paper's tasks with data on the command line: `fzoos run attack`, `fzoos compare metric`, ..."""

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fzoos import FedZO, minimize
from fzoos.cli import problems
from fzoos.cli.options import DATASET_NAMES, METRIC_NAMES, TASK_NAMES
from fzoos_experiments.paper import task_spec
from fzoos_experiments.tasks.scores import SCORES

PNG = b"\x89PNG\r\n\x1a\n"
SHORT = ["--rounds", "2", "--local-steps", "2"]


@pytest.fixture(autouse=True)
def world(tmp_path_factory, monkeypatch):
    """An empty cache, no $FZOOS_DATA, and no task that another test has built."""
    monkeypatch.delenv("FZOOS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    task_spec._build.cache_clear()
    yield
    task_spec._build.cache_clear()


@pytest.fixture
def data(tmp_path_factory, monkeypatch):
    """A folder of small archives that are easy to learn, and recipes and sizes to match."""
    pytest.importorskip("torch")
    from fzoos_experiments.tasks.attack import DATASETS
    from fzoos_experiments.tasks.models import Recipe

    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    arrays = {}
    for name, n in (("train", 300), ("test", 60)):
        y = np.arange(n) % 10
        x = rng.integers(0, 30, (n, 28, 28))
        x[np.arange(n), 2 * y] += 100  # one bright row for each class
        arrays |= {f"x_{name}": x.astype(np.uint8), f"y_{name}": y.astype(np.uint8)}
    np.savez(folder / "mnist.npz", **arrays)
    y = rng.integers(0, 7, 700)
    x = rng.integers(0, 2, (700, 54))
    x[np.arange(700), y] += 3
    np.savez(folder / "covtype.npz", X=x.astype(np.int16), y=(y + 1).astype(np.uint8))
    recipe = Recipe("cnn", width=4, epochs=6, batch=8, learning_rate=3e-3, min_accuracy=0.3)
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], quick=recipe))
    monkeypatch.setattr(problems, "_ROWS", 700)
    return folder


@pytest.fixture
def no_network(monkeypatch):
    datasets = pytest.importorskip("sklearn.datasets")

    def fetch(*_, **__):
        raise OSError("no\nnetwork")

    monkeypatch.setattr(datasets, "fetch_openml", fetch)
    monkeypatch.setattr(datasets, "fetch_covtype", fetch)


def cells(table):
    """The cells of the printed table by algorithm, and its headings."""
    rows = [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in table.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 7}


def test_the_names_are_those_of_the_tasks():
    pytest.importorskip("torch")
    from fzoos_experiments.tasks.attack import DATASETS

    assert tuple(DATASETS) == DATASET_NAMES
    assert tuple(SCORES) == METRIC_NAMES
    assert tuple(problems._OPTIONS) == TASK_NAMES


# Attacks


def test_an_attack_reports_what_minimize_finds(fzoos, data, tmp_path):
    words = ["--data", data, "--clients", "3", "--portion", "0.5", "--seed", "1", "--algorithm", "fedzo"]
    code, out, err = fzoos("run", "attack", *SHORT, *words, "--json", "r.json", "--store", "runs.db")
    assert code == 0
    assert "FedZO on Attack(dataset='mnist', portion=0.5, clients=3, image=1)\n" in out
    assert "client 2: accuracy" in err  # the training is shown
    assert "margin " in err
    from fzoos_experiments.tasks.attack import DATASETS, Attacks

    images = DATASETS["mnist"].load(data)
    task = Attacks("mnist", 0.5, images=2, clients=3, recipe=DATASETS["mnist"].quick, data=images)[1]
    result = minimize(
        task.objectives, task.x0, bounds=task.bounds, algorithm=FedZO(local_steps=2), rounds=2, vectorized=True,
        monitor=task.margin, callback=lambda record: record.monitor < 0, seed=1,
    )  # fmt: skip
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["x"] == result.x.tolist()
    assert written["start"] == task.margin(task.x0)
    assert written["attacked"] == task.attacked(result.x)
    assert f"margin   {task.margin(result.x):.6g} (at x0 {task.margin(task.x0):.6g})\n" in out
    assert "FedZO attack mnist P=0.5 d=784 N=3" in fzoos("list", "runs.db")[1]


# Metrics


def test_a_metric_reports_f(fzoos, data, tmp_path):
    words = ["--data", data, "--metric", "recall", "--portion", "1", "--algorithms", "fedzo", "--seeds", "2"]
    code, out, err = fzoos("compare", "metric", *SHORT, *words, "--json", "all.json")
    assert code == 0
    assert "metric: recall, P = 1, d = 2189, N = 7, T = 2, mean of 2 seeds" in " ".join(out.split())
    assert err.count("classifier: accuracy") == 1  # it is the same for all seeds
    outcomes = json.loads((tmp_path / "all.json").read_text())
    reached = [outcome["history"][-1]["monitor"] for outcome in outcomes]
    assert all(0.0 <= value <= 1.0 for value in reached)
    assert cells(out)["FedZO"][0] == f"{np.mean(reached):.4g}"
    assert [re.search(r"seed=(\d)", outcome["task"])[1] for outcome in outcomes] == ["0", "1"]


# The data


@pytest.mark.parametrize(
    ("words", "file"),
    [(["attack"], "mnist.npz"), (["attack", "--dataset", "cifar10"], "cifar10_test.npz"), (["metric"], "covtype.npz")],
    ids=["mnist", "cifar10", "covtype"],
)
@pytest.mark.parametrize("named", [True, False])
def test_missing_data_are_one_line(fzoos, no_network, words, file, named, tmp_path):
    pytest.importorskip("torch")
    code, out, err = fzoos("run", *words, *(["--data", tmp_path] if named else []))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert file in err
    assert str(Path(os.environ["XDG_CACHE_HOME"]) / "fzoos" / "data") in err
    assert not named or str(tmp_path) in err
    assert "give the folder that has it with --data FOLDER or $FZOOS_DATA" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", ["attack", "metric"])
def test_without_torch_the_extra_is_named(fzoos, monkeypatch, task):
    for name in [name for name in sys.modules if name.startswith("fzoos_experiments.tasks.")]:
        if name.split(".")[2] in ("attack", "metric", "clients", "classifier", "models", "fused", "mlp_fused"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = fzoos("run", task)
    assert (code, err) == (2, "fzoos: this task needs PyTorch: pip install 'fzoos[tasks]'\n")


def test_without_scikit_learn_the_extra_is_named(fzoos, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    code, _, err = fzoos("run", "metric")
    assert code == 2
    assert err.count("\n") == 1
    assert "without scikit-learn (pip install 'fzoos[tasks]')" in err
    assert "--data FOLDER" in err


# Options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["attack", "--dataset", "svhn"], "--dataset must be one of mnist, cifar10, got 'svhn'"),
        (["metric", "--metric", "auc"], "--metric must be one of precision, recall, f1, jaccard, got 'auc'"),
        (["attack", "--portion", "0"], "--portion must be above 0 and at most 1, got 0"),
        (["attack", "--clients", "0"], "--clients"),
        (["attack", "--data", "nowhere"], "--data: there is no folder nowhere"),
        (["attack", "--dim", "3"], "attack has no --dim; its options are --dataset, --portion, --split, --clients"),
        (["quadratic", "--portion", "0.5"], "quadratic has no --portion; its options are --dim, --clients"),
        (["mymodule:objectives", "--clients", "3"], "mymodule:objectives has no --clients; its options are --dim"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_are_one_line(fzoos, words, message, tmp_path):
    code, out, err = fzoos("compare", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not list(tmp_path.iterdir())
