"""What the archives of MNIST, CIFAR-10 and Covertype must hold.

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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos_experiments.tasks.download import Archives

__all__ = ["PARTS", "DataError", "MissingDataError", "Part", "assemble", "patterns"]


class DataError(ValueError):
    """A dataset is missing and cannot be downloaded, or its archive is not in the layout."""


class MissingDataError(DataError):
    """A dataset is missing and cannot be downloaded."""


class Part(NamedTuple):
    """Samples and their labels: in which files they are, under which names, and what they must look like."""

    files: str  # a pattern; the samples of several files follow each other, in the order of the names
    x: str
    y: str
    shape: tuple[int, ...]  # of one sample
    dtype: type[np.integer[Any]]
    labels: range
    counts: tuple[int, ...]  # samples of each class where none is left out
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
"""By the name of the dataset."""


def patterns(dataset: str) -> list[str]:
    """Of the names of a dataset's files; each must be matched.

    Example:
        >>> from fzoos_experiments.tasks.archives import patterns
        >>> patterns("cifar10")
        ['cifar10_train_*.npz', 'cifar10_test.npz']
    """
    return list(dict.fromkeys(part.files for part in PARTS[dataset]))


def assemble(archives: Archives, dataset: str, where: str, whole: bool) -> list[NDArray[Any]]:
    """Samples and labels of each of a dataset's parts in turn, checked.

    Args:
        archives: file names to their arrays.
        dataset: one of `PARTS`.
        where: the files are, for error messages.
        whole: no sample may be missing.

    Raises:
        DataError: an array is missing, or not as it must be.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.archives import assemble
        >>> archives = {"covtype.npz": {"X": np.zeros((3, 54), np.int16), "y": np.array([1, 8, 2], np.uint8)}}
        >>> assemble(archives, "covtype", "a folder", whole=False)
        Traceback (most recent call last):
        fzoos_experiments.tasks.archives.DataError: covtype.npz (X, y) of a folder has labels 1..8, expected 1..7
    """
    found = []
    for part in PARTS[dataset]:
        samples, labels = [], []
        for file in sorted(fnmatch.filter(archives, part.files)):
            x, y = (_array(archives, file, name) for name in (part.x, part.y))
            _raise_if(_difference(x, y, part), f"{file} ({part.x}, {part.y}) of {where}")
            samples.append(x)
            labels.append(y)
        found += [_joined(samples), _joined(labels)]
        _raise_if(_miscount(found[-1], part, whole), f"{part.files} ({part.y}) of {where}")
    return found


def _array(archives: Archives, file: str, name: str) -> NDArray[Any]:
    try:
        return archives[file][name]
    except KeyError:
        raise DataError(f"{file} has no array {name}, only {', '.join(archives[file])}") from None


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _raise_if(wrong: str, what: str) -> None:
    if wrong:
        raise DataError(f"{what} {wrong}")


def _difference(x: NDArray[Any], y: NDArray[Any], part: Part) -> str:
    """What is not as it must be, or nothing."""
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
    """How many samples of each class there are in place of those that there should be, or nothing.

    A smaller archive may have any, unless it must be whole.
    """
    counts = np.bincount(y, minlength=part.labels.stop)[part.labels.start :].tolist()
    if (whole or len(y) == sum(part.counts)) and counts != list(part.counts):
        return f"has class counts {counts}, expected {list(part.counts)}"
    return ""
