"""Two products and the gate between them as one kernel; on a CPU Triton's interpreter runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fzoos_experiments.tasks.prompt import gated  # noqa: E402

AVAILABLE = gated.is_available(64, 128)
SHAPES = [(1, 64, 128), (130, 64, 256), (1100, 128, 128)]  # one row, part of a tile, more tiles than neighbours


def check(device, kind, tolerance, rows, width, inner):
    """Against the formula in float64."""
    rng = np.random.default_rng(0)
    x, matrix = rng.normal(size=(rows, width)), rng.normal(size=(2 * inner, width)) / np.sqrt(width)
    x, matrix = (torch.as_tensor(a, dtype=kind, device=device) for a in (x, matrix))
    found = gated.gated(x[None], matrix)[0].cpu().double().numpy()
    gate, up = np.split(x.cpu().double().numpy() @ matrix.cpu().double().numpy().T, 2, axis=1)
    np.testing.assert_allclose(found, gate / (1 + np.exp(-gate)) * up, rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(not AVAILABLE or torch.cuda.is_available(), reason="no Triton, or a GPU to run it on")
def test_interpreted_kernel_is_the_formula():
    environment = os.environ | {"TRITON_INTERPRET": "1"}  # read when the kernel is built: in a process of its own
    subprocess.run([sys.executable, Path(__file__)], check=True, timeout=300, env=environment)


@pytest.mark.skipif(not (AVAILABLE and torch.cuda.is_available()), reason="no GPU")
@pytest.mark.parametrize(("rows", "width", "inner"), [*SHAPES, (5000, 576, 1536)])
def test_kernel_is_the_formula_on_a_gpu(rows, width, inner):
    check("cuda", torch.float16, 5e-3, rows, width, inner)


def test_matrices_that_are_not_whole_tiles():
    assert not gated.is_available(72, 128)
    assert not gated.is_available(64, 192)


if __name__ == "__main__":
    for shape in SHAPES:
        check("cpu", torch.float32, 1e-4, *shape)
