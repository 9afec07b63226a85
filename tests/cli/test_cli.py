"""The command line: `fzoos compare`, `fzoos run`, one-line errors, Ctrl-C."""

import json
import re
import signal
import sys

import numpy as np
import pytest

from fzoos import FedZO, __version__, minimize
from fzoos.algorithms import ALGORITHMS
from fzoos_experiments.paper.figures import FIGURES
from fzoos_experiments.tasks import Quadratic

BRIEF = ["--dim", "4", "--clients", "2", "--rounds", "2"]
TOY = [*BRIEF, "--local-steps", "2"]
NO_TASK = "there is no task 'cubic'; choose from quadratic, ackley, levy, attack, metric, prompt"
PNG = b"\x89PNG\r\n\x1a\n"


def rows(table):
    """The cells of the printed table by algorithm."""
    cells = [[cell.strip() for cell in re.split("[│|]", line)[1:-1]] for line in table.splitlines()]
    return {row[0]: row[1:] for row in cells if len(row) == 7}


@pytest.mark.parametrize("words", [[], ["run"]], ids=str)
def test_help_has_plain_brackets(words, run_command) -> None:
    """Defaults stand in brackets, without the backslashes of a markup that is off."""
    text = run_command(*words, "--help")[1]
    assert "\\[" not in text
    assert not words or "[required]" in text or "[default: " in text


def test_version(fzoos):
    assert fzoos("--version") == (0, f"fzoos {__version__}\n", "")


