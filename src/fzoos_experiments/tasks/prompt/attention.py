"""The attention of a prompt and the texts after it as one GPU kernel, from a block's products to what each token sees.

=========  ==================  =========================================================================================
symbol     shape               meaning
=========  ==================  =========================================================================================
P, S       scalar              prompts; tokens of a prompt and all texts
H, G, c    scalar              heads of keys and values, heads of queries to each of them, width of a head
=========  ==================  =========================================================================================

    seen = softmax(q k^T / sqrt(c) + mask) v,    q and k turned by their positions' angles

The general way turns and copies queries, keys and values, joins the prompt's keys to those of each part of the texts,
reads a mask, and puts the result back into the order of the tokens: memory is read and written six times. Here a
program takes a part of at most 64 or 128 tokens and one head of keys. It turns the keys of the part and of the prompt
in registers; then, for each head of queries, it turns those and has all scores at once. Which keys a query sees follows
from the texts' numbers.

`benchmarks/speed/prompt.py --device cuda --profile` prints what it takes.
"""

from __future__ import annotations

from fzoos_experiments.tasks.models import Tensor

try:
    import triton
    from triton import language as tl
except ImportError:  # PyTorch for CUDA brings it along; without it the attention is PyTorch's
    triton = tl = None

__all__ = ["ROWS", "attend", "is_available", "rows_for"]

ROWS = (64, 128)
"""Tokens that a part can have; with fewer, less is computed that texts do not see of each other."""


def is_available(width: int) -> bool:
    """Whether the kernel can be built here, for heads of some width: its products need powers of two."""
    return triton is not None and width >= 32 and width & (width - 1) == 0


def rows_for(longest: int) -> int | None:
    """The size of parts for texts and prompts of some length; None: they are too long for the kernel.

    Example:
        >>> from fzoos_experiments.tasks.prompt.attention import rows_for
        >>> rows_for(20), rows_for(65), rows_for(129)
        (64, 128, None)
    """
    return next((rows for rows in ROWS if longest <= rows), None)


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _turned(source, row, there, stride, cos, sin, HALF: tl.constexpr):  # type: ignore[no-untyped-def]
        """The two halves of some rows, turned."""
        i = tl.arange(0, HALF)[None, :]
        at, valid = source + row[:, None] * stride + i, there[:, None]
        a = tl.load(at, mask=valid, other=0.0).to(tl.float32)
        b = tl.load(at + HALF, mask=valid, other=0.0).to(tl.float32)
        c = tl.load(cos + row[:, None] * HALF + i, mask=valid, other=0.0).to(tl.float32)
        s = tl.load(sin + row[:, None] * HALF + i, mask=valid, other=0.0).to(tl.float32)
        kind = source.dtype.element_ty
        return (a * c - b * s).to(kind), (a * s + b * c).to(kind)

    @triton.jit  # type: ignore[untyped-decorator]
    def _attend(  # type: ignore[no-untyped-def]
        mixed,
        seen,
        cos,
        sin,
        text,
        starts,
        before,
        tokens,
        scale,
        HEADS: tl.constexpr,
        GROUP: tl.constexpr,
        WIDTH: tl.constexpr,
        PROMPT: tl.constexpr,
        ROWS: tl.constexpr,
    ):
        part, head = tl.program_id(1), tl.program_id(0) % HEADS
        prompt = (tl.program_id(0) // HEADS).to(tl.int64)
        HALF: tl.constexpr = WIDTH // 2
        stride: tl.constexpr = HEADS * (GROUP + 2) * WIDTH
        mixed += prompt * tokens * stride
        seen += prompt * tokens * HEADS * GROUP * WIDTH
        first, end = tl.load(starts + part), tl.load(starts + part + 1)
        i = tl.arange(0, WIDTH)[None, :]
        row, old = first + tl.arange(0, ROWS), tl.arange(0, PROMPT)
        there, is_old = row < end, (old < before) & (part > 0)  # the prompt's own part has no other before it
        keys = mixed + (HEADS * GROUP + head) * WIDTH
        k1, k2 = _turned(keys, row, there, stride, cos, sin, HALF)
        old1, old2 = _turned(keys, old, is_old, stride, cos, sin, HALF)
        values = keys + HEADS * WIDTH
        v = tl.load(values + row[:, None] * stride + i, mask=there[:, None], other=0.0)
        old_v = tl.load(values + old[:, None] * stride + i, mask=is_old[:, None], other=0.0)
        mine = tl.load(text + row, mask=there, other=-1)  # rows that are not there see each other, and nobody sees them
        visible = (mine[:, None] == mine[None, :]) & (row[:, None] >= row[None, :])
        for g in range(GROUP):
            q1, q2 = _turned(mixed + (head * GROUP + g) * WIDTH, row, there, stride, cos, sin, HALF)
            own = tl.dot(q2, tl.trans(k2), acc=tl.dot(q1, tl.trans(k1)))
            own = tl.where(visible, own * scale, float("-inf"))
            far = tl.dot(q2, tl.trans(old2), acc=tl.dot(q1, tl.trans(old1)))
            far = tl.where(is_old[None, :], far * scale, float("-inf"))
            most = tl.maximum(tl.max(own, axis=1), tl.max(far, axis=1))[:, None]
            own, far = tl.exp2(own - most), tl.exp2(far - most)
            total = tl.sum(own, axis=1) + tl.sum(far, axis=1)
            found = tl.dot(far.to(v.dtype), old_v, acc=tl.dot(own.to(v.dtype), v)) / total[:, None]
            at = seen + row[:, None] * (HEADS * GROUP * WIDTH) + (head * GROUP + g) * WIDTH + i
            tl.store(at, found.to(v.dtype), mask=there[:, None])


def attend(
    mixed: Tensor, cos: Tensor, sin: Tensor, text: Tensor, starts: Tensor, before: int, rows: int, heads: int
) -> Tensor:
    """What each token sees, (P, S, H G c).

    Args:
        mixed: queries, keys and values of all heads side by side, (P, S, (H G + 2 H) c).
        cos: of the angles of the tokens' positions, (S, c / 2).
        sin: likewise.
        text: the text that each token is of, (S,); 0: the prompt, which stands first.
        starts: where the parts begin and the last one ends; the first is the prompt.
        before: tokens of the prompt.
        rows: the size of parts, one of `ROWS`.
        heads: H; a head has c = 2 len(cos[0]) numbers.
    """
    prompts, tokens, wide = mixed.shape
    width = 2 * cos.shape[1]
    group = wide // (heads * width) - 2
    seen = mixed.new_empty(prompts, tokens, heads * group * width)
    scale = 1.4426950408889634 / width**0.5  # powers of two in place of e
    grid = (prompts * heads, len(starts) - 1)
    sizes = {
        "HEADS": heads,
        "GROUP": group,
        "WIDTH": width,
        "PROMPT": max(16, triton.next_power_of_2(before)),
        "ROWS": rows,
    }
    _attend[grid](mixed, seen, cos, sin, text, starts, before, tokens, scale, **sizes, num_warps=rows // 16)
    return seen
