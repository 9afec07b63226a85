r"""The forward pass of a Llama: many prompts times many texts at once, each prompt's keys and values computed once.

=========  ======================  =====================================================================================
symbol     shape                   meaning
=========  ======================  =====================================================================================
P, B       scalar                  prompts, texts
p, S       scalar                  tokens of a prompt; of a prompt and all texts
w          scalar                  width of the model
H, G, c    scalar                  heads of keys and values, heads of queries to each of them, width of a head
h          (P, S, w)               a vector for every token of each prompt and of the texts after it
=========  ======================  =====================================================================================

A block is

    h <- h + W_o attention(rms(h)),    h <- h + W_down (silu(W_gate rms(h)) * W_up rms(h)),

    rms(h) = g h / sqrt(mean(h^2) + epsilon)

where a query attends to the keys of the prompt, to its own and to those before it in its text. Queries and keys are
first rotated: the pair (2 j, 2 j + 1) of coordinates by the angle position / base^(2 j / c), as GGUF files store them.
Here the rows of W_q and W_k are reordered first so that the two halves of a head form the pairs: products of queries
and keys stay the same, and halves are faster to rotate than neighbours.

A prompt and all texts form one sequence without padding, in which each text begins at position p. The matrix products
are over all of it. For the attention the sequence is cut into parts: the prompt, and some texts each. The queries of a
part see the keys of the prompt and of the part, with a mask that separates texts. So a prompt is processed once, and
few masked pairs are computed. After the attention of the last block only the last token of each text is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos_experiments.tasks.models import Tensor, torch
from fzoos_experiments.tasks.prompt.model_file import LlamaSizes, ModelFileError

__all__ = ["Llama", "Packed", "fill_parts"]

_ROOM = 256  # tokens of a part: more of them mean more masked pairs, fewer mean smaller products
_BLOCK = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")


class _Block(NamedTuple):
    """The weights of a block. Matrices that are applied to the same vectors are concatenated."""

    attention_norm: Tensor  # (w,)
    qkv: Tensor  # (H G c + 2 H c, w)
    output: Tensor  # (w, H G c)
    inner_norm: Tensor  # (w,)
    gate_up: Tensor  # (2 inner, w)
    down: Tensor  # (w, inner)


class Packed(NamedTuple):
    """Texts that follow a prompt, packed into one sequence."""

    tokens: Tensor  # (S - p,)
    ends: Tensor  # (B,): the places of the texts' last tokens in the sequence
    cos: Tensor  # (S, c / 2), of the angles
    sin: Tensor
    masks: tuple[Tensor, ...]  # of each part (G tokens, keys): 0 where a query sees a key, -inf where it does not


def fill_parts(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Pack texts into parts of limited room: the longest first, each into the first part with enough room.

    Example:
        >>> from fzoos_experiments.tasks.prompt.llama import fill_parts
        >>> fill_parts([3, 9, 5, 1, 4], room=8)                            # the second text is too long for any
        [[1], [2, 0], [4, 3]]
    """
    parts: list[list[int]] = []
    left: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        k = next((k for k, free in enumerate(left) if free >= lengths[i]), len(parts))
        if k == len(parts):
            parts.append([])
            left.append(room)
        parts[k].append(i)
        left[k] -= lengths[i]
    return parts


