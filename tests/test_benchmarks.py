"""What the pages say was measured is printed from the runs that lie in the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.beyond.fair import ablation, compare, price, switches
from benchmarks.beyond.fair.race import race
from benchmarks.beyond.fair.switches import replaced

from fzoos.algorithms.fzoos import region, server

ROOT = Path(__file__).parents[1]
RESULTS = "benchmarks/beyond/results"
BEYOND = ROOT / "docs" / "beyond.md"


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, "-m", "benchmarks.beyond", "all", "--images", "15", "--tables", "--runs", RESULTS]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", [compare, price, ablation])
def test_the_tables_of_beyond_are_printed_from_the_stored_runs(command, capsys) -> None:
    name = {compare: "rivals", price: "price", ablation: "ablation"}[command]
    assert command.main(["--tables"]) == 0
    expected = capsys.readouterr().out.partition("\n\nMade by:")[0]
    _, mark, rest = BEYOND.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    assert mark
    assert rest.partition(f"<!-- end of {name} -->")[0].strip() == expected


@pytest.mark.parametrize("words", ["320 of 320", "270 of 270", "110 of 110", "157 of 170"])
def test_no_stored_run_is_overlooked(printed: str, words: str) -> None:
    """A setting that gets another name must not hide what was measured with it."""
    assert f"{words} runs" in printed


def test_a_switch_is_put_back_even_after_an_error() -> None:
    before, method = server._ALIKE, region.RegionClient._power
    switch = replaced({(server, "_ALIKE"): 7.0, (region.RegionClient, "_power"): None})
    switch.__enter__()
    assert before != server._ALIKE
    assert switch.__exit__(KeyError, KeyError(), None) is False
    assert before == server._ALIKE
    assert region.RegionClient._power is method


@pytest.mark.parametrize("label", ["FZooS()", "DANE's correction alone", "a random direction"])
def test_switches_change_the_run(label: str) -> None:
    instance = ablation.ROWS_FEW["rosenbrock-terms"](101)
    usual = race(instance, None, 101, 60, vectorized=False)
    with replaced(switches.FEW[label]):
        changed = race(instance, None, 101, 60, vectorized=False)
    assert (changed == usual) == (label == "FZooS()")


def test_what_is_switched_off_is_still_there() -> None:
    """A constant that gets another name would make the ablation fail, not lie."""
    for changes in (switches.MANY | switches.FEW).values():
        assert all(hasattr(where, name) for where, name in changes)
