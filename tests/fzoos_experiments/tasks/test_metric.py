"""The metric task: scores, the batched network, training, the clients' objectives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score, jaccard_score, precision_score, recall_score
from sklearn.neural_network import MLPClassifier

from fzoos import FedZO, minimize
from fzoos_experiments.tasks import mlp
from fzoos_experiments.tasks.clients import WeakModelError
from fzoos_experiments.tasks.data import Table
from fzoos_experiments.tasks.metric import Metric
from fzoos_experiments.tasks.mlp import DIM, LAYERS, Confusion, logits, unpack
from fzoos_experiments.tasks.scores import SCORES
from fzoos_experiments.tasks.split import split_by_class

SKLEARN = {"precision": precision_score, "recall": recall_score, "f1": f1_score, "jaccard": jaccard_score}


def sklearn_score(metric, y, predicted):
    return SKLEARN[metric](y, predicted, average="macro", zero_division=0)


def generated(rows: int, seed: int = 0) -> Table:
    """The layout of Covertype: ten quantities that depend on the class, wilderness area and soil type one-hot."""
    rng = np.random.default_rng(seed)
    y = rng.choice(7, rows, p=[0.36, 0.4, 0.06, 0.04, 0.04, 0.05, 0.05])
    x = np.zeros((rows, 54), dtype=np.int16)
    x[:, :10] = rng.normal(size=(7, 10))[y] * 100 + rng.normal(size=(rows, 10)) * 80
    x[np.arange(rows), 10 + rng.integers(0, 4, rows)] = 1
    x[np.arange(rows), 14 + (5 * y + rng.integers(0, 12, rows)) % 40] = 1
    return Table(x, (y + 1).astype(np.uint8))


@pytest.fixture(scope="module")
def table() -> Table:
    return generated(3000)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def make(table, cache):
    """A task on the table; its classifier is trained once."""

    def metric(name="precision", **settings) -> Metric:
        return Metric(name, **{"data": table, "cache": cache, "epochs": 20, **settings})

    return metric


def around_zero(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.2, 0.2, (n, DIM))


def predictions(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One network, written out, in float64."""
    (w1, w2, w3), (b1, b2, b3) = unpack(theta)
    h1 = np.maximum(x @ w1.T + b1, 0)
    h2 = np.maximum(h1 @ w2.T + b2, 0)
    return np.argmax(h2 @ w3.T + b3, axis=1)


def test_d_is_2189():
    # A network 54-30-14-7: weights and biases of three layers.
    assert 54 * 30 + 30 + 30 * 14 + 14 + 14 * 7 + 7 == DIM == Metric().dim == 2189
    task = Metric()
    assert task.bounds == (-0.2, 0.2)
    assert task.clients == 7
    np.testing.assert_array_equal(task.x0, np.zeros(2189))


# The scores


@pytest.mark.parametrize("metric", SCORES)
def test_scores_are_scikit_learns(metric):
    rng = np.random.default_rng(0)
    for _ in range(60):
        # Few rows, and classes of which some occur in neither, some in one of the two.
        y, predicted = (rng.choice(rng.choice(7, rng.integers(1, 8)), 25) for _ in range(2))
        confusion = confusion_matrix(y, predicted, labels=range(7))
        assert SCORES[metric](confusion) == pytest.approx(sklearn_score(metric, y, predicted), abs=1e-14)


# The network and the packing of its parameters


def test_packing_against_scikit_learns_mlp_with_the_same_weights():
    rng = np.random.default_rng(0)
    theta, x = rng.normal(size=DIM) * 0.3, rng.normal(size=(400, 54))
    weights, biases = unpack(theta)
    theirs = MLPClassifier(LAYERS[1:-1], activation="relu", max_iter=1)
    theirs.partial_fit(x[:7], np.arange(7), classes=np.arange(7))  # makes its arrays
    assert [c.shape for c in theirs.coefs_] == [w.T.shape for w in weights]
    theirs.coefs_, theirs.intercepts_ = [w.T for w in weights], biases
    ours = logits(theta, x)
    softmax = np.exp(ours) / np.exp(ours).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax, theirs.predict_proba(x), rtol=1e-10)
    y = rng.integers(0, 7, 400)
    expected = confusion_matrix(y, theirs.predict(x), labels=range(7))
    np.testing.assert_array_equal(Confusion(x, y)(theta[None, :])[0], expected)


# Confusion matrices of many networks


