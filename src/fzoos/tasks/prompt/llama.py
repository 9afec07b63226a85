r"""The forward pass of a Llama: many prompts times many texts at once, each prompt's keys and values computed once.

=========  ======================  =====================================================================================
symbol     shape                   meaning
=========  ======================  =====================================================================================
P, B, L    scalar                  prompts, texts, tokens of the longest text
p, w       scalar                  tokens of a prompt, width of the model
H, G, c    scalar                  heads of keys and values, heads of queries to each of them, width of a head
h          (n, L, w)               a vector for every token of n = P B sequences
K, V       (P, H, p, c)            a prompt's keys and values in one block
=========  ======================  =====================================================================================

A block is

    h <- h + W_o attention(rms(h)),    h <- h + W_down (silu(W_gate rms(h)) * W_up rms(h)),

    rms(h) = g h / sqrt(mean(h^2) + epsilon)

where a query looks at the prompt's keys, at its own and at those before it in the text. Queries and keys are first
rotated: the pair (2 j, 2 j + 1) of coordinates by the angle position / base^(2 j / c), which is how GGUF files store
them (interleaved; other formats have the two halves of a head as partners).

Texts are padded on the right: what comes after a text's last token is not seen by it.
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

__all__ = ["Llama"]

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
        >>> model.scores(prompt, model.rows([[4], [3, 1, 0]])).shape          # prompts, texts, tokens
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
        self._known_places: dict[tuple[int, int], _Places] = {}
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
        places, delta = self._places(0, prompt.shape[1]), torch.zeros_like(h)
        for block in self._blocks:
            h, delta, k, v = self._apply(block, h, delta, empty, empty, places)
            past.append((k, v))
        return past

    def rows(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Texts as `scores` takes them: a row of tokens for each, filled up on the right, and where each ends."""
        filled = np.zeros((len(texts), max(map(len, texts))), np.int64)  # with token 0, which nobody sees
        for row, text in zip(filled, texts, strict=True):
            row[: len(text)] = text
        ends = [len(text) - 1 for text in texts]
        return torch.as_tensor(filled, device=self.device), torch.as_tensor(ends, device=self.device)

    def scores(
        self, past: Sequence[tuple[Tensor, Tensor]], texts: tuple[Tensor, Tensor], tokens: Tensor | None = None
    ) -> Tensor:
        """The scores (logits) of tokens for being the next one after each text, float32 of shape (P, B, tokens).

        Args:
            past: what `read` gave for P prompts.
            texts: what `rows` gave for B texts.
            tokens: those whose scores are wanted; None: all.
        """
        prompts, before = past[0][0].shape[0], past[0][0].shape[2]
        rows, ends = texts
        n, length = rows.shape
        h = self.embedding[rows].expand(prompts, n, length, -1).flatten(0, 1)
        places, delta = self._places(before, length), torch.zeros_like(h)
        for block, (k, v) in zip(self._blocks, past, strict=True):
            h, delta, _, _ = self._apply(block, h, delta, k, v, places)
        last = (h + delta).unflatten(0, (prompts, n)).gather(2, ends.view(1, n, 1, 1).expand(prompts, n, 1, h.shape[2]))
        output = self._output if tokens is None else self._output[tokens]
        return _rms(last[:, :, 0].float(), self._norm.float(), self.sizes.epsilon) @ output.float().T

    def _apply(
        self, block: _Block, h: Tensor, delta: Tensor, past_k: Tensor, past_v: Tensor, places: _Places
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One block, given h and what the last one adds to it; the same, and all keys and values, the prompt's first.

        The G heads of queries that share keys are laid one after another, as if they were G texts' worth of queries:
        the keys need no copies, and small matrices become larger ones.
        """
        steps = _PLAIN if self.device == "cpu" or torch.is_grad_enabled() else _compiled()
        epsilon, heads = self.sizes.epsilon, (self.sizes.kv_heads, self.sizes.heads // self.sizes.kv_heads)
        h, x = steps.add_and_norm(h, delta, block.attention_norm, epsilon)
        q, k, v = steps.turn_and_join(x @ block.qkv.T, past_k, past_v, places.cos, places.sin, *heads)
        seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=places.mask)
        seen = seen.unflatten(2, (heads[1], h.shape[1])).permute(0, 3, 1, 2, 4).flatten(2)
        h, x = steps.add_and_norm(h, seen @ block.output.T, block.inner_norm, epsilon)
        return h, steps.gate(x @ block.gate_up.T) @ block.down.T, k, v

    def _places(self, before: int, length: int) -> _Places:
        if (before, length) not in self._known_places:
            positions = torch.arange(before, before + length)
            angles = positions[:, None].double() * self._frequencies
            hidden = torch.arange(before + length) > positions[:, None]
            group = self.sizes.heads // self.sizes.kv_heads
            mask = torch.zeros(hidden.shape).masked_fill(hidden, -math.inf).repeat(group, 1)
            cos, sin = (t.to(self.device, self.dtype) for t in (angles.cos(), angles.sin()))
            self._known_places[before, length] = _Places(cos, sin, self._aligned(mask))
        return self._known_places[before, length]

    def _aligned(self, mask: Tensor) -> Tensor:
        """The mask on the device, its rows 16 bytes apart or a multiple: attention then needs no copy of it."""
        wide = torch.zeros(len(mask), -(-mask.shape[1] // 8) * 8, device=self.device, dtype=self.dtype)
        wide[:, : mask.shape[1]] = mask
        return wide[:, : mask.shape[1]]

    def _block(self, i: int) -> _Block:
        names = self.block_shapes(self.sizes, i)
        norm, q, k, v, output, inner, gate, up, down = (self._tensor(name, shape) for name, shape in names.items())
        return _Block(norm, torch.cat([q, k, v]), output, inner, torch.cat([gate, up]), down)

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
    """(n, L, ..., c), pairs of neighbours turned by the angles (L, c / 2)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    shape = (len(cos), *[1] * (x.ndim - 3), cos.shape[1])
    cos, sin = cos.view(shape), sin.view(shape)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _turn_and_join(
    mixed: Tensor, past_k: Tensor, past_v: Tensor, cos: Tensor, sin: Tensor, kv_heads: int, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (n, H, G L, c), keys and values (n, H, p + L, c), from the products (n, L, (H G + 2 H) c) of a block."""
    n, length, head = len(mixed), mixed.shape[1], past_k.shape[3]
    q, k, v = mixed.unflatten(-1, (-1, head)).split((kv_heads * group, kv_heads, kv_heads), dim=2)
    q = _turned(q.unflatten(2, (kv_heads, group)), cos, sin)
    q = q.permute(0, 2, 3, 1, 4).reshape(n, kv_heads, group * length, head)
    k, v = _turned(k, cos, sin).transpose(1, 2), v.transpose(1, 2)
    each = n // len(past_k)  # texts of a prompt
    past = [x[:, None].expand(-1, each, -1, -1, -1).flatten(0, 1) for x in (past_k, past_v)]
    return q, torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)


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
    return _Steps(*(torch.compile(step, dynamic=True) for step in _PLAIN))
