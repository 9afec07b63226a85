"""Small data in the layout of the archives, easy to learn, for pipelines that begin with an archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


def images(n: int, shape: tuple[int, ...], blended: bool, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Each class is a pattern of 4 x 4 tiles, more or less bright, with noise; blended: mixed with another class."""
    tile = shape[0] // 4
    patterns = np.random.default_rng(7).integers(0, 2, (10, 4, 4, *shape[2:])).repeat(tile, 1).repeat(tile, 2)
    y = np.arange(n) % 10
    single = (n, *(1 for _ in shape))
    weight = rng.uniform(0.2, 0.45, single) * blended
    brightness = rng.uniform(50, 220, single)
    mixed = (1.0 - weight) * patterns[y] + weight * patterns[(y + rng.integers(1, 10, n)) % 10]
    return (mixed * brightness + rng.integers(0, 30, (n, *shape))).astype(np.uint8), y.astype(np.uint8)


def covertype(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The k-th of the ten quantities is mostly the largest in class k; the one-hot columns say nothing."""
    y = rng.integers(0, 7, n)
    x = np.zeros((n, 54), np.int16)
    x[:, :10] = rng.integers(0, 100, (n, 10))
    x[np.arange(n), y] += 100
    x[np.arange(n), rng.integers(10, 14, n)] = 1
    x[np.arange(n), rng.integers(14, 54, n)] = 1
    return x, (y + 1).astype(np.uint8)


@pytest.fixture(scope="session")
def toy_archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for $FZOOS_DATA. Test images are blends of two classes, so that some are easily attacked."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (x, y), (x_test, y_test) = images(600, (28, 28), False, rng), images(100, (28, 28), True, rng)
    np.savez(folder / "mnist.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    for name, n in (("train_1", 300), ("train_2", 300), ("test", 100)):
        x, y = images(n, (32, 32, 3), name == "test", rng)
        np.savez(folder / f"cifar10_{name}.npz", x=x, y=y)
    x, y = covertype(1000, rng)
    np.savez(folder / "covtype.npz", X=x, y=y)
    return folder
