"""The fair comparison: equal tries and queries for all, and a page that is printed from stored runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from benchmarks.beyond.fair import compare, moved, price, tune
from benchmarks.beyond.fair.entrants import OURS, RIVALS, TRIES
from benchmarks.beyond.fair.pooled import METHODS, solve
from benchmarks.beyond.fair.problems import ROWS
from benchmarks.beyond.fair.problems_few import SmallProblem
from benchmarks.beyond.fair.stored import FOLDER, Stored

PAGE = Path(__file__).parents[1] / "docs" / "rivals.md"


def bowls() -> SmallProblem:
    """F(x) = mean of |x - c_i|^2: with c = 0.3 and 0.5 in three dimensions |x - 0.4|^2 + 3 * 0.01."""
    objectives = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (0.3, 0.5)]
    return SmallProblem(objectives, np.full(3, 0.9), 0.03)


def test_everybody_has_the_same_number_of_tries():
    assert {label: len({entrant.words for entrant in tries}) for label, tries in RIVALS.items()} == dict.fromkeys(
        RIVALS, TRIES
    )


@pytest.mark.parametrize("command", [tune, compare, moved, price])
def test_the_page_is_printed_from_what_is_kept(command, capsys):
    name = {tune: "tune", compare: "rivals", moved: "moved", price: "price"}[command]
    assert command.main(["--tables"]) == 0
    printed = capsys.readouterr().out.partition("\n\nMade by:")[0]
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    assert rest.partition(f"<!-- end of {name} -->")[0].strip() == printed


def test_rivals_were_run_with_what_tune_chose_and_kept_to_the_budget():
    tuned, stored = Stored(FOLDER / "tune.jsonl"), Stored(FOLDER / "rivals.jsonl")
    for problem in ROWS:
        budget = ROWS[problem](1).budget
        for label in (*RIVALS, OURS):
            line = stored.get(problem, label)
            if line is None and label == OURS:  # to be made again whenever it changes
                continue
            assert line is not None
            ends = [trace[-1][0] for trace in line["traces"].values()]
            assert len(ends) == len(compare.SEEDS)
            assert max(ends) <= budget * (1.0 if label == OURS else tune.SLACK)
            if label != OURS:
                chosen = tune.chosen(tuned, problem, label)
                assert chosen is not None
                assert line["settings"] == chosen.words


@pytest.mark.parametrize("label", METHODS)
def test_pooled_methods_find_the_bottom_of_a_bowl(label):
    for package, name in (("nlopt", "BOBYQA"), ("nevergrad", "NGOpt"), ("cma", "CMA-ES")):
        if name in label and find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install fzoos[bench]")
    assert solve(METHODS[label], bowls(), 150, 1, vectorized=False) < 1e-2
