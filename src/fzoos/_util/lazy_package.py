"""Packages whose names are loaded when they are first used, as those of SciPy are.

`import fzoos` costs next to nothing then, and a process pays for the modules that it needs. To a reader nothing
changes: `from fzoos import minimize`, `from fzoos import *`, `dir(fzoos)` and `help(fzoos)` are what they always were.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["load_on_use"]


def load_on_use(package: str, names: Mapping[str, str]) -> None:
    """Let a package find its names, and its modules, when they are first asked for.

    Type checkers do not see this: the package has the same imports once more under `if TYPE_CHECKING:`, and a test
    compares them.

    Args:
        package: its `__name__`.
        names: modules, by their full names, and what the package has of each, separated by spaces.

    Example:
        >>> import sys, types
        >>> from fzoos._util.lazy_package import load_on_use
        >>> sys.modules["example"] = types.ModuleType("example")
        >>> load_on_use("example", {"fractions": "Fraction"})
        >>> sys.modules.pop("example").Fraction(1, 2)
        Fraction(1, 2)
    """
    module = sys.modules[package]
    module.__class__ = _LazyPackage
    vars(module)["_places"] = {name: place for place, group in names.items() for name in group.split()}


class _LazyPackage(ModuleType):
    """What `load_on_use` makes of a package.

    It is a class, and not a function `__getattr__` in each package, because of `fzoos.minimize`: that is a function,
    and the module that has it. Importing a module puts it into its package, where it must not take the place of the
    function.
    """

    _places: dict[str, str]

    def __getattr__(self, name: str) -> Any:  # of names that are not there yet
        if name in self._places:
            vars(self)[name] = found = getattr(import_module(self._places[name]), name)
            return found
        if not name.startswith("_"):
            full_name = f"{self.__name__}.{name}"
            try:
                return import_module(full_name)
            except ModuleNotFoundError as error:
                if error.name != full_name:
                    raise
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == self._places.get(name):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self._places})
