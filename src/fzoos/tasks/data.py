"""MNIST, CIFAR-10 and Covertype, from NumPy archives.

An archive is looked for in `$FZOOS_DATA`, then in the per-user cache (`~/.cache/fzoos/data`); if it is in neither, it
is downloaded through scikit-learn, checked and stored in the cache. Samples are in the order of the original
distributions; nothing is normalised, shuffled or dropped. Archives may hold fewer samples.

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
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fzoos.tasks.cache import cache_folder, read_archive, write_archive
from fzoos.tasks.download import Archives, fetch_cifar10, fetch_covertype, fetch_mnist

__all__ = ["DataError", "Images", "Table", "load_cifar10", "load_covtype", "load_mnist"]


class DataError(ValueError):
    """A dataset is missing and cannot be downloaded, or its archive is not in the layout."""


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


class Layout(NamedTuple):
    """What an archive's samples and labels must look like."""

    shape: tuple[int, ...]  # of one sample
    dtype: type[np.integer[Any]]
    labels: range
    counts: tuple[int, ...] = ()  # samples of each class where none is left out; empty: any
    binary: int | None = None  # columns from here on are 0 or 1


_MNIST_TRAIN = Layout((28, 28), np.uint8, range(10), (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949))
_MNIST_TEST = _MNIST_TRAIN._replace(counts=(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009))
_CIFAR10_PART = Layout((32, 32, 3), np.uint8, range(10))
_CIFAR10_TRAIN = _CIFAR10_PART._replace(counts=(5000,) * 10)
_CIFAR10_TEST = _CIFAR10_PART._replace(counts=(1000,) * 10)
_COVTYPE = Layout((54,), np.int16, range(1, 8), (211840, 283301, 35754, 2747, 9493, 17367, 20510), binary=10)

