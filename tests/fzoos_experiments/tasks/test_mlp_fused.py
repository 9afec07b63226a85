"""The network as one kernel counts what the layers one by one count; on a CPU Triton's interpreter runs it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fzoos_experiments.tasks.mlp import DIM, LAYERS, Confusion, pack, unpack  # noqa: E402
from fzoos_experiments.tasks.mlp_fused import FusedConfusion, _places, is_available  # noqa: E402

PROGRAM = """
import numpy as np
from fzoos_experiments.tasks.mlp import Confusion
from fzoos_experiments.tasks.mlp_fused import FusedConfusion
rng = np.random.default_rng(0)
for rows in (1, 127, 1000):
    x, y, theta = rng.normal(size=(rows, 54)), rng.integers(0, 7, rows), rng.normal(size=(3, 2189))
    assert (FusedConfusion(x, y, "cpu")(theta) == Confusion(x, y)(theta)).all()
assert FusedConfusion(x, y, "cpu")(theta[:0]).shape == (0, 7, 7)
"""


def test_matrices_with_their_biases_make_the_same_network():
    """With [theta, 0, 1] put into the places, three products with a rectifier between them are the network's logits."""
    rng = np.random.default_rng(1)
    theta, x = rng.normal(size=DIM), rng.normal(size=(5, LAYERS[0]))
    numbers = np.append(theta, [0.0, 1.0])[_places()]
    w1, w2, w3 = (
        part.reshape(shape)
        for part, shape in zip(np.split(numbers, [2048, 2560]), ((32, 64), (16, 32), (16, 16)), strict=True)
    )
    inputs = np.zeros((5, 64))
    inputs[:, :54], inputs[:, 54] = x, 1.0
    found = np.maximum(np.maximum(inputs @ w1.T, 0.0) @ w2.T, 0.0) @ w3.T
    weights, biases = unpack(theta)
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = np.maximum(x @ w.T + b, 0.0)
    np.testing.assert_allclose(found[:, :7], x @ weights[-1].T + biases[-1], rtol=1e-12)
    np.testing.assert_array_equal(found[:, 7:], 0.0)
    np.testing.assert_array_equal(pack(weights, biases), theta)


@pytest.mark.skipif(not is_available() or torch.cuda.is_available(), reason="no Triton, or a GPU to run it on")
def test_interpreted_kernel_counts_what_the_layers_count(monkeypatch):
    """One row, a block that is not full, and many blocks: the same confusion matrices."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # read when the kernel is built: in a process of its own
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=300)


@pytest.mark.skipif(not (is_available() and torch.cuda.is_available()), reason="no GPU")
def test_kernel_counts_what_the_layers_count_on_a_gpu():
    """Of 20 000 rows none that is not a tie in seven digits is in another class than by the layers in float32."""
    rng = np.random.default_rng(2)
    x, y, theta = rng.normal(size=(20_000, 54)), rng.integers(0, 7, 20_000), rng.normal(size=(30, DIM))
    fused, layers = FusedConfusion(x, y, "cuda")(theta), Confusion(x, y)(theta)
    assert np.abs(fused - layers).sum(axis=(1, 2)).max() <= 20
    np.testing.assert_array_equal(fused.sum(axis=2), layers.sum(axis=2))
