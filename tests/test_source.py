"""How the source is written: the rules that the linter does not have."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator

from tests.test_layers import MODULES, SOURCE


def public_objects() -> Iterator[tuple[str, object]]:
    """The public functions and classes of all modules, and the methods and properties that these classes introduce."""
    for name in MODULES:
        for attribute, found in vars(importlib.import_module(name)).items():
            if attribute.startswith("_") or getattr(found, "__module__", None) != name:
                continue
            if inspect.isfunction(found) or inspect.isclass(found):
                yield f"{name}.{attribute}", found
            for member, method in vars(found).items() if inspect.isclass(found) else ():
                function = getattr(method, "fget", getattr(method, "__func__", method))
                overrides = any(member in vars(base) for base in found.__mro__[1:])
                if member.startswith("_") or overrides or not inspect.isfunction(function):
                    continue
                if function.__module__ == name and function.__name__ != "<lambda>":
                    yield f"{name}.{attribute}.{member}", getattr(found, member)


def test_public_objects_have_docstrings() -> None:
    """A method that overrides another needs none of its own."""
    assert not [name for name, found in public_objects() if not inspect.getdoc(found)]


def test_docstrings_are_sentences() -> None:
    short = [
        f"{path}:{node.lineno} {node.name}"
        for path in sorted([*SOURCE.glob("fzoos/**/*.py"), *SOURCE.glob("fzoos_experiments/**/*.py")])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and 0 < len((ast.get_docstring(node) or "").split()) <= 3
    ]
    assert not short


def test_scipy_is_imported_as_a_whole() -> None:
    """`import scipy`, then `scipy.linalg.orth` where it is used, which loads that part: one way for all modules."""
    named = [
        f"{path}:{node.lineno}"
        for path in SOURCE.glob("fzoos/**/*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("scipy.")
    ]
    assert not named