def test_compare_runs_the_five_of_the_paper_and_the_default(fzoos, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, err = fzoos("compare", "levy", "--heterogeneity", "5", *TOY)
    assert code == 0
    labels = ["FedZO", "FedProx", "ScaffoldI", "ScaffoldII", "FZooS", "FedTrustRegion"]
    assert list(rows(out)) == labels
    plot = tmp_path / "fzoos-levy.png"
    assert out.endswith(f"plot: {plot}\n")
    assert plot.read_bytes().startswith(PNG)
    for label in labels:  # the last state of the progress bars
        assert re.search(rf"{label} .* 2/2 F .* queries .* MB", err)


def test_compare_shows_what_minimize_finds(fzoos):
    task = Quadratic(dim=4, clients=2, heterogeneity=3.0, seed=5)
    result = minimize(
        task.objectives, task.x0, bounds=task.bounds, algorithm=FedZO(local_steps=2), rounds=2, vectorized=True, seed=5
    )
    code, out, err = fzoos(
        "compare",
        "quadratic",
        *TOY,
        "--heterogeneity",
        3,
        "--seed",
        5,
        "--algorithms",
        "fedzo",
        "--quiet",
        "--workers",
        2,
    )
    value = task.value(result.x)
    # 2 clients, 2 rounds, 2 steps of 21 queries; bytes: d down, d and two scalars up
    expected = [f"{value:.4g}", f"{value - task.minimum:.3g}", "2", "168", f"{4 * 8 * (4 + 6)} bytes"]
    assert (code, err, rows(out)["FedZO"][:5]) == (0, "", expected)


def test_compare_without_matplotlib(fzoos, monkeypatch, tmp_path):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    code, out, _ = fzoos("compare", "quadratic", *TOY, "--algorithms", "fedzo")
    assert code == 0
    assert list(rows(out)) == ["FedZO"]
    assert out.splitlines()[-1] == 'no plot without matplotlib: pip install "fzoos[plot]"'
    assert not list(tmp_path.iterdir())


def test_run_prints_and_writes_the_result(fzoos, tmp_path):
    code, out, err = fzoos("run", "levy", *BRIEF, "--json", "r.json")
    assert code == 0
    assert "2/2" in err
    assert "FedTrustRegion on Levy(dim=4, clients=2, heterogeneity=5.0, seed=0, noise=0.0)" in out
    assert "completed: all 2 rounds are done" in out
    for word in ("F ", "queries ", "client 0", "bytes ", "up", "down", "seconds "):
        assert word in out
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["status"] == "completed"
    assert len(written["x"]) == 4
    assert [record["round"] for record in written["history"]] == [1, 2]
    assert written["queries"] == sum(written["queries_per_client"]) == written["history"][-1]["queries"]
    assert written["history"][0]["diagnostics"] == {}  # it has no correction whose length could be told


@pytest.mark.parametrize(("precision", "array"), [("float64", 32), ("float16", 10)])
def test_precision(fzoos, tmp_path, precision, array):
    """FedZO, d = 4, two clients, two rounds: x down; x, the count and the correction length up."""
    fzoos("run", "quadratic", *TOY, "--algorithm", "fedzo", "--precision", precision, "--json", "r.json")
    written = json.loads((tmp_path / "r.json").read_text())
    assert (written["bytes_down"], written["bytes_up"]) == (4 * array, 4 * (array + 16))
    arguments = ("--algorithms", "fedzo", "--precision", precision, "--json", "all.json")
    fzoos("compare", "quadratic", *TOY, *arguments)
    (compared,) = json.loads((tmp_path / "all.json").read_text())
    assert compared["x"] == written["x"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "cubic"], NO_TASK),
        (["run", "cubic"], NO_TASK),
        (
            ["compare", "quadratic", "--algorithms", "fedzo,sgd"],
            f"no algorithm 'sgd'; choose from {', '.join(ALGORITHMS)}",
        ),
        (["compare"], "TASK"),
        (["compare", "quadratic", "--rounds", "many"], "--rounds"),
        (["compare", "quadratic", "--rounds", "-1"], "--rounds"),
        (["compare", "quadratic", "--heterogeneity", "nan"], "heterogeneity"),
        (["compare", "quadratic", "--dim", "0"], "--dim"),
        (["compare", "quadratic", "--workers", "0"], "--workers"),
        (["compare", "quadratic", "--output", "missing/plot.png"], "missing/plot.png"),
        (["compare", "quadratic", "--output", "plot.doc"], "plot.doc"),
        (["run", "quadratic", "--json", "missing/r.json"], "missing/r.json"),
        (["compare", "quadratic", "--speed", "9"], "--speed"),
        (["run", "quadratic", "--precision", "half"], "precision must be one of float64, float32"),
        (["improve"], "improve"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(fzoos, arguments, words, tmp_path):
    code, out, err = fzoos(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("fzoos: ")
    assert words in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_unexpected_error_is_one_line(fzoos, monkeypatch):
    monkeypatch.setattr("fzoos.cli.trial.minimize", lambda *_, **__: {}["a\nb"])
    code, out, err = fzoos("run", "quadratic", *BRIEF, "--quiet")
    assert (code, out, err) == (1, "", "fzoos: KeyError: 'a\\nb'\n")


def interrupt_after(monkeypatch, rounds):
    """Ctrl-C while F is measured for the (rounds + 1)th time after a round."""
    true_value, calls = Quadratic.value, iter(range(10**6))

    def value(self, x):
        if "rounds.py" in sys._getframe(2).f_code.co_filename and next(calls) == rounds:
            signal.raise_signal(signal.SIGINT)
        return true_value(self, x)

    monkeypatch.setattr(Quadratic, "value", value)


def test_ctrl_c_keeps_what_is_done(fzoos, monkeypatch, tmp_path):
    interrupt_after(monkeypatch, 3)
    code, out, err = fzoos("compare", "quadratic", *TOY)
    assert code == 130
    assert list(rows(out)) == ["FedZO", "FedProx"]
    assert rows(out)["FedZO"][2] == "2"
    assert rows(out)["FedProx"][2] == "1"
    assert err.splitlines()[-1].startswith("fzoos: interrupted")
    assert "Traceback" not in err
    assert (tmp_path / "fzoos-quadratic.png").exists()


def test_a_failing_objective_keeps_what_is_done(fzoos, monkeypatch):
    """With C this large the values overflow: the run fails, its table is shown, and the error is one line."""
    with np.errstate(all="ignore"):
        code, out, err = fzoos("compare", "quadratic", *TOY, "--heterogeneity", "1e308", "--quiet")
    assert code == 1
    assert list(rows(out)) == ["FedZO"]
    assert err.startswith("fzoos: objective of client")
    assert err.count("\n") == 1


# fzoos reproduce


def test_reproduce_lists_the_figures(fzoos):
    code, out, _ = fzoos("reproduce", "--list")
    assert code == 0
    for name in (*FIGURES, "theory"):
        assert name in out
    assert "?" not in out  # how long each takes is known


def test_reproduce_makes_a_figure(fzoos, tmp_path):
    code, out, err = fzoos("reproduce", "fig4", "--quick", "--seeds", 1, "--output", "here", "--quiet")
    assert (code, err) == (0, "")
    assert str(tmp_path / "here" / "fig4") in out.replace("\n", "")
    assert {path.name for path in (tmp_path / "here" / "fig4").iterdir()} >= {"fig4.png", "fig4.pdf", "curves.csv"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "fig99"], "there is no figure 'fig99'; choose from fig1, fig2"),
        (["reproduce", "fig1", "--device", "abacus"], "device must be cpu or cuda, got 'abacus'"),
        (["reproduce", "fig3", "--device", "cuda:99"], "device is 'cuda:99' but PyTorch finds"),
        (["reproduce", "fig1", "--seeds", "0"], "--seeds"),
        (["reproduce", "fig1", "--jobs", "0"], "--jobs"),
    ],
)
def test_reproduce_errors_are_one_line(fzoos, arguments, words):
    code, _, err = fzoos(*arguments)
    assert code == 2
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_reproduce_interrupted(fzoos, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fzoos_experiments.paper.runner.execute", interrupted)
    code, _, err = fzoos("reproduce", "fig1", "--quick")
    assert code == 130
    assert "complete runs are stored in results; the same command continues" in err


def test_local_steps_of_algorithms_that_have_none(fzoos):
    """One line that names the option and the algorithms, and no run."""
    for words in (
        ("run", "quadratic", "--algorithm", "auto"),
        ("compare", "quadratic", "--algorithms", "auto,fedlbfgs"),
    ):
        code, _, err = fzoos(*words, "--local-steps", 5)
        assert code == 2
        assert "--local-steps is 5, but these algorithms have no local steps: Auto" in err
        assert "Traceback" not in err
