"""Users' files that have the name of a module, such as random.py."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

__all__ = ["load_namesake"]


def load_namesake(file: Path) -> None:
    """Load the module that has the name of a file, if there is one, so that later imports find it and not the file."""
    name = file.stem
    if not name.isidentifier() or name in sys.modules:
        return
    spec = find_spec(name)
    if spec is not None and spec.origin is not None and Path(spec.origin).resolve() != file.resolve():
        with suppress(ImportError):
            import_module(name)