T = TypeVar("T")
Check = Callable[[str, NDArray[Any], NDArray[Any], Layout], None]
"""Raises unless samples and labels of the named file are in the layout."""


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
        >>> from fzoos.tasks.data import load_mnist
        >>> folder, x, y = tempfile.mkdtemp(), np.zeros((5, 28, 28), np.uint8), np.arange(5, dtype=np.uint8)
        >>> np.savez(Path(folder) / "mnist.npz", x_train=x, y_train=y, x_test=x[:2], y_test=y[:2])
        >>> load_mnist(folder).y_train
        array([0, 1, 2, 3, 4], dtype=uint8)

    Reference:
        LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.
    """
    return _load(folder, ("mnist.npz",), fetch_mnist, _mnist)


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
        >>> from fzoos.tasks.data import load_cifar10
        >>> folder, x, y = tempfile.mkdtemp(), np.zeros((5, 32, 32, 3), np.uint8), np.arange(5, dtype=np.uint8)
        >>> for name in ("train_1", "train_2", "test"):
        ...     np.savez(Path(folder) / f"cifar10_{name}.npz", x=x, y=y)
        >>> load_cifar10(folder).x_train.shape
        (10, 32, 32, 3)

    Reference:
        Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """
    return _load(folder, ("cifar10_train_*.npz", "cifar10_test.npz"), fetch_cifar10, _cifar10)


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
        >>> from fzoos.tasks.data import load_covtype
        >>> folder = tempfile.mkdtemp()
        >>> np.savez(Path(folder) / "covtype.npz", X=np.zeros((3, 54), np.int16), y=np.array([1, 7, 2], np.uint8))
        >>> load_covtype(folder).y
        array([1, 7, 2], dtype=uint8)

    Reference:
        Blackard, Dean, "Comparative accuracies of artificial neural networks and discriminant analysis in predicting
        forest cover types from cartographic variables", 1999.
    """
    return _load(folder, ("covtype.npz",), fetch_covertype, _covtype)


def _load(
    folder: str | Path | None,
    wanted: Sequence[str],
    fetch: Callable[[], Archives],
    assemble: Callable[[Archives, Check], T],
) -> T:
    """Read from the first place that has the wanted files; if none has, download into the cache.

    Args:
        folder: where to look before the cache; None: `$FZOOS_DATA`.
        wanted: patterns of file names, each to be matched by at least one file.
        fetch: downloads the files.
        assemble: checks the files' arrays and makes the dataset of them.
    """
    named, cache = folder or os.environ.get("FZOOS_DATA"), cache_folder("data")
    for place in [*([Path(named)] if named else []), cache]:
        matches = [sorted(place.glob(pattern)) for pattern in wanted]
        if all(matches):
            archives = {path.name: _read(path) for paths in matches for path in paths}
            return assemble(archives, partial(_check, str(place), False))
    try:
        archives = fetch()
        data = assemble(archives, partial(_check, "the download", True))
        for name, arrays in archives.items():
            write_archive(cache / name, arrays, compress=True)
        return data
    except ImportError:
        why = "cannot be downloaded without scikit-learn (pip install 'fzoos[tasks]')"
    except (OSError, ValueError) as error:
        why = f"cannot be downloaded ({' '.join(str(error).split())})"
    places = f"neither in {named} nor in {cache}" if named else f"not in {cache} ($FZOOS_DATA is not set)"
    raise DataError(f"{' and '.join(wanted)}: {places}, and {why}")


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return read_archive(path)
    except (OSError, ValueError) as error:
        raise DataError(str(error)) from None


def _check(where: str, whole: bool, name: str, x: NDArray[Any], y: NDArray[Any], layout: Layout) -> None:
    """Raise unless the arrays are in the layout; if `whole`, no sample may be missing."""
    wrong = _difference(x, y, layout, whole)
    if wrong:
        raise DataError(f"{name} of {where} {wrong}")


def _difference(x: NDArray[Any], y: NDArray[Any], layout: Layout, whole: bool) -> str:
    """What is not as the layout says, or nothing."""
    if x.shape[1:] != layout.shape or not len(x):
        return f"has samples of shape {x.shape}, expected (n, {', '.join(map(str, layout.shape))})"
    if x.dtype != layout.dtype or y.dtype != np.uint8:
        return f"has samples of type {x.dtype} and labels of type {y.dtype}, expected {layout.dtype.__name__} and uint8"
    if y.shape != (len(x),):
        return f"has labels of shape {y.shape} for {len(x)} samples"
    low, high = layout.labels[0], layout.labels[-1]
    if y.min() < low or y.max() > high:
        return f"has labels {y.min()}..{y.max()}, expected {low}..{high}"
    if layout.binary is not None and not np.isin(x[:, layout.binary :], (0, 1)).all():
        return f"has values other than 0 and 1 in columns {layout.binary}..{x.shape[1] - 1}"
    counts = np.bincount(y, minlength=high + 1)[low:].tolist()
    if layout.counts and (whole or len(y) == sum(layout.counts)) and counts != list(layout.counts):
        return f"has class counts {counts}, expected {list(layout.counts)}"
    return ""


def _array(archives: Archives, file: str, name: str) -> NDArray[Any]:
    try:
        return archives[file][name]
    except KeyError:
        raise DataError(f"{file} has no array {name}, only {', '.join(archives[file])}") from None


def _mnist(archives: Archives, check: Check) -> Images:
    data = Images(*(_array(archives, "mnist.npz", name) for name in Images._fields))
    check("mnist.npz (train)", data.x_train, data.y_train, _MNIST_TRAIN)
    check("mnist.npz (test)", data.x_test, data.y_test, _MNIST_TEST)
    return data


def _cifar10(archives: Archives, check: Check) -> Images:
    parts = {file: (_array(archives, file, "x"), _array(archives, file, "y")) for file in sorted(archives)}
    for file, (x, y) in parts.items():
        check(file, x, y, _CIFAR10_PART)
    x_test, y_test = parts.pop("cifar10_test.npz")
    check("cifar10_test.npz", x_test, y_test, _CIFAR10_TEST)
    x_train, y_train = (np.concatenate(arrays) for arrays in zip(*parts.values(), strict=True))
    check("cifar10_train_*.npz", x_train, y_train, _CIFAR10_TRAIN)
    return Images(x_train, y_train, x_test, y_test)


def _covtype(archives: Archives, check: Check) -> Table:
    data = Table(_array(archives, "covtype.npz", "X"), _array(archives, "covtype.npz", "y"))
    check("covtype.npz", data.x, data.y, _COVTYPE)
    return data
