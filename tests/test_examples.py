"""DESIGN style 8: every example runs as a user runs it, and prints what it says it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, folder: Path) -> str:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())  # an example leaves nothing behind
    return done.stdout


def quickstart(printed: str) -> None:
    assert "completed: all 20 rounds are done" in printed
    assert "mean of x: 0.50" in printed  # (0.2 + 0.6 + 0.7) / 3


def budget_and_failures(printed: str) -> None:
    small, large = re.findall(r"budget (\d+): (\w+), .*\n  F = ([\d.]+) with (\d+) queries", printed)
    assert small[1] == "budget"
    assert int(small[3]) <= 1000
    assert large[1] == "stopped"
    assert int(large[3]) <= 20_000
    assert float(large[2]) <= 0.03 < float(small[2])  # the smallest possible is (0.2^2 + 0 + 0.2^2) / 3


def own_settings(printed: str) -> None:
    reached = dict(re.findall(r"^(\w.*?) +F = +([-\d.]+) after", printed, re.MULTILINE))
    assert len(reached) == 6
    start, smallest = map(float, re.findall(r"F at x0: ([\d.]+), smallest: ([-\d.]+)", printed)[0])
    assert smallest < float(reached["FZooS"]) < float(reached["FedZO"]) < start


def program(printed):
    """Nelder and Mead's simplex on the same three programs ends at 1.974 and 0.404."""
    assert "completed: all 8 rounds are done" in printed
    stiffness, damping = map(float, re.findall(r"stiffness ([\d.]+), damping ([\d.]+)", printed)[0])
    assert abs(stiffness - 1.974) < 0.1
    assert abs(damping - 0.404) < 0.05


CHECKS = {
    "quickstart.py": quickstart,
    "budget_and_failures.py": budget_and_failures,
    "own_settings.py": own_settings,
    "program.py": program,
}


def test_every_example_is_checked():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_example(name, tmp_path):
    CHECKS[name](run(name, tmp_path))


@pytest.mark.parametrize("name", CHECKS)
def test_examples_are_short(name):
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 60
