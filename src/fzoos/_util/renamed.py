"""Names of the last release: they work for one more, with a warning that says the new one."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

from fzoos._util.old_names import OLD_ATTRIBUTES

__all__ = ["keep_old_attributes", "keep_old_modules", "old_name", "renamed_fields"]

_T = TypeVar("_T", bound=type)


def old_name(old: str, new: str) -> None:
    """Say that a name has changed, at the place of the caller's caller."""
    warnings.warn(f"{old} is now {new}; the old name goes with the next release", FutureWarning, stacklevel=3)


def renamed_fields(**new_names: str) -> Callable[[_T], _T]:
    """A class decorator: old keyword arguments, each with its new name.

    Example:
        >>> from dataclasses import dataclass
        >>> from fzoos._util.renamed import renamed_fields
        >>> @renamed_fields(early="refresh_first_round")
        ... @dataclass
        ... class Settings:
        ...     refresh_first_round: bool = True
        >>> Settings(refresh_first_round=False)
        Settings(refresh_first_round=False)
    """

    def decorate(cls: _T) -> _T:
        original = cls.__init__  # type: ignore[misc]

        @functools.wraps(original)
        def init(self: Any, *args: Any, **settings: Any) -> None:
            for old, new in new_names.items():
                if old in settings:
                    old_name(f"{cls.__name__}({old}=...)", f"{new}=")
                    settings[new] = settings.pop(old)
            original(self, *args, **settings)

        cls.__init__ = init  # type: ignore[misc]
        cls.renamed_fields = new_names  # type: ignore[attr-defined]
        return cls

    return decorate


class _OldModules:
    """Imports `fzoos.old` as a module that has everything of `fzoos.new`."""

    def __init__(self, modules: Mapping[str, str], names: Mapping[str, str]) -> None:
        self._modules, self._names = modules, names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader: Any = self  # without its base class: importlib.abc takes long to load
        return ModuleSpec(fullname, loader) if fullname in self._modules else None

    def create_module(self, spec: ModuleSpec) -> None:
        """None: an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        new, names = import_module(self._modules[module.__name__]), self._names
        warnings.warn(
            f"{module.__name__} is now {new.__name__}; the old name goes with the next release",
            FutureWarning,
            stacklevel=2,
        )
        module.__getattr__ = lambda name: getattr(new, names.get(name, name))  # type: ignore[method-assign]


def keep_old_modules(modules: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Let modules be imported by their old names, and what is in them be found by its old name.

    Args:
        modules: old full name to new one.
        names: old name of a class or function to the new one, where that changed too.
    """
    if not any(isinstance(finder, _OldModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OldModules(modules, names))  # first: what is in an old package is no second copy


def keep_old_attributes(module: str) -> None:
    """Let names that have left a module, which has kept its own, be found there: those of `OLD_ATTRIBUTES`."""
    place = sys.modules[module]

    def find(wanted: str) -> Any:
        old = f"{module}.{wanted}"
        if old not in OLD_ATTRIBUTES:
            raise AttributeError(f"module {module!r} has no attribute {wanted!r}", name=wanted, obj=place)
        old_name(old, OLD_ATTRIBUTES[old])
        new_place, _, name = OLD_ATTRIBUTES[old].rpartition(".")
        return getattr(import_module(new_place), name)

    place.__getattr__ = find  # type: ignore[method-assign]
