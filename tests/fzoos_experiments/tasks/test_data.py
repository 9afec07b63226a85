"""Datasets: found in $FZOOS_DATA, then in the cache, then downloaded, checked and stored; small ones are fine."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets

from fzoos_experiments.tasks.cache import read_archive, write_archive
from fzoos_experiments.tasks.data import PARTS, DataError, data_digest, load_cifar10, load_covtype, load_mnist

SHARED = Path(os.environ.get("FZOOS_DATA") or Path(__file__).parents[4] / "shared" / "data")


def images(n: int, *shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, *shape), dtype=np.uint8), (np.arange(n) % 10).astype(np.uint8)


def mnist() -> dict[str, np.ndarray]:
    (x, y), (u, v) = images(20, 28, 28), images(10, 28, 28, seed=1)
    return {"x_train": x, "y_train": y, "x_test": u, "y_test": v}


def covtype(n: int = 14) -> dict[str, np.ndarray]:
    x = np.zeros((n, 54), np.int16)
    x[:, 4] = -3  # the one quantity that can be negative
    x[:, 10] = 1
    return {"X": x, "y": (np.arange(n) % 7 + 1).astype(np.uint8)}


def expect(monkeypatch, dataset: str, *counts: list[int]) -> None:
    """Let the whole dataset be one with so many samples of each class, part by part."""
    parts = (part._replace(counts=tuple(c)) for part, c in zip(PARTS[dataset], counts, strict=True))
    monkeypatch.setitem(PARTS, dataset, tuple(parts))


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch) -> tuple[Path, Path]:
    """$FZOOS_DATA and the cache, both empty."""
    monkeypatch.setenv("FZOOS_DATA", str(tmp_path / "named"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "named").mkdir()
    return tmp_path / "named", tmp_path / "cache" / "fzoos" / "data"


@pytest.fixture(autouse=True)
def network(monkeypatch):
    """There is none."""

    def fetch(*_, **__):
        raise OSError("no\nnetwork")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", fetch)


def test_mnist_is_read_as_it_is(places):
    arrays = mnist()
    np.savez(places[0] / "mnist.npz", **arrays)
    for name, array in load_mnist()._asdict().items():
        np.testing.assert_array_equal(array, arrays[name])


def test_the_named_folder_comes_before_the_cache(places):
    named, cache = places
    write_archive(cache / "covtype.npz", covtype(7))
    assert len(load_covtype().y) == 7
    np.savez(named / "covtype.npz", **covtype(21))
    assert len(load_covtype().y) == 21


@pytest.mark.parametrize(
    ("load", "file"), [(load_mnist, "mnist.npz"), (load_cifar10, "cifar10_test.npz"), (load_covtype, "covtype.npz")]
)
@pytest.mark.parametrize("named", [True, False])
def test_missing_without_a_network_is_one_line(load, file, named, places, monkeypatch):
    if not named:
        monkeypatch.delenv("FZOOS_DATA")
    with pytest.raises(DataError) as error:
        load()
    message = str(error.value)
    assert "\n" not in message
    assert file in message
    assert str(places[1]) in message
    assert (str(places[0]) if named else "FZOOS_DATA") in message
    assert "no network" in message


def test_a_download_is_checked_converted_and_stored(places, monkeypatch):
    # OpenML: 784 columns of floats, labels as text, training images first. The counts are those of ten classes here.
    arrays = mnist()
    expect(monkeypatch, "mnist", *(np.bincount(arrays[name]).tolist() for name in ("y_train", "y_test")))
    monkeypatch.setattr("fzoos_experiments.tasks.data._MNIST_TRAIN", 20)

    def fetch(name, **_):
        assert name == "mnist_784"
        x = np.concatenate([arrays["x_train"], arrays["x_test"]]).reshape(30, 784)
        return x.astype(float), np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(str).astype(object)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    found = load_mnist()
    stored = read_archive(places[1] / "mnist.npz")
    for name, array in arrays.items():
        np.testing.assert_array_equal(getattr(found, name), array)
        np.testing.assert_array_equal(stored[name], array)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", None)
    np.testing.assert_array_equal(load_mnist().x_test, arrays["x_test"])  # from the cache
    assert not list(places[1].glob("*.part"))


def test_cifar10_comes_channel_by_channel(places, monkeypatch):
    monkeypatch.setattr("fzoos_experiments.tasks.data._CIFAR10_BATCH", 10)
    expect(monkeypatch, "cifar10", [2] * 10, [1] * 10)
    x, y = images(30, 32, 32, 3)
    columns = [[image[r, c, k] for k in range(3) for r in range(32) for c in range(32)] for image in x]

    def fetch(name, **_):
        assert name == "CIFAR_10"
        return np.array(columns, float), y.astype(str)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    found = load_cifar10()
    np.testing.assert_array_equal(np.concatenate([found.x_train, found.x_test]), x)
    np.testing.assert_array_equal(found.y_test, y[20:])
    assert {path.name for path in places[1].iterdir()} == {f"cifar10_{n}.npz" for n in ("train_1", "train_2", "test")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((14, 53), np.int16)}, r"shape \(14, 53\), expected \(n, 54\)"),
        ({"X": np.zeros((0, 54), np.int16), "y": np.zeros(0, np.uint8)}, "shape"),
        ({"X": np.zeros((14, 54))}, "type float64"),
        ({"y": np.ones(13, np.uint8)}, r"labels of shape \(13,\) for 14 samples"),
        ({"y": np.zeros(14, np.uint8)}, r"labels 0\.\.0, expected 1\.\.7"),
        ({"X": np.full((14, 54), 2, np.int16)}, r"other than 0 and 1 in columns 10\.\.53"),
    ],
)
def test_an_archive_in_another_layout(places, change, message):
    np.savez(places[0] / "covtype.npz", **(covtype() | change))
    with pytest.raises(DataError, match=message) as error:
        load_covtype()
    assert "covtype.npz" in str(error.value)


def test_a_missing_array_a_damaged_file_and_a_pickle(places):
    path = places[0] / "covtype.npz"
    np.savez(path, X=covtype()["X"])
    with pytest.raises(DataError, match=r"covtype\.npz has no array y, only X"):
        load_covtype()
    np.savez(path, X=np.array([{"an": "object"}]), y=covtype()["y"])
    with pytest.raises(DataError, match="not a readable NumPy archive"):
        load_covtype()
    for content in (b"", b"nonsense", b"PK\x03\x04 nonsense"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a readable NumPy archive"):
            load_covtype()


def test_the_digest_is_of_the_arrays_that_are_at_hand(places, monkeypatch):
    """The same arrays have the same digest wherever and however they are stored, others have another."""
    named, cache = places
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", lambda **_: pytest.fail("downloaded"))
    assert data_digest("covtype") is None
    write_archive(cache / "covtype.npz", covtype(), compress=True)
    first = data_digest("covtype")
    assert first is not None
    np.savez(named / "covtype.npz", **covtype())
    assert data_digest("covtype") == first
    changed = covtype()
    changed["X"][3, 0] += 1
    np.savez(named / "covtype.npz", **changed)
    os.utime(named / "covtype.npz", (0, 0))  # a file system's clock may be too coarse for two changes in a row
    assert data_digest("covtype") not in (None, first)
    (named / "covtype.npz").write_bytes(b"nonsense")
    assert data_digest("covtype") is None
