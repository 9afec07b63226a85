"""The fair comparison: as many tries for all, equal queries, and a page that is printed from what is kept."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from benchmarks.beyond.fair import compare, moved, price, tune
from benchmarks.beyond.fair.command import Given, put
from benchmarks.beyond.fair.entrants import OURS, RIVALS, TRIES
from benchmarks.beyond.fair.kept import FOLDER, Kept
from benchmarks.beyond.fair.pooled import METHODS, Pooled, Spent, solve
from benchmarks.beyond.fair.problems import ROWS
from benchmarks.beyond.fair.problems_few import SmallProblem
from benchmarks.beyond.fair.race import race, within

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
    tuned, kept = Kept(FOLDER / "tune.jsonl"), Kept(FOLDER / "rivals.jsonl")
    for problem in ROWS:
        budget = ROWS[problem](1).budget
        for label in (*RIVALS, OURS):
            line = kept.get(problem, label)
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


def test_the_least_mean_is_chosen(tmp_path):
    kept = Kept(tmp_path / "tune.jsonl")
    words = [entrant.words for entrant in RIVALS["FedZO"]]
    tries = [{"settings": w, "queries": 1, "values": [2.0, v]} for w, v in zip(words, (3.0, 1.0, 2.0), strict=False)]
    kept.put("levy-5", "FedZO", "by hand", tries=tries)
    again = tune.chosen(Kept(tmp_path / "tune.jsonl"), "levy-5", "FedZO")  # what is kept is found again
    assert again is not None
    assert again.words == words[1]
    assert tune.chosen(kept, "levy-5", "FedCMA") is None


def test_a_run_keeps_to_its_queries():
    """FedZO: two clients, T = 10, Q + 1 = 21, so 420 queries a round; 1,000 are two rounds."""
    zo = next(t for t in RIVALS["FedZO"] if t.words == "SGD(0.1), difference 0.01")
    trace = race(bowls(), zo, 0, 1_000, vectorized=False)
    assert [queries for queries, _ in trace] == [0, 420, 840]
    assert trace[0][1] == pytest.approx(3 * 0.25)  # |0.9 - 0.4|^2 in each of three dimensions
    assert trace[-1][1] < trace[0][1]
    assert within(trace, 800) == trace[1]
    ours = race(bowls(), None, 0, 200, vectorized=False)
    assert ours[-1][0] <= 200


def test_pooled_values_are_counted():
    """The mean of the clients' functions, and the best is where the least value was seen, not the least F - F*."""
    pooled = Pooled(bowls(), 2, vectorized=False)
    assert pooled(np.full(3, 0.5)) == pytest.approx(3 * 0.02)  # (0.04 + 0) / 2 in each dimension
    pooled(np.full(3, 0.4))
    assert pooled.best == pytest.approx(0.0, abs=1e-15)
    with pytest.raises(Spent):
        pooled(np.zeros(3))


@pytest.mark.parametrize("label", METHODS)
def test_pooled_methods_find_the_bottom_of_a_bowl(label):
    for package, name in (("nlopt", "BOBYQA"), ("nevergrad", "NGOpt"), ("cma", "CMA-ES")):
        if name in label and find_spec(package) is None:
            pytest.skip(f"needs {package}: pip install fzoos[bench]")
    assert solve(METHODS[label], bowls(), 150, 1, vectorized=False) < 1e-2


def test_only_makes_runs_again_and_nothing_else():
    given = Given("fedlinesearch", tables=False, runs=FOLDER, page=None)
    assert given.wants("levy-5: FedLineSearch", {})
    assert not given.wants("levy-5: FedZO", None)
    everything = Given(None, tables=False, runs=FOLDER, page=None)
    assert everything.wants("levy-5: FedZO", None)
    assert not everything.wants("levy-5: FedZO", {})


def test_a_table_is_put_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- tune -->\nold\n<!-- end of tune -->\nb\n")
    put(page, "tune", "new")
    assert page.read_text() == "a\n<!-- tune -->\n\nnew\n\n<!-- end of tune -->\nb\n"
    with pytest.raises(SystemExit, match="no place"):
        put(page, "price", "new")


def test_no_kept_file_is_large():
    for path in FOLDER.iterdir():
        assert path.stat().st_size < 500_000
        for line in path.read_text(encoding="utf-8").splitlines():
            assert {"problem", "label", "made"} <= set(json.loads(line))
