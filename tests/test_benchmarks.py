"""What the pages say was measured is printed from the runs that lie in the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks import simplicity
from benchmarks.beyond import constraints
from benchmarks.beyond.constraints_problems import PROBLEMS
from benchmarks.beyond.fair import ablation, switches
from benchmarks.beyond.fair.switches import replaced
from scipy.optimize import minimize as scipy_minimize

from fzoos.algorithms.line_search import server
from fzoos.algorithms.trust_region import client as region

ROOT = Path(__file__).parents[1]
BEYOND = ROOT / "docs" / "beyond.md"


@pytest.mark.parametrize("command", [ablation, constraints])
def test_the_tables_of_beyond_are_printed_from_the_stored_runs(command, capsys) -> None:
    name = {ablation: "ablation", constraints: "constraints"}[command]
    assert command.main(["--tables"]) == 0
    expected = capsys.readouterr().out.partition("\n\nMade by:")[0]
    _, mark, rest = BEYOND.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    assert mark
    assert rest.partition(f"<!-- end of {name} -->")[0].strip() == expected


def test_a_switch_is_put_back_even_after_an_error() -> None:
    before, method = server._SIMILAR, region.RegionClient._power
    switch = replaced({(server, "_SIMILAR"): 7.0, (region.RegionClient, "_power"): None})
    switch.__enter__()
    assert before != server._SIMILAR
    assert switch.__exit__(KeyError, KeyError(), None) is False
    assert before == server._SIMILAR
    assert region.RegionClient._power is method


def test_what_is_switched_off_is_still_there() -> None:
    """A constant that gets another name would make the ablation fail, not lie."""
    for changes in (switches.MANY | switches.FEW).values():
        assert all(hasattr(where, name) for where, name in changes)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_known_optimum_is_feasible_has_the_known_value_and_nothing_near_is_better(name: str) -> None:
    problem = PROBLEMS[name]
    best = np.array(problem.optimum)
    assert problem.violation(best) <= 1e-9
    assert abs(problem.gap(best)) <= 1e-9
    size = np.abs(best) + 1.0  # SLSQP needs variables of like size
    limits = [{"type": "ineq", "fun": lambda u, c=c: -c(size * u)} for those in problem.constraints for c in those]
    box = np.array(problem.box) / size[:, None]
    begin = np.clip(1.01 * best / size, *box.T)
    found = scipy_minimize(
        lambda u: problem.gap(size * u), begin, method="SLSQP", bounds=box, constraints=limits, tol=1e-12
    )
    assert problem.violation(size * found.x) <= 1e-6
    assert abs(found.fun) <= 1e-6


def test_simplicity_counts_what_a_tree_contains(tmp_path: Path) -> None:
    """Numbers counted by hand: 5 of the 10 lines of base.py are code, and two modules import each other."""
    texts = {
        "src/fzoos/algorithms/base.py": "# a comment\n\nfrom fzoos import loop\nclass Algorithm:\n"
        '    """One\n    two."""\n    name: ClassVar[str]\n    def client(self): ...\n\n    def __init__(self): ...\n',
        "src/fzoos/loop.py": "from fzoos.algorithms import base\nhalf.steered, half.votes\nhalf.rounds\n",
        "tests/test_loop.py": "def test_a(): ...\nclass B:\n    def test_b(self): ...\ndef helper(): ...\n",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert simplicity.sizes(tmp_path) == {
        "src/fzoos": "2 / 13 / 8",
        "  algorithms": "1 / 10 / 5",
        "  (top level)": "1 / 3 / 3",
        "src/fzoos_experiments": "0 / 0 / 0",
        "tests": "1 / 4 / 4",
        "benchmarks": "0 / 0 / 0",
    }
    assert list(simplicity.members(tmp_path).values()) == ["1 + 1", "0 + 0", "0 + 0", 1]
    assert list(simplicity.questions(tmp_path).values()) == ["1 in 1 files, 0"]
    assert simplicity.tests(tmp_path, collect=False) == {"test functions": 2}
    assert list(simplicity.cycles(tmp_path).values()) == ["2"]
