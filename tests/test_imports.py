"""What `import fzoos` and the command line do not load: SciPy's parts, rich's displays and all extras.

Seconds are measured by `python -m benchmarks.speed.imports`, never here.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fzoos

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
HELP = "from fzoos.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"


def loaded_by(code: str) -> set[str]:
    code += "\nimport sys\nprint('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import fzoos", ["typer", "fzoos.cli", "fzoos.tasks", "fzoos.experiments"]),
        (HELP, ["fzoos.experiments.reproduce"]),
    ],
    ids=["import fzoos", "fzoos --help"],
)
def test_what_takes_long_to_load_is_loaded_when_it_is_needed(code: str, absent: list[str]) -> None:
    found = loaded_by(code)
    assert {"fzoos", "numpy"} <= found
    assert not found & {*PARTS, *DISPLAYS, *EXTRAS, *absent}


def test_a_run_loads_what_it_needs() -> None:
    """The list above would be worth nothing if these modules were never used."""
    run = "import fzoos\nfzoos.minimize(lambda x: float(x @ x), [0.5] * 3, bounds=(-1, 1), rounds=3, progress=True)"
    assert {"scipy.linalg", "scipy.optimize", *DISPLAYS} <= loaded_by(run)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_blas_of_scipy_is_found_though_it_is_loaded_late(threads: str) -> None:
    """SciPy brings a BLAS of its own: it must be there when the libraries are listed whose threads are limited."""
    code = (
        "from fzoos._util.blas import one_blas_thread\n"
        "from threadpoolctl import threadpool_info\n"
        "with one_blas_thread():\n"
        "    import scipy.linalg, scipy.optimize\n"
        "    print({pool['num_threads'] for pool in threadpool_info() if pool['user_api'] == 'blas'})\n"
    )
    environment = {"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{1}"


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_scipy_is_imported_as_a_whole(path: Path) -> None:
    """`import scipy`, then `scipy.linalg.orth` where it is used, which loads that part: one way for all modules."""
    named = [
        node.module
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("scipy.")
    ]
    assert not named
