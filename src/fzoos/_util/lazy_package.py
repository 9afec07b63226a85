"""Packages whose names are loaded when they are first used, as in SciPy.

`import fzoos` then takes little time, and a process loads only the modules that it needs. A package lists its names
once, in its stub `__init__.pyi`, which type checkers read as well.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["load_on_use"]


def load_on_use(package: str) -> None:
    """Let a package import the names of its stub, and its modules, when they are first used.

    Each name has a line of its own in the stub: `from MODULE import NAME as NAME`.

    Args:
        package: its `__name__`.
    """
    module = sys.modules[package]
    module.__class__ = _LazyPackage
    with open(f"{module.__file__}i", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from ")]
    places = {name: place for _, place, _, name, *_ in words}
    vars(module)["_places"] = places
    vars(module)["__all__"] = sorted([*places, *({"__version__"} & vars(module).keys())])


class _LazyPackage(ModuleType):
    """The type of a package with `load_on_use`.

    It is a class, and not a function `__getattr__` in each package, because of `fzoos.minimize`: that is a function and
    the module that has it. Importing a module sets it as an attribute of its package, where it must not replace the
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
