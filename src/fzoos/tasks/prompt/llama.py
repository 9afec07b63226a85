r"""The forward pass of a Llama: many prompts times many texts at once, each prompt's keys and values computed once.

=========  ======================  =====================================================================================
symbol     shape                   meaning
=========  ======================  =====================================================================================
P, B, L    scalar                  prompts, texts, tokens of all texts
p, w       scalar                  tokens of a prompt, width of the model
H, G, c    scalar                  heads of keys and values, heads of queries to each of them, width of a head
h          (P, L, w)               a vector for every token of the texts, after each prompt
K, V       (P, H, p, c)            a prompt's keys and values in one block
=========  ======================  =====================================================================================

A block is

    h <- h + W_o attention(rms(h)),    h <- h + W_down (silu(W_gate rms(h)) * W_up rms(h)),

    rms(h) = g h / sqrt(mean(h^2) + epsilon)

where a query looks at the prompt's keys, at its own and at those before it in its text. Queries and keys are first
rotated: the pair (2 j, 2 j + 1) of coordinates by the angle position / base^(2 j / c), which is how GGUF files store
them. Here the rows of W_q and W_k are put into another order first, so that the partners are the two halves of a head:
the products of queries and keys stay what they are, and halves are faster to turn than neighbours.

The texts stand one after another in one sequence, without padding; a mask keeps them apart, and each begins at
position p. So a prompt's keys are not copied for every text, and the products are large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos.tasks.models import Tensor, torch
from fzoos.tasks.prompt.model_file import LlamaSizes, ModelFileError

__all__ = ["Llama", "Packed"]

_BLOCK = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")


class _Block(NamedTuple):
    """The weights of a block; matrices that are applied to the same vectors are one."""

    attention_norm: Tensor  # (w,)
    qkv: Tensor  # (H G c + 2 H c, w)
    output: Tensor  # (w, H G c)
    inner_norm: Tensor  # (w,)
    gate_up: Tensor  # (2 inner, w)
    down: Tensor  # (w, inner)


class _Places(NamedTuple):
    """Where tokens are: their angles, and what each sees."""

    cos: Tensor  # (L, c / 2)
    sin: Tensor
    mask: Tensor  # (G L, keys): 0 where a query sees a key, -inf where it does not


class Packed(NamedTuple):
    """Texts, one after another."""

    tokens: Tensor  # (L,)
    ends: Tensor  # (B,): the places of their last tokens
    places: _Places


class Llama:
    """A Llama on a device, in one precision.

    Args:
        sizes: its sizes and constants.
        weights: its tensors, by the names that GGUF files have for them.
        device: "cpu" or "cuda". On CUDA, what is done number by number is compiled.
        dtype: "float32" or "float16", of weights and activations; norms and softmax are computed in float32.

    Raises:
        ModelFileError: a tensor is missing, or of another shape.

    Example:
        >>> import numpy as np
        >>> from fzoos.tasks.prompt import Llama, LlamaSizes
        >>> sizes = LlamaSizes(1, 8, 2, 1, 4, 16, 32, 10_000.0, 1e-5)
        >>> rng = np.random.default_rng(0)
        >>> shapes = {"token_embd.weight": (5, 8), "output_norm.weight": (8,), **Llama.block_shapes(sizes, 0)}
        >>> model = Llama(sizes, {name: rng.standard_normal(shape) for name, shape in shapes.items()})
        >>> prompt = model.read(model.embed([[1, 2], [2, 3]]))                # two prompts of two tokens
        >>> model.scores(prompt, model.pack([[4], [3, 1, 0]], before=2)).shape      # prompts, texts, tokens
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
        self._prompt_places: dict[int, _Places] = {}
        del self._weights

    @staticmethod
    def block_shapes(sizes: LlamaSizes, i: int) -> dict[str, tuple[int, ...]]:
        """The names and shapes of the tensors of block i."""
        w, inner, q, kv = sizes.width, sizes.inner, sizes.heads * sizes.head_width, sizes.kv_heads * sizes.head_width
        shapes = ((w,), (q, w), (kv, w), (kv, w), (w, q), (w,), (inner, w), (inner, w), (w, inner))
        return {f"blk.{i}.{name}.weight": shape for name, shape in zip(_BLOCK, shapes, strict=True)}

    def flops(self, prompt: int, lengths: Sequence[int]) -> int:
        """Multiplications and additions of the blocks for one prompt and some texts, without padding.

        Args:
            prompt: p, the tokens of the prompt.
            lengths: the tokens of each text.
        """
        s = self.sizes
        q, kv = s.heads * s.head_width, s.kv_heads * s.head_width
        matrices = s.blocks * s.width * (2 * q + 2 * kv + 3 * s.inner)
        own = prompt * (prompt + 1) // 2
        pairs = own + sum(n * prompt + n * (n + 1) // 2 for n in lengths)  # of a query and a key that it sees
        tokens = prompt + sum(lengths)
        return 2 * (tokens * matrices + 2 * s.blocks * pairs * q)

    def embed(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """The vectors of tokens, for sequences of one length: (n, L) -> (n, L, w)."""
        return self.embedding[torch.as_tensor(tokens, device=self.device)]

    def read(self, prompt: Tensor) -> list[tuple[Tensor, Tensor]]:
        """K and V of every block, for P prompts of p vectors each, shape (P, p, w)."""
        h, past = prompt.to(self.device, self.dtype), []
        empty = h.new_zeros(len(h), self.sizes.kv_heads, 0, self.sizes.head_width)
        length = h.shape[1]
        if length not in self._prompt_places:
            self._prompt_places[length] = self._places([length], before=0)
        delta = torch.zeros_like(h)
        for block in self._blocks:
            h, delta, k, v = self._apply(block, h, delta, empty, empty, self._prompt_places[length])
            past.append((k, v))
        return past

    def pack(self, texts: Sequence[Sequence[int]], before: int) -> Packed:
        """Texts as `scores` takes them.

        Args:
            texts: B lists of tokens, none of them empty.
            before: p, the tokens of the prompts that they will follow.
        """
        lengths = [len(text) for text in texts]
        tokens = torch.as_tensor(np.concatenate([np.asarray(text, np.int64) for text in texts]), device=self.device)
        ends = torch.as_tensor(np.cumsum(lengths) - 1, device=self.device)
        return Packed(tokens, ends, self._places(lengths, before))

    def scores(self, past: Sequence[tuple[Tensor, Tensor]], texts: Packed, tokens: Tensor | None = None) -> Tensor:
        """The scores (logits) of tokens for being the next one after each text, float32 of shape (P, B, tokens).

        Args:
            past: what `read` gave for P prompts.
            texts: what `pack` gave for B texts.
            tokens: those whose scores are wanted; None: all.
        """
        h = self.embedding[texts.tokens].expand(len(past[0][0]), -1, -1)
        delta = torch.zeros_like(h)
        for block, (k, v) in zip(self._blocks, past, strict=True):
            h, delta, _, _ = self._apply(block, h, delta, k, v, texts.places)
        last = (h[:, texts.ends] + delta[:, texts.ends]).float()
        output = self._output if tokens is None else self._output[tokens]
        return _rms(last, self._norm.float(), self.sizes.epsilon) @ output.float().T

    def _apply(
        self, block: _Block, h: Tensor, delta: Tensor, past_k: Tensor, past_v: Tensor, places: _Places
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One block, given h and what the last one adds to it; the same, and all keys and values, the prompt's first.

        The G heads of queries that share keys are laid one after another, as if they were G times as many queries: the
        keys need no copies.
        """
        steps = _PLAIN if self.device == "cpu" or torch.is_grad_enabled() else _compiled()
        epsilon, heads = self.sizes.epsilon, (self.sizes.kv_heads, self.sizes.heads // self.sizes.kv_heads)
        h, x = steps.add_and_norm(h, delta, block.attention_norm, epsilon)
        q, k, v = steps.turn_and_join(x @ block.qkv.T, past_k, past_v, places.cos, places.sin, *heads)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=places.mask)
        seen = seen.unflatten(2, (heads[1], h.shape[1])).permute(0, 3, 1, 2, 4).flatten(2)
        h, x = steps.add_and_norm(h, seen @ block.output.T, block.inner_norm, epsilon)
        return h, steps.gate(x @ block.gate_up.T) @ block.down.T, k, v

    def _places(self, lengths: Sequence[int], before: int) -> _Places:
        """Of texts of these lengths after a prompt."""
        positions = before + torch.cat([torch.arange(n) for n in lengths])
        text = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        others = (text[:, None] != text) | (positions[:, None] < positions)
        hidden = torch.nn.functional.pad(others, (before, 0)).repeat(self.sizes.heads // self.sizes.kv_heads, 1)
        rows, columns = hidden.shape
        mask = torch.zeros(rows, -(-columns // 8) * 8, dtype=self.dtype)  # aligned, so that attention needs no copy
        mask[:, :columns].masked_fill_(hidden, -math.inf)
        angles = positions[:, None].double() * self._frequencies
        cos, sin, mask = (t.to(self.device, self.dtype) for t in (angles.cos(), angles.sin(), mask))
        return _Places(cos, sin, mask[:, :columns])

    def _block(self, i: int) -> _Block:
        names = self.block_shapes(self.sizes, i)
        norm, q, k, v, output, inner, gate, up, down = (self._tensor(name, shape) for name, shape in names.items())
        qkv = torch.cat([self._apart(q), self._apart(k), v])
        return _Block(norm, qkv, output, inner, torch.cat([gate, up]), down)

    def _apart(self, matrix: Tensor) -> Tensor:
        """The rows of each head in another order, the even ones first: (2 j, 2 j + 1) become (j, c / 2 + j)."""
        return matrix.unflatten(0, (-1, self.sizes.head_width // 2, 2)).transpose(1, 2).flatten(0, 2)

    def _tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        if name not in self._weights:
            raise ModelFileError(f"the model has no tensor {name}")
        values = self._weights[name]
        if shape is not None and values.shape != shape:
            raise ModelFileError(f"the model's tensor {name} has shape {values.shape}, expected {shape}")
        return torch.as_tensor(values).to(self.device, self.dtype)


def _rms(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(x.dtype) * weight


def _add_and_norm(h: Tensor, delta: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """h + delta, and its norm."""
    h = h + delta
    return h, _rms(h, weight, epsilon)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(P, L, heads, c), the pairs (j, c / 2 + j) turned by the angles (L, c / 2)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def _turn_and_join(
    mixed: Tensor, past_k: Tensor, past_v: Tensor, cos: Tensor, sin: Tensor, kv_heads: int, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (P, H, G L, c), keys and values (P, H, p + L, c), from the products (P, L, (H G + 2 H) c) of a block."""
    n, length, _ = mixed.shape
    head = past_k.shape[3]
    q, k, v = mixed.unflatten(-1, (-1, head)).split((kv_heads * group, kv_heads, kv_heads), dim=2)
    q = _turned(q, cos, sin).permute(0, 2, 1, 3).reshape(n, kv_heads, group * length, head)
    k, v = _turned(k, cos, sin).transpose(1, 2), v.transpose(1, 2)
    return q, torch.cat((past_k, k), dim=2), torch.cat((past_v, v), dim=2)


def _gate(x: Tensor) -> Tensor:
    """silu(gate) up, of gate and up side by side."""
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


class _Steps(NamedTuple):
    """What is done number by number between the matrix products."""

    add_and_norm: Any
    turn_and_join: Any
    gate: Any


_PLAIN = _Steps(_add_and_norm, _turn_and_join, _gate)


@cache
def _compiled() -> _Steps:
    """Each as one kernel or two: otherwise they would take longer than the products."""
    return _Steps(*(torch.compile(step) for step in _PLAIN))
