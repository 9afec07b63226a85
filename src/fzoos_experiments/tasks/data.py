"""MNIST, CIFAR-10 and Covertype, from NumPy archives.

An archive is looked for in `$FZOOS_DATA`, then in the per-user cache (`~/.cache/fzoos/data`). If it is in neither, it
is downloaded through scikit-learn, checked and stored in the cache.

=============================  =====================  ==================  ======  ================================
file                           array                  shape               dtype   values
=============================  =====================  ==================  ======  ================================
mnist.npz                      x_train, x_test        (n, 28, 28)         uint8   0..255
..                             y_train, y_test        (n,)                uint8   0..9
cifar10_train_1.npz, 2, ...    x                      (n, 32, 32, 3)      uint8   0..255, RGB
..                             y                      (n,)                uint8   0..9
cifar10_test.npz               x, y                   as above
covtype.npz                    X                      (n, 54)             int16   10 quantities, 44 one-hot columns
..                             y                      (n,)                uint8   1..7
=============================  =====================  ==================  ======  ================================

Samples are in the order of the original distributions; nothing is normalised, shuffled or dropped. Archives may hold
fewer samples.
"""

from __future__ import annotations

import fnmatch
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos_experiments.tasks.cache import cache_folder, digest, read_archive, write_archive

__all__ = [
    "PARTS",
    "DataError",
    "Images",
    "MissingDataError",
    "Part",
    "Table",
    "data_digest",
    "load_cifar10",
    "load_covtype",
    "load_mnist",
]

_MNIST_TRAIN = 60_000  # images
_CIFAR10_BATCH = 10_000  # images in a file

Archives = dict[str, dict[str, NDArray[Any]]]
"""File name to its named arrays."""


class DataError(ValueError):
    """A dataset is missing and cannot be downloaded, or its archive has another layout."""


class MissingDataError(DataError):
    """A dataset is missing and cannot be downloaded."""


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


class Part(NamedTuple):
    """The layout of a dataset's training or test samples and their labels."""

    files: str  # a pattern; samples of several files are concatenated in the order of the names
    x: str
    y: str
    shape: tuple[int, ...]  # of one sample
    dtype: type[np.integer[Any]]
    labels: range
    counts: tuple[int, ...]  # samples of each class in the whole dataset
    binary: int | None = None  # columns from here on are 0 or 1


_DIGITS = 5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949
_TEST_DIGITS = 980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009
_TREES = 211840, 283301, 35754, 2747, 9493, 17367, 20510

PARTS: dict[str, tuple[Part, ...]] = {
    "mnist": (
        Part("mnist.npz", "x_train", "y_train", (28, 28), np.uint8, range(10), _DIGITS),
        Part("mnist.npz", "x_test", "y_test", (28, 28), np.uint8, range(10), _TEST_DIGITS),
    ),
    "cifar10": (
        Part("cifar10_train_*.npz", "x", "y", (32, 32, 3), np.uint8, range(10), (5000,) * 10),
        Part("cifar10_test.npz", "x", "y", (32, 32, 3), np.uint8, range(10), (1000,) * 10),
    ),
    "covtype": (Part("covtype.npz", "X", "y", (54,), np.int16, range(1, 8), _TREES, binary=10),),
}
"""The layouts of the datasets by name."""


def load_mnist(folder: str | Path | None = None) -> Images:
    """Handwritten digits, 28 x 28 grey levels.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.

    Raises:
        DataError: the archive is missing and cannot be downloaded, or has another layout.

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
    return Images(*_load("mnist", folder, _fetch_mnist))


def load_cifar10(folder: str | Path | None = None) -> Images:
    """Colour images in ten classes, 32 x 32 pixels, channels last; all training files that are found.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.

    Raises:
        DataError: the archives are missing and cannot be downloaded, or have another layout.

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
    return Images(*_load("cifar10", folder, _fetch_cifar10))


def load_covtype(folder: str | Path | None = None) -> Table:
    """Forest cover types 1..7 of cells of land: ten quantities and 44 one-hot columns.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.

    Raises:
        DataError: the archive is missing and cannot be downloaded, or has another layout.

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
    return Table(*_load("covtype", folder, _fetch_covertype))


def data_digest(dataset: str, folder: str | Path | None = None) -> str | None:
    """SHA-256 of a dataset's arrays, however they are stored; None if they are not found or have another layout.

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
    """The digest of files, given as (path, size, time of the last change)."""
    try:
        return digest(*_read([path for path, _, _ in versions], dataset)) if versions else None
    except DataError:
        return None


# Finding and downloading


def _load(dataset: str, folder: str | Path | None, fetch: Callable[[], Archives]) -> list[NDArray[Any]]:
    """Samples and labels of each part, from the first place that has all files, or else from the download."""
    *named, cache = places = _places(folder)
    paths = _find(dataset, places)
    if paths:
        return _read(paths, dataset)
    try:
        archives = fetch()
        arrays = _assemble(archives, dataset, "the download", whole=True)
        for name, content in archives.items():
            write_archive(cache / name, content, compress=True)
        return arrays
    except ImportError:
        why = "cannot be downloaded without scikit-learn (pip install 'fzoos[tasks]')"
    except (OSError, ValueError) as error:
        why = f"cannot be downloaded ({' '.join(str(error).split())})"
    searched = f"neither in {named[0]} nor in {cache}" if named else f"not in {cache} ($FZOOS_DATA is not set)"
    raise MissingDataError(f"{' and '.join(_patterns(dataset))}: {searched}, and {why}")


def _places(folder: str | Path | None) -> list[Path]:
    """The folders to search: the given one or `$FZOOS_DATA`, if there is one, then the cache."""
    named = folder or os.environ.get("FZOOS_DATA")
    return [*([Path(named)] if named else []), cache_folder("data")]


