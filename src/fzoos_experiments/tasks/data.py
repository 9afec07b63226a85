"""MNIST, CIFAR-10 and Covertype, from NumPy archives.

An archive is looked for in `$FZOOS_DATA`, then in the per-user cache (`~/.cache/fzoos/data`); if it is in neither, it
is downloaded through scikit-learn, checked and stored in the cache. The module `archives` says what archives hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos_experiments.tasks.archives import DataError, MissingDataError, assemble, patterns
from fzoos_experiments.tasks.cache import cache_folder, digest, read_archive, write_archive
from fzoos_experiments.tasks.download import Archives, fetch_cifar10, fetch_covertype, fetch_mnist

__all__ = ["DataError", "Images", "Table", "data_digest", "load_cifar10", "load_covtype", "load_mnist"]


class Images(NamedTuple):
    """Labelled images for training and for testing."""

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.uint8]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.uint8]


class Table(NamedTuple):
    """Rows of numbers and their classes."""

    x: NDArray[np.int16]
    y: NDArray[np.uint8]


def load_mnist(folder: str | Path | None = None) -> Images:
    """Handwritten digits, 28 x 28 grey levels.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.

    Raises:
        DataError: the archive is missing and cannot be downloaded, or is not in the layout.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.data import load_mnist
        >>> folder, x, y = tempfile.mkdtemp(), np.zeros((5, 28, 28), np.uint8), np.arange(5, dtype=np.uint8)
        >>> np.savez(Path(folder) / "mnist.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
        >>> load_mnist(folder).y_train
        array([0, 1, 2, 3, 4], dtype=uint8)

    Reference:
        LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
    """
    return Images(*_load("mnist", folder, fetch_mnist))


def load_cifar10(folder: str | Path | None = None) -> Images:
    """Colour images in ten classes, 32 x 32 pixels, channels last; as many training files as there are.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.

    Raises:
        DataError: the archives are missing and cannot be downloaded, or are not in the layout.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.data import load_cifar10
        >>> folder, x, y = tempfile.mkdtemp(), np.zeros((5, 32, 32, 3), np.uint8), np.arange(5, dtype=np.uint8)
        >>> for name in ("train_1", "train_2", "test"):
        ...     np.savez(Path(folder) / f"cifar10_{name}.npz", x=x, y=y)
        >>> load_cifar10(folder).x_train.shape
        (10, 32, 32, 3)

    Reference:
        Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """
    return Images(*_load("cifar10", folder, fetch_cifar10))


def load_covtype(folder: str | Path | None = None) -> Table:
    """Forest cover types 1..7 of cells of land: ten quantities and 44 one-hot columns.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.

    Raises:
        DataError: the archive is missing and cannot be downloaded, or is not in the layout.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.data import load_covtype
        >>> folder = tempfile.mkdtemp()
        >>> np.savez(Path(folder) / "covtype.npz", X=np.zeros((3, 54), np.int16), y=np.array([1, 7, 2], np.uint8))
        >>> load_covtype(folder).y
        array([1, 7, 2], dtype=uint8)

    Reference:
        Blackard, Dean, "Comparative accuracies of artificial neural networks and discriminant analysis in predicting
        forest cover types from cartographic variables", 1999.
    """
    return Table(*_load("covtype", folder, fetch_covertype))


def data_digest(dataset: str, folder: str | Path | None = None) -> str | None:
    """SHA-256 of a dataset's arrays, however they are stored; None if it is not at hand, or not in the layout.

    Nothing is downloaded, and an archive is read again only after it has changed.

    Args:
        dataset: "mnist", "cifar10" or "covtype".
        folder: where to look first; default: `$FZOOS_DATA`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.data import data_digest
        >>> first, second = tempfile.mkdtemp(), tempfile.mkdtemp()
        >>> arrays = {"X": np.zeros((3, 54), np.int16), "y": np.array([1, 7, 2], np.uint8)}
        >>> np.savez(Path(first) / "covtype.npz", **arrays)
        >>> np.savez_compressed(Path(second) / "covtype.npz", **arrays)
        >>> data_digest("covtype", first) == data_digest("covtype", second)
        True
    """
    paths = _find(dataset, _places(folder))
    stats = [path.stat() for path in paths]
    return _digest(dataset, tuple((p, s.st_size, s.st_mtime_ns) for p, s in zip(paths, stats, strict=True)))


@lru_cache(maxsize=8)
def _digest(dataset: str, versions: tuple[tuple[Path, int, int], ...]) -> str | None:
    """Of a dataset's files (path, size, time of the last change)."""
    try:
        return digest(*_read([path for path, _, _ in versions], dataset)) if versions else None
    except DataError:
        return None


def _load(dataset: str, folder: str | Path | None, fetch: Callable[[], Archives]) -> list[NDArray[Any]]:
    """Samples and labels of each part, from the first place that has all files; if none has, they are downloaded.

    Args:
        dataset: one of `PARTS`.
        folder: where to look before the cache; None: `$FZOOS_DATA`.
        fetch: downloads the files.
    """
    *named, cache = places = _places(folder)
    paths = _find(dataset, places)
    if paths:
        return _read(paths, dataset)
    try:
        archives = fetch()
        arrays = assemble(archives, dataset, "the download", whole=True)
        for name, content in archives.items():
            write_archive(cache / name, content, compress=True)
        return arrays
    except ImportError:
        why = "cannot be downloaded without scikit-learn (pip install 'fzoos[tasks]')"
    except (OSError, ValueError) as error:
        why = f"cannot be downloaded ({' '.join(str(error).split())})"
    searched = f"neither in {named[0]} nor in {cache}" if named else f"not in {cache} ($FZOOS_DATA is not set)"
    raise MissingDataError(f"{' and '.join(patterns(dataset))}: {searched}, and {why}")


def _places(folder: str | Path | None) -> list[Path]:
    """Where archives are looked for: the folder or `$FZOOS_DATA`, if there is one, and then the cache."""
    named = folder or os.environ.get("FZOOS_DATA")
    return [*([Path(named)] if named else []), cache_folder("data")]


def _find(dataset: str, places: list[Path]) -> list[Path]:
    """A dataset's files in the first place that has all of them, or nothing."""
    for place in places:
        matches = [sorted(place.glob(pattern)) for pattern in patterns(dataset)]
        if all(matches):
            return [path for paths in matches for path in paths]
    return []


def _read(paths: list[Path], dataset: str) -> list[NDArray[Any]]:
    try:
        archives = {path.name: read_archive(path) for path in paths}
    except (OSError, ValueError) as error:
        raise DataError(str(error)) from None
    return assemble(archives, dataset, str(paths[0].parent), whole=False)
