"""The names of `fzoos` and of its packages: loaded when they are first used, and otherwise as ordinary imports are."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import fzoos

ROOT = Path(fzoos.__file__).parent
FILES = [path for path in sorted(ROOT.rglob("__init__.py")) if "load_on_use(" in path.read_text(encoding="utf-8")]
PACKAGES = [".".join(("fzoos", *path.parent.relative_to(ROOT).parts)) for path in FILES]


def in_a_new_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)


def test_every_name_is_the_object_of_its_module() -> None:
    for package in map(importlib.import_module, PACKAGES):
        for found, place in package._places.items():
            assert getattr(package, found) is getattr(importlib.import_module(place), found)


@pytest.mark.parametrize(
    "first",
    [
        "import fzoos.minimize",
        "import fzoos.cli.trial",
        "import threading; all = [threading.Thread(target=lambda: __import__('fzoos').minimize) for _ in range(8)]; "
        "[t.start() for t in all]; [t.join() for t in all]",
    ],
)
def test_minimize_is_the_function_whoever_loads_its_module(first: str) -> None:
    code = f"{first}\nimport fzoos, inspect, sys\nfrom fzoos import minimize\n"
    code += "assert inspect.isfunction(minimize) and fzoos.minimize is minimize\n"
    code += "assert sys.modules['fzoos.minimize'].minimize is minimize"
    done = in_a_new_process(code)
    assert done.returncode == 0, done.stderr


def test_dir_and_help_have_all_names() -> None:
    """Of a package of which nothing has been used."""
    done = in_a_new_process("import fzoos, sys\nprint(*dir(fzoos))\nassert 'numpy' not in sys.modules")
    assert set(fzoos.__all__) <= set(done.stdout.split())
    text = pydoc.render_doc(fzoos, renderer=pydoc.plaintext)
    assert not [name for name in fzoos.__all__ if name not in text and name != "__version__"]
    assert {"FZooS", "minimize"} <= {name for name, _ in inspect.getmembers(fzoos)}


def test_a_name_that_is_not_there() -> None:
    done = in_a_new_process("import fzoos\nfzoos.minimise")
    assert done.stderr.endswith(
        "AttributeError: module 'fzoos' has no attribute 'minimise'. Did you mean: 'minimize'?\n"
    )
    assert not hasattr(fzoos, "no_such_name")
    assert not hasattr(fzoos.algorithms, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name 'minimise' from 'fzoos'"):
        exec("from fzoos import minimise")


def test_a_module_that_lacks_another_one_says_which() -> None:
    """It is there; so this is no AttributeError."""
    done = in_a_new_process("import sys\nsys.modules['flwr'] = None\nimport fzoos\nfzoos.engines.flower")
    assert done.stderr.endswith("ImportError: this engine needs Flower: pip install 'fzoos[flower]'\n")
