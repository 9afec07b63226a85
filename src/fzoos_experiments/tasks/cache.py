"""A per-user cache of downloads and trained models.

Archives are NumPy's, written to a temporary file and then renamed, so that a reader never finds an incomplete one. They
contain no pickled objects.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["cache_folder", "digest", "fingerprint", "read_archive", "write_archive"]


def cache_folder(room: str) -> Path:
    """`$XDG_CACHE_HOME/fzoos/room`, or `~/.cache/fzoos/room` where that is not set (or not absolute).

    Example:
        >>> from fzoos_experiments.tasks.cache import cache_folder
        >>> cache_folder("models").parts[-2:]
        ('fzoos', 'models')
    """
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "fzoos" / room


def digest(*arrays: NDArray[Any]) -> str:
    """SHA-256 of arrays: their types, shapes and values.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.cache import digest
        >>> digest(np.zeros(2)) == digest(np.zeros((2, 1)))
        False
    """
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def fingerprint(settings: Mapping[str, Any]) -> str:
    """A short digest of settings that JSON can represent, independent of their order.

    Example:
        >>> from fzoos_experiments.tasks.cache import fingerprint
        >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:20]


def write_archive(path: Path, arrays: Mapping[str, NDArray[Any]], *, compress: bool = False) -> None:
    """Write named arrays to `path` atomically, and create its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            (np.savez_compressed if compress else np.savez)(file, **arrays)  # type: ignore[arg-type]
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of an archive.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: it is not a NumPy archive, is damaged, or contains pickled objects.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.cache import read_archive, write_archive
        >>> path = Path(tempfile.mkdtemp()) / "numbers.npz"
        >>> write_archive(path, {"x": np.arange(3)})
        >>> read_archive(path)
        {'x': array([0, 1, 2])}
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a readable NumPy archive: {error}") from None
