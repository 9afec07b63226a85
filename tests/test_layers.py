"""The order of the rooms: each imports only from those before it, and no two import each other."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fzoos

ROOT = Path(fzoos.__file__).parent
ORDER = [
    "_util",
    "messages",
    "result",
    "objectives",
    "surrogates",
    "algorithms",
    "runs",
    "callbacks",
    "federation",
    "engines",
    "minimize",
    "testing",
    "tasks",
    "experiments",
    "cli",
]
FILES = sorted(path for path in ROOT.rglob("*.py") if "templates" not in path.parts and path != ROOT / "__init__.py")


def rooms_imported(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in it the import stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            parts = node.module.split(".")
            if parts[0] == "fzoos":
                found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("fzoos.")}
    return found & set(ORDER)


def test_every_room_has_its_place() -> None:
    rooms = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_from_the_rooms_before_its_own(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    later = {room for room in rooms_imported(path) if ORDER.index(room) > ORDER.index(own)}
    assert not later, f"{path.relative_to(ROOT)} imports from {', '.join(sorted(later))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_finds_its_names_only_when_asked(path: Path) -> None:
    """It would hide a circle from the test above; packages say their names once more in imports that it reads."""
    text = path.read_text(encoding="utf-8")
    assert "__getattr__" not in [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert "\nload_on_use(" not in text or path.name == "__init__.py"
