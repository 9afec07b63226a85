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
from collections.abc import Callable, Mapping, Sequence
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
        device: "cpu" or "cuda". On CUDA the blocks are compiled.
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
        >>> model.scores(prompt, [[4], [3, 1, 0]]).shape                      # prompts, texts, tokens
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
        on_gpu = device != "cpu"
        self._run: Callable[..., Any] = torch.compile(_block, dynamic=True) if on_gpu else _block

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
        places = self._places(0, prompt.shape[1])
        empty = h.new_zeros(len(h), self.sizes.kv_heads, 0, self.sizes.head_width)
        for block in self._blocks:
            h, k, v = self._apply(block, h, empty, empty, places)
            past.append((k, v))
        return past

    def scores(
        self, past: Sequence[tuple[Tensor, Tensor]], texts: Sequence[Sequence[int]], tokens: Tensor | None = None
    ) -> Tensor:
        """The scores (logits) of tokens for being the next one after each text, float32 of shape (P, B, tokens).

        Args:
            past: what `read` gave for P prompts.
            texts: B lists of tokens, none of them empty.
            tokens: those whose scores are wanted; None: all.
        """
        prompts, before = past[0][0].shape[0], past[0][0].shape[2]
        rows = torch.as_tensor(_padded(texts), device=self.device)
        last = torch.as_tensor([len(text) - 1 for text in texts], device=self.device)
        n, length = rows.shape
        h = self.embedding[rows].expand(prompts, n, length, -1).flatten(0, 1)
        places = self._places(before, length)
        for block, (k, v) in zip(self._blocks, past, strict=True):
            h, _, _ = self._apply(block, h, _each(k, n), _each(v, n), places)
        ends = h.unflatten(0, (prompts, n))[:, torch.arange(n, device=self.device), last]
        output = self._output if tokens is None else self._output[tokens]
        return _rms(ends, self._norm, self.sizes.epsilon).float() @ output.float().T

    def _apply(self, block: _Block, h: Tensor, k: Tensor, v: Tensor, places: _Places) -> Any:
        run = _block if torch.is_grad_enabled() else self._run
        return run(h, k, v, *block, *places, self.sizes.heads // self.sizes.kv_heads, self.sizes.epsilon)

    def _places(self, before: int, length: int) -> _Places:
        positions = torch.arange(before, before + length)
        angles = positions[:, None].double() * self._frequencies
        hidden = torch.arange(before + length) > positions[:, None]
        group = self.sizes.heads // self.sizes.kv_heads
        mask = torch.zeros(hidden.shape).masked_fill(hidden, -math.inf).repeat(group, 1)
        return _Places(*(t.to(self.device, self.dtype) for t in (angles.cos(), angles.sin(), mask)))

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


def _padded(texts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The texts as rows, filled up with token 0, which nobody sees."""
    rows = np.zeros((len(texts), max(map(len, texts))), np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows


def _each(past: Tensor, n: int) -> Tensor:
    """(P, H, p, c) -> (P n, H, p, c), without a copy where there is one prompt."""
    return past[:, None].expand(-1, n, -1, -1, -1).flatten(0, 1)


def _rms(h: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = h.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)).to(h.dtype) * weight


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(n, L, heads, c), pairs of neighbours turned by the angles (L, c / 2)."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _block(
    h: Tensor,
    past_k: Tensor,
    past_v: Tensor,
    attention_norm: Tensor,
    qkv: Tensor,
    output: Tensor,
    inner_norm: Tensor,
    gate_up: Tensor,
    down: Tensor,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor,
    group: int,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """One block: h after it, and all keys and values, those of the prompt first.

    The G heads of queries that share keys are laid one after another, as if they were G texts' worth of queries: the
    keys need no copies, and small matrices become larger ones.
    """
    n, length, _ = h.shape
    kv_heads, head = past_k.shape[1], past_k.shape[3]
    heads = kv_heads * group
    mixed = (_rms(h, attention_norm, epsilon) @ qkv.T).unflatten(-1, (-1, head))
    q, k, v = mixed.split((heads, kv_heads, kv_heads), dim=2)
    q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
    q = q.unflatten(2, (kv_heads, group)).permute(0, 2, 3, 1, 4).reshape(n, kv_heads, group * length, head)
    keys = torch.cat((past_k, k.transpose(1, 2)), dim=2)
    values = torch.cat((past_v, v.transpose(1, 2)), dim=2)
    seen = torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
    seen = seen.unflatten(2, (group, length)).permute(0, 3, 1, 2, 4).reshape(n, length, heads * head)
    h = h + seen @ output.T
    gate, up = (_rms(h, inner_norm, epsilon) @ gate_up.T).chunk(2, dim=-1)
    return h + (torch.nn.functional.silu(gate) * up) @ down.T, keys, values
