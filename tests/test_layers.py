"""The order of the packages: each imports only from those before it, and modules of one package import in no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import fzoos

SOURCE = Path(fzoos.__file__).parents[1]
ORDER = [
    "fzoos._util",
    "fzoos.messages",
    "fzoos.result",
    "fzoos.objectives",
    "fzoos.surrogates",
    "fzoos.algorithms",
    "fzoos.runs",
    "fzoos.callbacks",
    "fzoos.federation",
    "fzoos.engines",
    "fzoos.minimize",
    "fzoos.testing",
    "fzoos_experiments",
    "fzoos.cli",
]
COMMANDS = {"benchmark", "problems", "reproduce"}
"""The modules of the command line that may import `fzoos_experiments`."""


def modules() -> dict[str, Path]:
    """All modules but the templates and `fzoos` itself, whose names are loaded when they are used."""
    found = {}
    for path in sorted([*SOURCE.glob("fzoos/**/*.py"), *SOURCE.glob("fzoos_experiments/**/*.py")]):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if "templates" not in parts:
            stub = path.with_suffix(".pyi")  # of a package whose names are loaded when they are used
            found[".".join(parts).removesuffix(".__init__")] = stub if stub.exists() else path
    del found["fzoos"]
    return found


MODULES = modules()


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """What runs: everything but the body of `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from statements(node)


def imported(path: Path, *, types_too: bool) -> set[str]:
    """The modules that a file imports, wherever in it the import stands."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree) if types_too else statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= names or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & MODULES.keys()


def layer(module: str) -> str:
    return next(name for name in ORDER if module == name or module.startswith(f"{name}."))


def test_every_module_has_its_place() -> None:
    for module in MODULES:
        layer(module)


def test_a_module_imports_only_from_the_layers_before_its_own() -> None:
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        for other in sorted(imported(path, types_too=True))
        if ORDER.index(layer(other)) > ORDER.index(layer(module))
    ]
    assert not wrong


def test_no_module_imports_itself_through_others() -> None:
    """Neither inside a package nor when a function runs: a CycleError names the modules."""
    graph = {module: imported(path, types_too=False) - {module} for module, path in MODULES.items()}
    TopologicalSorter(graph).prepare()


def test_only_commands_that_run_experiments_import_them() -> None:
    users = {module for module, path in MODULES.items() if module.startswith("fzoos.") and imports_experiments(path)}
    assert users == {f"fzoos.cli.{name}" for name in COMMANDS}


def imports_experiments(path: Path) -> bool:
    return any(name.startswith("fzoos_experiments") for name in imported(path, types_too=True))


def test_no_module_finds_its_names_only_when_they_are_used() -> None:
    """It would hide a circle from the tests above, which read the stubs of packages that do."""
    for path in MODULES.values():
        functions = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        assert "__getattr__" not in functions
