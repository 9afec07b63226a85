"""A language model as a function from prompts and texts to scores of the classes.

=========  ==========  ==============================================================================================
symbol     shape       meaning
=========  ==========  ==============================================================================================
d, p, w    scalar      dimension, tokens of the instruction, width of the model
z          (d,)        the variables, in [-1, 1]^d
E          (p, w)      vectors of the instruction's tokens
A          (p w, d)    random projection: independent normal entries; the columns are about as long as a multiple of a
                       token's vector
E + A z    (p, w)      the soft prompt
=========  ==========  ==============================================================================================

Reference:
    T. Sun et al., "Black-Box Tuning for Language-Model-as-a-Service", ICML 2022 (the random projection).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fzoos_experiments.tasks.models import Tensor, torch
from fzoos_experiments.tasks.prompt.llama import Llama, Packed
from fzoos_experiments.tasks.prompt.model_file import ModelFile
from fzoos_experiments.tasks.replay import Replayed

__all__ = ["Encoded", "Scorer", "load_model"]

_TOKENS_AT_ONCE = {"cpu": 2**12, "cuda": 2**16}


class Encoded(NamedTuple):
    """Texts on the device, packed into as few sequences as memory allows."""

    packs: tuple[Packed, ...]
    name: int  # unique among those of a scorer


@lru_cache(maxsize=2)
def load_model(path: Path, device: str, dtype: str) -> tuple[Any, Llama]:
    """Load tokenizer and model of a GGUF file; the last two files are cached.

    Args:
        path: the file.
        device: "cpu" or "cuda".
        dtype: "float32" or "float16".
    """
    file = ModelFile(path)
    return file.tokenizer, Llama(file.sizes, file.weights(), device, dtype)


class Scorer:
    """A language model with an instruction, a projection and classes.

    Args:
        tokenizer: the tokenizer of the model.
        model: the language model.
        instruction: the text whose vectors are the initial prompt.
        classes: the answers, each a single token with a blank before it.
        dim: d, the dimension of z.
        scale: the length of A's columns, in units of a token's vector: its entries have the deviation of the
            embeddings times scale / sqrt(p).
        seed: the seed of A.

    Raises:
        ValueError: a class is several tokens.
    """

    def __init__(
        self,
        tokenizer: Any,
        model: Llama,
        instruction: str,
        classes: Sequence[str],
        dim: int,
        scale: float,
        seed: int,
    ) -> None:
        self._tokenizer, self.model, self._replayed = tokenizer, model, Replayed(model.device)
        self._names = itertools.count()
        self._at_once = _TOKENS_AT_ONCE[model.device.partition(":")[0]]
        self._classes = torch.as_tensor([self._single(name) for name in classes], device=model.device)
        tokens = tokenizer.encode(instruction).ids
        if not tokens:
            raise ValueError("instruction is empty: a prompt needs at least one token")
        self._start = model.embed([tokens])[0].float()  # E
        deviation = scale * float(model.embedding.float().std()) / len(tokens) ** 0.5
        a = np.random.default_rng(seed).standard_normal((self._start.numel(), dim), np.float32)
        self._projection = torch.as_tensor(a * np.float32(deviation), device=model.device)

    @property
    def prompt_tokens(self) -> int:
        """p, the number of tokens of a prompt."""
        return len(self._start)

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Tokenize and pack texts.

        Raises:
            ValueError: a text does not fit into the context.
        """
        tokens = [tuple(encoding.ids) for encoding in self._tokenizer.encode_batch(list(texts))]
        room = self.model.sizes.context - self.prompt_tokens
        for text, found in zip(texts, tokens, strict=True):
            if not 0 < len(found) <= room:
                begin = text if len(text) <= 40 else f"{text[:37]}..."
                raise ValueError(f"the text {begin!r} has {len(found)} tokens, the model has room for 1 to {room}")
        packs: list[list[tuple[int, ...]]] = [[]]
        for found in tokens:
            if packs[-1] and sum(map(len, packs[-1])) + len(found) > self._at_once:
                packs.append([])
            packs[-1].append(found)
        packed = tuple(self.model.pack(pack, self.prompt_tokens) for pack in packs)
        return Encoded(packed, next(self._names))

    def prompts(self, z: Tensor) -> Tensor:
        """E + A z, (n, d) -> (n, p, w)."""
        return self._start + (z @ self._projection.T).unflatten(-1, self._start.shape)

    def score(self, z: Tensor, texts: Encoded) -> Tensor:
        """Scores of the classes for n prompts times m texts, (n, d) -> (n, m, K), in as few passes as memory allows.

        Args:
            z: the variables, on the model's device.
            texts: texts from `encode`.
        """

        def work(some: Tensor) -> Tensor:
            return self._pass(self.prompts(some), texts, self._classes)

        return torch.cat([self._replayed(texts.name, work, z[rows]) for rows in self._passes(len(z), texts)])

    def losses(self, z: Tensor, texts: Encoded, labels: Tensor) -> Tensor:
        """Mean cross entropy of each prompt, (n, d) -> (n,), from the probabilities of the classes."""
        scores = self.score(z, texts).log_softmax(-1)
        return -scores[:, torch.arange(len(labels), device=labels.device), labels].mean(-1)

    def say(self, z: Tensor, texts: Encoded) -> list[str]:
        """The most probable next token of the whole vocabulary after one prompt and each text."""
        best = self._pass(self.prompts(z), texts, None)[0].argmax(-1).tolist()
        return [str(self._tokenizer.decode([i])) for i in best]

    def _pass(self, prompts: Tensor, texts: Encoded, tokens: Tensor | None) -> Tensor:
        return torch.cat([self.model.scores(prompts, pack, tokens) for pack in texts.packs], dim=1)

    def _passes(self, n: int, texts: Encoded) -> Iterator[slice]:
        most = max(1, self._at_once // max(len(pack.cos) for pack in texts.packs))
        at_once = -(-n // -(-n // most))  # equal sizes: one recording serves nearly all passes
        return (slice(i, min(i + at_once, n)) for i in range(0, n, at_once))

    def _single(self, name: str) -> int:
        tokens = self._tokenizer.encode(f" {name}").ids
        if len(tokens) != 1:
            raise ValueError(f"classes has {name!r}, which is {len(tokens)} tokens of this model, expected one")
        return int(tokens[0])
