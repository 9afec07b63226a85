"""`fzoos run mymodule:objectives`: the user's own."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from fzoos import load
from fzoos.cli.app import main
from fzoos.cli.problems import own_problem

MODULE = """
import numpy as np
from scipy.optimize import Bounds
from fzoos import Integer, Log, Space

asked = []

def site(centre):
    def f(x):
        asked.append(centre)
        return float(np.sum((x - centre) ** 2))
    return f

bounds = [(-1, 1)] * 3
x0 = [0.5, 0.5, 0.5]
objectives = [site(0.2), site(0.4)]
single = site(0.1)
empty = []

def made():
    return objectives

def problem():
    return {"objectives": objectives, "bounds": Bounds([-1, 0], [1, 2]), "weights": [1, 3]}

class Tuning:
    space = Space(rate=Log(1e-5, 1e-1), depth=Integer(1, 13))
    objectives = [lambda rate, depth: (np.log10(rate) + 2.5) ** 2 + (depth - 5) ** 2 / 30]

tuning = Tuning()

def fails():
    return [lambda x: 1 / 0]
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine_own.py").write_text(MODULE)
    (tmp_path / "open_own.py").write_text("objectives = [lambda x: float(x @ x)]\n")
    (tmp_path / "pair_own.py").write_text("objectives = [lambda x: float(x @ x)]\nbounds = (-1, 3)\n")
    (tmp_path / "lacks_own.py").write_text("import a_module_that_is_not_there\n")
    yield
    for name in [name for name in sys.modules if name.endswith("_own")]:
        del sys.modules[name]


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--quiet"])
    return ended.value.code


@pytest.mark.parametrize("name", ["mine_own:objectives", "mine_own:made", "mine_own.py:objectives"])
def test_objectives_run_and_f_is_known(module, name, capsys):
    """F is the sum of what clients share: nothing is asked beside the queries that are counted."""
    assert run("run", name, "--rounds", "5", "--store", "runs.db") == 0
    result, asked = load("runs.db"), sys.modules["mine_own"].asked
    assert result.queries == len(asked)
    assert result.x == pytest.approx([0.3] * 3, abs=0.02)
    assert result.fun == pytest.approx(0.03, abs=1e-3)
    out = capsys.readouterr().out
    assert f"FedTrustRegion on {name} (d = 3, N = 2)" in out
    assert "F        0.03" in out


def test_named_variables_are_printed(module, capsys):
    assert run("run", "mine_own:tuning", "--rounds", "12") == 0
    out = capsys.readouterr().out
    assert re.search(r"^values   .*depth = 5$", out, re.MULTILINE)
    assert re.search(r"^values   .*rate = 0.003", out, re.MULTILINE)


def test_without_x0_it_begins_in_the_middle_of_the_bounds(module):
    problem = own_problem("mine_own:problem", None)(3)
    assert problem.x0.tolist() == [0.0, 1.0]
    assert problem.arguments()["weights"] == [1, 3]
    assert (problem.seed, problem.dim, problem.clients) == (3, 2, 2)
    assert own_problem("pair_own:objectives", 4)(0).x0.tolist() == [1.0] * 4
    assert own_problem("mine_own:tuning", None)(0).x0.tolist() == pytest.approx([1e-3, 7.0])


def test_algorithms_are_compared(module, capsys):
    pytest.importorskip("matplotlib")
    words = ["--algorithms", "fzoos,fedzo", "--rounds", "2", "--json", "out.json"]
    assert run("compare", "mine_own:objectives", *words) == 0
    out = capsys.readouterr().out
    assert "best F" in out
    assert "fzoos-mine_own-objectives.png" in out
    outcomes = json.loads(Path("out.json").read_text())
    assert [outcome["start"] for outcome in outcomes] == [None, None]
    assert outcomes[0]["history"][-1]["monitor"] < 0.1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mine_own:"], "own objectives are MODULE:NAME"),
        (["mine_own:nothing"], "mine_own has no 'nothing'; it has np, "),
        (["mine_own:bounds"], "mine_own:bounds must be a list of functions, one for each client"),
        (["mine_own:empty"], "mine_own:empty must be a list of functions"),
        (["nowhere_own:objectives"], "there is no module 'nowhere_own' here"),
        (["nowhere_own.py:objectives"], "there is no file nowhere_own.py"),
        (["open_own:objectives"], "open_own has no bounds: a pair (lower, upper), d pairs, or a Space"),
        (["pair_own:objectives"], "pair_own has no x0, and its bounds do not determine a start"),
        (["lacks_own:objectives"], "No module named 'a_module_that_is_not_there'"),
        (["mine_own:objectives", "--dim", "4"], "--dim is 4, but x0 of mine_own has 3 values"),
        (["mine_own:objectives", "--noise", "1"], "mine_own:objectives has no --noise; its options are --dim"),
    ],
)
def test_what_is_missing_is_one_line(module, words, message, capsys):
    assert run("run", *words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_file_is_not_taken_for_the_module_of_its_name(module, capsys, monkeypatch):
    """Nor the other way round: whoever imports colorsys later gets Python's, though nothing has loaded it before."""
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    Path("colorsys.py").write_text(MODULE)
    assert run("run", "colorsys.py:objectives") == 2
    assert "colorsys.py has the name of another module" in capsys.readouterr().err
    assert hasattr(sys.modules["colorsys"], "hsv_to_rgb")
