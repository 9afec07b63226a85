"""The attention as one kernel sees what each sequence alone would; on a CPU Triton's interpreter runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fzoos_experiments.tasks.prompt import attention  # noqa: E402
from fzoos_experiments.tasks.prompt.llama import fill_parts  # noqa: E402


def plain_attention(q, k, v, positions):
    """One head of one sequence, in float64: neighbours j and c / 2 + j are real and imaginary part, which is turned."""
    n, c = q.shape
    angles = np.exp(1j * positions[:, None] * 10_000.0 ** (-2 * np.arange(c // 2) / c))

    def turn(x):
        z = (x[:, : c // 2] + 1j * x[:, c // 2 :]) * angles
        return np.concatenate((z.real, z.imag), axis=1)

    shares = np.exp(turn(q) @ turn(k).T / np.sqrt(c)) * np.tri(n)
    return shares / shares.sum(axis=1, keepdims=True) @ v


def check(device, kind, tolerance, before, parts, prompts=2, heads=2, group=3, c=32):
    """Against each text alone behind its prompt: heads of queries share keys, parts are of several texts."""
    rng = np.random.default_rng(0)
    lengths = [before, *(n for part in parts for n in part)]
    total, numbers = sum(lengths), np.repeat(np.arange(len(lengths)), lengths)
    positions = np.concatenate([np.arange(n) + before * (k > 0) for k, n in enumerate(lengths)])
    angles = positions[:, None] * 10_000.0 ** (-2 * np.arange(c // 2) / c)
    mixed = torch.as_tensor(rng.normal(size=(prompts, total, heads * (group + 2) * c)), dtype=kind, device=device)
    cos, sin = (torch.as_tensor(x, dtype=kind, device=device) for x in (np.cos(angles), np.sin(angles)))
    starts = np.cumsum([0, before, *map(sum, parts)])
    text, starts = (torch.as_tensor(x, dtype=torch.int32, device=device) for x in (numbers, starts))
    rows = attention.rows_for(max(before, *map(sum, parts)))
    found = attention.attend(mixed, cos, sin, text, starts, before, rows, heads).cpu().double().numpy()
    assert found.shape == (prompts, total, heads * group * c)
    x = mixed.cpu().double().numpy().reshape(prompts, total, heads * (group + 2), c)
    for n in range(prompts):
        for number in range(len(lengths)):
            own = np.flatnonzero((numbers == number) | (numbers == 0))
            for i in range(heads * group):
                j = heads * group + i // group
                q, k, v = x[n, own, i], x[n, own, j], x[n, own, j + heads]
                expected = plain_attention(q, k, v, positions[own])[numbers[own] == number]
                mine = found[n, numbers == number, i * c : (i + 1) * c]
                np.testing.assert_allclose(mine, expected, rtol=tolerance, atol=tolerance)


CASES = [(5, [[3, 1, 7], [64], [60, 4]]), (20, [[128], [60, 68], [1]]), (1, [[1]])]


@pytest.mark.skipif(
    not attention.is_available(32) or torch.cuda.is_available(), reason="no Triton, or a GPU to run it on"
)
def test_interpreted_kernel_sees_what_each_text_alone_does():
    """Full parts, parts of several texts, of one token; prompts of one token and of more than a power of two."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}  # read when the kernel is built: in a process of its own
    subprocess.run([sys.executable, Path(__file__)], check=True, timeout=300, env=environment)


@pytest.mark.skipif(not (attention.is_available(32) and torch.cuda.is_available()), reason="no GPU")
@pytest.mark.parametrize(("before", "parts"), CASES)
@pytest.mark.parametrize("c", [32, 64])
def test_kernel_sees_what_each_text_alone_does_on_a_gpu(before, parts, c):
    check("cuda", torch.float16, 5e-3, before, parts, prompts=3, heads=3, c=c)


def test_heads_that_the_kernel_has_no_products_for():
    assert not attention.is_available(48)
    assert not attention.is_available(16)


def test_parts():
    """Every text once, no part over its room save one of a single text, and no two parts that would fit into one."""
    lengths = np.random.default_rng(0).integers(1, 40, 200).tolist()
    parts = fill_parts([*lengths, 300], room=128)
    assert sorted(i for part in parts for i in part) == list(range(201))
    assert parts[0] == [200]
    fill = sorted(sum(lengths[i] for i in part) for part in parts[1:])
    assert fill[-1] <= 128 < fill[0] + fill[1]


if __name__ == "__main__":
    for before, parts in CASES:
        check("cpu", torch.float32, 1e-4, before, parts)
