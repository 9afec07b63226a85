"""What the pages say was measured is printed from the runs that lie in the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = "benchmarks/beyond/results"


def tables(text: str) -> list[list[str]]:
    """The rows of each Markdown table, head and rule first."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


@pytest.fixture(scope="module")
def printed() -> str:
    command = [sys.executable, "-m", "benchmarks.beyond", "all", "--images", "15", "--tables", "--runs", RESULTS]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_tables_of_beyond_are_printed_from_the_stored_runs(printed: str) -> None:
    known = set(printed.splitlines())
    measured = [rows for rows in tables((ROOT / "docs" / "beyond.md").read_text()) if known & set(rows[2:])]
    assert len(measured) >= 8
    assert not [row for rows in measured for row in rows[2:] if row not in known]


@pytest.mark.parametrize("words", ["180 of 180", "240 of 240", "320 of 320", "270 of 270", "110 of 110", "105 of 105"])
def test_no_stored_run_is_overlooked(printed: str, words: str) -> None:
    """A setting that gets another name must not hide what was measured with it."""
    assert f"{words} runs" in printed