def _patterns(dataset: str) -> list[str]:
    return list(dict.fromkeys(part.files for part in PARTS[dataset]))


def _find(dataset: str, places: list[Path]) -> list[Path]:
    """The files of a dataset in the first place that has all of them, or no files."""
    for place in places:
        matches = [sorted(place.glob(pattern)) for pattern in _patterns(dataset)]
        if all(matches):
            return [path for paths in matches for path in paths]
    return []


def _read(paths: list[Path], dataset: str) -> list[NDArray[Any]]:
    try:
        archives = {path.name: read_archive(path) for path in paths}
    except (OSError, ValueError) as error:
        raise DataError(str(error)) from None
    return _assemble(archives, dataset, str(paths[0].parent), whole=False)


def _fetch_mnist() -> Archives:
    """OpenML's `mnist_784`: 784 columns, row by row; the first 60 000 images are for training."""
    x, y = _openml("mnist_784")
    x = x.reshape(-1, 28, 28)
    n = _MNIST_TRAIN
    return {"mnist.npz": {"x_train": x[:n], "y_train": y[:n], "x_test": x[n:], "y_test": y[n:]}}


def _fetch_cifar10() -> Archives:
    """OpenML's `CIFAR_10`: 3072 columns, channel by channel; the last 10 000 images are for testing."""
    x, y = _openml("CIFAR_10")
    x = np.ascontiguousarray(x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    n = len(x) - _CIFAR10_BATCH
    found: Archives = {"cifar10_test.npz": {"x": x[n:], "y": y[n:]}}
    for i, start in enumerate(range(0, n, _CIFAR10_BATCH), start=1):
        batch = slice(start, min(start + _CIFAR10_BATCH, n))
        found[f"cifar10_train_{i}.npz"] = {"x": x[batch], "y": y[batch]}
    return found


def _fetch_covertype() -> Archives:
    """Return the unshuffled Covertype data that scikit-learn's `fetch_covtype` loads."""
    from sklearn.datasets import fetch_covtype

    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "network error, retrying": the final error says it once
        x, y = fetch_covtype(data_home=home, return_X_y=True)
    return {"covtype.npz": {"X": _as_integers(x, np.int16), "y": _as_integers(y, np.uint8)}}


def _openml(name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    from sklearn.datasets import fetch_openml

    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The parser that needs no pandas.
        x, y = fetch_openml(name, version=1, data_home=home, return_X_y=True, as_frame=False, parser="liac-arff")
    return _as_integers(x, np.uint8), _as_integers(y, np.uint8)


def _as_integers(values: Any, dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Convert numbers, or their decimal texts, to a small integer type that holds them exactly."""
    numbers = np.asarray(values).astype(np.float64)
    small = numbers.astype(dtype)
    if not np.array_equal(small, numbers):
        raise ValueError(f"the download has values that are not whole numbers of type {np.dtype(dtype)}")
    return small


# Checking


def _assemble(archives: Archives, dataset: str, where: str, whole: bool) -> list[NDArray[Any]]:
    """Check and return samples and labels of each part of a dataset in turn.

    Args:
        archives: file names to their arrays.
        dataset: one of `PARTS`.
        where: the place of the files, for error messages.
        whole: whether every sample of the dataset must be present.
    """
    found = []
    for part in PARTS[dataset]:
        samples, labels = [], []
        for file in sorted(fnmatch.filter(archives, part.files)):
            x, y = (_array(archives, file, name) for name in (part.x, part.y))
            _raise_if(_difference(x, y, part), f"{file} ({part.x}, {part.y}) of {where}")
            samples.append(x)
            labels.append(y)
        found += [np.concatenate(samples), np.concatenate(labels)]
        _raise_if(_miscount(found[-1], part, whole), f"{part.files} ({part.y}) of {where}")
    return found


def _array(archives: Archives, file: str, name: str) -> NDArray[Any]:
    try:
        return archives[file][name]
    except KeyError:
        raise DataError(f"{file} has no array {name}, only {', '.join(archives[file])}") from None


def _raise_if(wrong: str, what: str) -> None:
    if wrong:
        raise DataError(f"{what} {wrong}")


def _difference(x: NDArray[Any], y: NDArray[Any], part: Part) -> str:
    """Describe how arrays deviate from the layout; empty if they do not."""
    if x.shape[1:] != part.shape or not len(x):
        return f"has samples of shape {x.shape}, expected (n, {', '.join(map(str, part.shape))})"
    if x.dtype != part.dtype or y.dtype != np.uint8:
        return f"has samples of type {x.dtype} and labels of type {y.dtype}, expected {part.dtype.__name__} and uint8"
    if y.shape != (len(x),):
        return f"has labels of shape {y.shape} for {len(x)} samples"
    low, high = part.labels[0], part.labels[-1]
    if y.min() < low or y.max() > high:
        return f"has labels {y.min()}..{y.max()}, expected {low}..{high}"
    if part.binary is not None and not np.isin(x[:, part.binary :], (0, 1)).all():
        return f"has values other than 0 and 1 in columns {part.binary}..{x.shape[1] - 1}"
    return ""


def _miscount(y: NDArray[Any], part: Part, whole: bool) -> str:
    """Describe wrong class counts; empty if they are right. Only a smaller archive may have any counts."""
    counts = np.bincount(y, minlength=part.labels.stop)[part.labels.start :].tolist()
    if (whole or len(y) == sum(part.counts)) and counts != list(part.counts):
        return f"has class counts {counts}, expected {list(part.counts)}"
    return ""