@pytest.mark.parametrize("block", [64, None])
def test_confusions_do_not_depend_on_blocks_nor_on_the_batch(block, monkeypatch):
    data = generated(203, seed=1)
    x, y = (data.x - data.x.mean(0)) / np.maximum(data.x.std(0), 1e-3), data.y.astype(int) - 1
    theta = np.random.default_rng(2).normal(size=(11, DIM)) * 0.3
    expected = [confusion_matrix(y, predictions(row, x), labels=range(7)) for row in theta]
    monkeypatch.setattr(mlp, "_AT_ONCE", 4)
    confusion = Confusion(x, y, block=block)
    np.testing.assert_array_equal(confusion(theta), expected)
    for n in (0, 1, 3, 4, 5):
        np.testing.assert_array_equal(confusion(theta[:n]), np.reshape(expected[:n], (n, 7, 7)))


# The task


@pytest.mark.parametrize("metric", ["precision"])
def test_objectives_against_a_direct_unbatched_computation(metric, make, table):
    # Half of the data trains, the other half is dealt to the clients by class; f_i = 1 - metric (macro).
    task = make(metric, portion=0.5, seed=3)
    order = np.random.default_rng(0).permutation(len(table.y))
    half = (len(order) + 1) // 2
    train, other = order[:half], order[half:]
    mean, std = table.x[train].mean(axis=0), table.x[train].std(axis=0)
    features = (table.x[other] - mean) / np.where(std > 0, std, 1.0)
    labels = table.y[other]
    x = np.vstack([task.x0, around_zero(3)])
    values = []
    for objective, share in zip(task.objectives, split_by_class(labels, 7, 0.5, seed=3), strict=True):
        expected = [
            1 - sklearn_score(metric, labels[share], 1 + predictions(task.classifier.theta + row, features[share]))
            for row in x
        ]
        np.testing.assert_allclose(objective(x), expected, atol=1e-12)
        np.testing.assert_array_equal([objective(row[None, :])[0] for row in x], objective(x))
        values.append(expected)
    np.testing.assert_allclose([task.value(row) for row in x], np.mean(values, axis=0), atol=1e-12)


def test_the_accuracy_is_that_on_the_other_half(make, table):
    task = make()
    other = np.random.default_rng(0).permutation(len(table.y))[(len(table.y) + 1) // 2 :]
    features = (table.x[other] - task.classifier.mean) / task.classifier.std
    right = np.mean(predictions(task.classifier.theta, features) == table.y[other] - 1)
    assert task.accuracy == pytest.approx(right, abs=1e-12)
    assert right > 0.6  # the most frequent class has less than half of the rows


def test_the_per_user_cache_and_fzoos_data_are_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("FZOOS_DATA", str(tmp_path))
    data = generated(300)
    np.savez(tmp_path / "covtype.npz", X=data.x, y=data.y)
    task = Metric(epochs=2, min_accuracy=0.0)
    assert len(task.objectives) == 7
    assert len(list((tmp_path / "fzoos" / "models").glob("*.npz"))) == 1


def test_minimize_takes_it(make):
    task = make()
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=FedZO(local_steps=2),
        rounds=1,
        vectorized=True,
        monitor=task.value,
        seed=0,
        workers=2,
    )
    assert result.queries == 7 * 2 * 21
    assert result.history[0].monitor == task.value(result.x)


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "accuracy"}, "metric must be one of precision, recall, f1, jaccard, got 'accuracy'"),
        ({"portion": 0.0}, r"portion must be in \(0, 1\], got 0.0"),
        ({"portion": 1.1}, r"portion must be in \(0, 1\], got 1.1"),
        ({"device": "tpu"}, "device must be cpu or cuda, got 'tpu'"),
        ({"clients": 0}, "clients must be at least 1, got 0"),
        ({"samples": 10}, "samples must be at least 100, got 10"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"min_accuracy": 2.0}, r"min_accuracy must be a finite number in \[0, 1\], got 2.0"),
    ],
)
def test_bad_settings_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        Metric(**settings)
    assert "\n" not in str(caught.value)


def test_a_weak_classifier_is_refused(tmp_path):
    task = Metric(data=generated(300), epochs=1, min_accuracy=0.99, cache=tmp_path)
    with pytest.raises(WeakModelError, match=r"the classifier reaches accuracy 0\.\d+, min_accuracy is 0.99: too weak"):
        _ = task.objectives
