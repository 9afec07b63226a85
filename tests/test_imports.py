"""What `import fzoos`, the command line, a program's process and a run do not load.

Seconds are measured by `python -m benchmarks.speed.imports`, never here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fzoos
from fzoos.cli.app import COMMANDS, load_command

ROOT = Path(fzoos.__file__).parent
PARTS = ["scipy.fft", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats"]
DISPLAYS = ["rich.console", "rich.progress", "rich.table"]
EXTRAS = [
    "matplotlib",
    "torch",
    "sklearn",
    "pandas",
    "nvflare",
    "flwr",
    "starlette",
    "uvicorn",
    "dp_accounting",
    "dask",
]
RARE = ["sqlite3", "multiprocessing", "concurrent.futures.process", "tomllib", "importlib.metadata", "secrets"]
LIGHT = {"fzoos", "fzoos._util", "fzoos._util.lazy_package"}
COMMAND_LINE = {f"fzoos.cli{name}" for name in ("", ".app", ".exit_codes", ".help")}


def loaded_by(code: str) -> set[str]:
    code += "\nimport sys\nprint('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


def of_fzoos(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "fzoos"}


def fzoos_with(*words: str) -> str:
    return f"from fzoos.cli import main\ntry:\n    main({list(words)!r})\nexcept SystemExit:\n    pass"


def completed(words: str) -> str:
    asked = {"_FZOOS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
    return f"import os\nos.environ.update({asked!r})\n{fzoos_with()}"


def test_import_fzoos_loads_nothing_of_it() -> None:
    found = loaded_by("import fzoos")
    assert of_fzoos(found) == LIGHT
    assert not found & {"numpy", "scipy", "typer", "dataclasses", *RARE}


@pytest.mark.parametrize(
    "code", [fzoos_with("--help"), fzoos_with("--version"), completed("fzoos ")], ids=["help", "version", "completion"]
)
def test_the_list_of_commands_loads_no_command(code: str) -> None:
    found = loaded_by(code)
    assert of_fzoos(found) == LIGHT | COMMAND_LINE
    assert not found & {"numpy", "scipy"}  # what typer loads is its own affair


def test_the_list_of_commands_says_what_they_say() -> None:
    """The sentence in the list is the first one of the command's own help."""
    assert {name: load_command(name).get_short_help_str(1000) for name in COMMANDS} == {
        name: sentence for name, (_, sentence) in COMMANDS.items()
    }


def test_a_program_loads_what_answers_requests() -> None:
    """Each site's objective in a process of its own pays this."""
    found = loaded_by("import fzoos.objectives.serve")
    needed = {"objectives", "objectives.guard", "objectives.serve", "objectives.values"}
    assert of_fzoos(found) == LIGHT | {f"fzoos.{name}" for name in needed}
    assert not found & {"scipy", "dataclasses", "array_api_compat", "threadpoolctl", *RARE} - loaded_by("import numpy")


def test_minimize_loads_neither_files_nor_processes_nor_other_algorithms() -> None:
    found = loaded_by("from fzoos import minimize")
    rooms = ["algorithms.fedzo", "algorithms.fzoos", "runs.store", "federation.study", "federation.site"]
    rooms += ["objectives.program", "objectives.process_workers", "engines.local_study", "cli"]
    assert not found & {*(f"fzoos.{room}" for room in rooms), "fzoos_experiments"}
    assert not found & {*PARTS, *DISPLAYS, *EXTRAS, *RARE, "typer"} - loaded_by("import numpy, scipy")


LEAST = (
    "from fzoos.algorithms.trust_region.minimizers import lbfgsb_point\n"
    "lbfgsb_point(lambda t: (float(t @ t), 2.0 * t), __import__('numpy').ones(1), [(-1.0, 1.0)])"
)
RUN = "import fzoos\nfzoos.minimize(lambda x: float(x @ x), [0.5] * 3, bounds=(-1, 1), rounds=3"


@pytest.mark.parametrize(
    ("code", "present"),
    [
        (f"{RUN}, progress=True)", ["scipy.linalg", *DISPLAYS]),
        (LEAST, ["scipy.optimize"]),
        (f"{RUN}, store='runs.db')", ["sqlite3", "fzoos.runs.store"]),
        (f"{RUN}, algorithm=fzoos.FZooS(features=50))", ["fzoos.algorithms.fzoos"]),
        (f"{RUN}, workers=2)", ["fzoos.objectives.process_workers"]),
        (
            fzoos_with("run", "levy", "--dim", "2", "--rounds", "1", "-q"),
            ["fzoos.algorithms.fedzo", "fzoos_experiments.tasks"],
        ),
    ],
    ids=["progress", "constraints", "store", "paper", "workers", "run"],
)
def test_a_run_loads_what_it_needs(
    code: str, present: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists above would be worth nothing if these modules were never used."""
    monkeypatch.chdir(tmp_path)
    assert set(present) <= loaded_by(code)


def test_the_blas_of_scipy_is_found_though_it_is_loaded_late() -> None:
    """SciPy brings a BLAS of its own: it must be there when the libraries are listed whose threads are limited."""
    code = (
        "from fzoos._util.blas import one_blas_thread\n"
        "from threadpoolctl import threadpool_info\n"
        "with one_blas_thread():\n"
        "    import scipy.linalg, scipy.optimize\n"
        "    print({pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas'})\n"
    )
    environment = {"OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{1}"
