"""What is read from a GGUF file, and what is said of files that cannot be used."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos_experiments.tasks.prompt import ModelFile, ModelFileError


def test_sizes_weights_and_tokens(tiny):
    """As they were written; a matrix that was quantised to eight bits, to within half a step of its blocks of 32
    (and the rounding of 127 steps to float16, whose numbers have 11 bits)."""
    file = ModelFile(tiny.path)
    assert file.sizes.__dict__ == pytest.approx(tiny.sizes.__dict__)
    assert file.licence == "apache-2.0"
    written, read = tiny.weights(len(file.weights()["token_embd.weight"])), file.weights()
    assert read.keys() == written.keys()
    gate = "blk.0.ffn_gate.weight"
    for name in written.keys() - {gate}:
        np.testing.assert_array_equal(read[name], written[name])
    steps = np.abs(written[gate]).reshape(-1, 32).max(axis=1, keepdims=True) / 127
    assert np.all(abs(read[gate] - written[gate]).reshape(-1, 32) <= (0.5 + 127 / 2**11) * steps)
    assert np.any(read[gate] != written[gate])


def test_the_tokenizer_gives_the_text_back(tiny):
    """Bytes of any language, digits one by one, and merges where there are any."""
    tokenizer = ModelFile(tiny.path).tokenizer
    for text in (" a b", "naïve 12 Ω", "\nSection:"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert len(tokenizer.encode(" a").ids) == 1
    assert len(tokenizer.encode(" d").ids) == 2
    assert len(tokenizer.encode("<|end|>").ids) == 1


def test_another_architecture(tiny, tmp_path):
    path = tiny.write(tmp_path / "other.gguf", architecture="mamba")
    with pytest.raises(ModelFileError, match=r"other\.gguf has the architecture 'mamba', expected 'llama'"):
        ModelFile(path)


def test_no_gguf_file(tiny, tmp_path):
    path = tmp_path / "text.gguf"
    path.write_text("no model")
    with pytest.raises(ModelFileError, match=r"text\.gguf is not a readable GGUF file"):
        ModelFile(path)
