"""The datasets through scikit-learn's fetchers, as arrays in the layout of the archives (see the module `data`)."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Archives", "fetch_cifar10", "fetch_covertype", "fetch_mnist"]

Archives = dict[str, dict[str, NDArray[Any]]]
"""File name to its named arrays."""

_MNIST_TRAIN = 60_000  # images
_CIFAR10_BATCH = 10_000  # images in a file


def fetch_mnist() -> Archives:
    """OpenML's `mnist_784`: 784 columns, row by row; the first 60 000 images are for training."""
    x, y = _openml("mnist_784")
    x = x.reshape(-1, 28, 28)
    n = _MNIST_TRAIN
    return {"mnist.npz": {"x_train": x[:n], "y_train": y[:n], "x_test": x[n:], "y_test": y[n:]}}


def fetch_cifar10() -> Archives:
    """OpenML's `CIFAR_10`: 3072 columns, channel by channel; the last 10 000 images are for testing."""
    x, y = _openml("CIFAR_10")
    x = np.ascontiguousarray(x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    n = len(x) - _CIFAR10_BATCH
    found: Archives = {"cifar10_test.npz": {"x": x[n:], "y": y[n:]}}
    for i, start in enumerate(range(0, n, _CIFAR10_BATCH), start=1):
        batch = slice(start, min(start + _CIFAR10_BATCH, n))
        found[f"cifar10_train_{i}.npz"] = {"x": x[batch], "y": y[batch]}
    return found


def fetch_covertype() -> Archives:
    """scikit-learn's `fetch_covtype`, unshuffled."""
    from sklearn.datasets import fetch_covtype

    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "network error, retrying": what comes of it is said once, at the end
        x, y = fetch_covtype(data_home=home, return_X_y=True)
    return {"covtype.npz": {"X": _whole(x, np.int16), "y": _whole(y, np.uint8)}}


def _openml(name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    from sklearn.datasets import fetch_openml

    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The parser that needs no pandas.
        x, y = fetch_openml(name, version=1, data_home=home, return_X_y=True, as_frame=False, parser="liac-arff")
    return _whole(x, np.uint8), _whole(y, np.uint8)


def _whole(values: Any, dtype: type[np.integer[Any]]) -> NDArray[Any]:
    """Numbers, or their names, as integers of a small type; they must be whole and fit."""
    numbers = np.asarray(values).astype(np.float64)
    small = numbers.astype(dtype)
    if not np.array_equal(small, numbers):
        raise ValueError(f"the download has values that are not whole numbers of type {np.dtype(dtype)}")
    return small