class Llama:
    """A Llama on a device, in one precision.

    Args:
        sizes: its sizes and constants.
        weights: its tensors, by the names that GGUF files have for them.
        device: "cpu" or "cuda". On CUDA, elementwise operations are compiled.
        dtype: "float32" or "float16", of weights and activations; norms and softmax are computed in float32.

    Raises:
        ModelFileError: a tensor is missing, or of another shape.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.prompt import Llama, LlamaSizes
        >>> sizes = LlamaSizes(1, 8, 2, 1, 4, 16, 32, 10_000.0, 1e-5)
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"token_embd.weight": (5, 8), "output_norm.weight": (8,), **Llama.block_shapes(sizes, 0)}
        >>> model = Llama(sizes, {name: rng.standard_normal(shape) for name, shape in shapes.items()})
        >>> prompts = model.embed([[1, 2], [2, 3]])                            # two of two tokens
        >>> model.scores(prompts, model.pack([[4], [3, 1, 0]], before=2)).shape      # prompts, texts, tokens
        torch.Size([2, 2, 5])
    """

    def __init__(
        self,
        sizes: LlamaSizes,
        weights: Mapping[str, NDArray[Any]],
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        self.sizes, self.device, self.dtype = sizes, device, getattr(torch, dtype)
        self._weights = weights
        self.embedding = self._tensor("token_embd.weight")  # (tokens, w)
        vocabulary = len(self.embedding)
        self._norm = self._tensor("output_norm.weight", (sizes.width,))
        tied = "output.weight" not in weights
        self._output = self.embedding if tied else self._tensor("output.weight", (vocabulary, sizes.width))
        self._blocks = [self._block(i) for i in range(sizes.blocks)]
        factors = weights.get("rope_freqs.weight", np.ones(sizes.head_width // 2))
        exponents = np.arange(sizes.head_width // 2) * 2 / sizes.head_width
        self._frequencies = torch.as_tensor(sizes.rope_base**-exponents / factors, dtype=torch.float64)
        del self._weights

    @staticmethod
    def block_shapes(sizes: LlamaSizes, i: int) -> dict[str, tuple[int, ...]]:
        """The names and shapes of the tensors of block i."""
        w, inner, q, kv = sizes.width, sizes.inner, sizes.heads * sizes.head_width, sizes.kv_heads * sizes.head_width
        shapes = ((w,), (q, w), (kv, w), (kv, w), (w, q), (w,), (inner, w), (inner, w), (w, inner))
        return {f"blk.{i}.{name}.weight": shape for name, shape in zip(_BLOCK, shapes, strict=True)}

    def embed(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Embed token sequences of one length: (n, L) -> (n, L, w)."""
        return self.embedding[torch.as_tensor(tokens, device=self.device)]

    def pack(self, texts: Sequence[Sequence[int]], before: int) -> Packed:
        """Pack texts into one sequence for `scores`.

        Args:
            texts: B lists of tokens, none of them empty.
            before: p, the number of tokens of the prompts before them.
        """
        parts = fill_parts([len(text) for text in texts], _ROOM)
        order = [i for part in parts for i in part]
        lengths = [before, *(len(texts[i]) for i in order)]
        ends = np.empty(len(texts), np.int64)
        ends[order] = np.cumsum(lengths)[1:] - 1
        starts = np.cumsum([0, before, *(sum(len(texts[i]) for i in part) for part in parts)])
        text = np.repeat(np.arange(len(lengths)), lengths)
        positions = np.concatenate([np.arange(n) + before * (k > 0) for k, n in enumerate(lengths)])
        angles = torch.as_tensor(positions)[:, None] * self._frequencies
        return Packed(
            self._on_device(np.concatenate([np.asarray(texts[i], np.int64) for i in order])),
            self._on_device(ends),
            angles.cos().to(self.device, self.dtype),
            angles.sin().to(self.device, self.dtype),
            tuple(self._mask(text, before, *bounds) for bounds in pairwise(starts.tolist())),
        )

    def scores(self, prompts: Tensor, texts: Packed, tokens: Tensor | None = None) -> Tensor:
        """The scores (logits) of tokens for being the next one after each text, float32 of shape (P, B, tokens).

        Args:
            prompts: P prompts of p vectors each, shape (P, p, w).
            texts: B texts from `pack`.
            tokens: the tokens that are scored; None: all.
        """
        steps = _PLAIN if self.device == "cpu" or torch.is_grad_enabled() else _compiled()
        epsilon, last = self.sizes.epsilon, self._blocks[-1]
        words = self.embedding[texts.tokens].expand(len(prompts), -1, -1)
        h = torch.cat((prompts.to(self.device, self.dtype), words), dim=1)
        for block in self._blocks:
            seen = self._attention(steps, steps.norm(h, block.attention_norm, epsilon) @ block.qkv.T, texts)
            if block is last:
                h, seen = h.index_select(1, texts.ends), seen.index_select(1, texts.ends)
            h = _add_product(h, seen, block.output)
            x = steps.norm(h, block.inner_norm, epsilon)
            h = _add_product(h, steps.gate(x @ block.gate_up.T), block.down)
        output = self._output if tokens is None else self._output[tokens]
        return _norm(h.float(), self._norm.float(), epsilon) @ output.float().T

    def _attention(self, steps: _Steps, mixed: Tensor, texts: Packed) -> Tensor:
        """The attention of each token, (P, S, H G c), from the products (P, S, (H G + 2 H) c) of a block.

        The G heads of queries that share keys are concatenated, as G times as many queries, so that keys are not
        copied.
        """
        heads, group = self.sizes.kv_heads, self.sizes.heads // self.sizes.kv_heads
        before, lengths = len(texts.cos) - len(texts.tokens), [len(mask) // group for mask in texts.masks]
        q, k, v = steps.rotate(mixed, texts.cos, texts.sin, heads, group)
        seen: list[Tensor] = []
        for own_q, own_k, own_v, mask in zip(*(x.split(lengths, dim=-2) for x in (q, k, v)), texts.masks, strict=True):
            if seen:  # the prompt's own part comes first
                own_k, own_v = torch.cat((k[:, :, :before], own_k), 2), torch.cat((v[:, :, :before], own_v), 2)
            found = torch.nn.functional.scaled_dot_product_attention(own_q.flatten(2, 3), own_k, own_v, attn_mask=mask)
            seen.append(found.unflatten(2, (group, -1)).permute(0, 3, 1, 2, 4).flatten(2))
        return torch.cat(seen, dim=1)

    def _mask(self, text: NDArray[np.int64], before: int, start: int, stop: int) -> Tensor:
        """The mask of the part between two positions of the sequence."""
        own = np.arange(start, stop)
        hidden = (text[own, None] != text[own]) | (own[:, None] < own)
        seen = np.pad(hidden, ((0, 0), (before if start else 0, 0)))
        rows, columns = seen.shape
        mask = torch.zeros(rows, -(-columns // 8) * 8, dtype=self.dtype)  # aligned, so that attention needs no copy
        mask[:, :columns].masked_fill_(torch.as_tensor(seen), -math.inf)
        return mask.repeat(self.sizes.heads // self.sizes.kv_heads, 1).to(self.device)[:, :columns]

    def _block(self, i: int) -> _Block:
        names = self.block_shapes(self.sizes, i)
        norm, q, k, v, output, inner, gate, up, down = (self._tensor(name, shape) for name, shape in names.items())
        qkv = torch.cat([self._apart(q), self._apart(k), v])
        return _Block(norm, qkv, output, inner, torch.cat([gate, up]), down)

    def _apart(self, matrix: Tensor) -> Tensor:
        """Reorder the rows of each head, the even ones first: (2 j, 2 j + 1) become (j, c / 2 + j)."""
        return matrix.unflatten(0, (-1, self.sizes.head_width // 2, 2)).transpose(1, 2).flatten(0, 2)

    def _on_device(self, values: NDArray[Any]) -> Tensor:
        return torch.as_tensor(values, device=self.device)

    def _tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        if name not in self._weights:
            raise ModelFileError(f"the model has no tensor {name}")
        values = self._weights[name]
        if shape is not None and values.shape != shape:
            raise ModelFileError(f"the model's tensor {name} has shape {values.shape}, expected {shape}")
        return torch.as_tensor(values).to(self.device, self.dtype)


def _add_product(h: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """h + x W^T, written over h unless gradients need it."""
    if torch.is_grad_enabled():
        return h + x @ matrix.T
    h.view(-1, h.shape[-1]).addmm_(x.reshape(-1, x.shape[-1]), matrix.T)
    return h


def _norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype) * weight


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(P, S, heads, c), the pairs (j, c / 2 + j) rotated by the angles (S, c / 2)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def _rotate(mixed: Tensor, cos: Tensor, sin: Tensor, heads: int, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (P, H, G, S, c), keys and values (P, H, S, c), from the products of a block."""
    q, k, v = mixed.unflatten(-1, (heads * (group + 2), -1)).split((heads * group, heads, heads), dim=2)
    q, k = _rotated(q, cos, sin).unflatten(2, (heads, group)), _rotated(k, cos, sin)
    return q.permute(0, 2, 3, 1, 4), k.transpose(1, 2), v.transpose(1, 2)


def _gate(x: Tensor) -> Tensor:
    """silu(gate) up, of gate and up side by side."""
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


class _Steps(NamedTuple):
    """The elementwise operations between the matrix products."""

    norm: Any
    rotate: Any
    gate: Any


_PLAIN = _Steps(_norm, _rotate, _gate)


@cache
def _compiled() -> _Steps:
    """The elementwise operations as compiled kernels: uncompiled they take longer than the matrix products."""
    return _Steps(*(torch.compile(step) for step in _PLAIN))
