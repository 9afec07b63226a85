"""Random numbers of several generators, drawn and brought to a device while the caller does something else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

import numpy as np

from fzoos._util.arrays import Array, FloatArray
from fzoos._util.cores import in_background

__all__ = ["Draws"]

_LARGE = 100_000  # numbers, a third of a millisecond: from there on they are drawn on several cores
_BLOCK = 2**24  # numbers that are drawn at once, 128 MB: each call of a generator may wait for the interpreter


class Draws:
    """Numbers between 0 and 1, of each generator an array of the same shape, one after another.

    They are drawn before they are wanted, while the caller does something else. What was drawn and never wanted `close`
    takes back: the generators are then as if it had not been.

    Args:
        rngs: the generators; nobody else may use them until `close`.
        shape: of what each of them draws at a time.
        times: how often.
        device: where the numbers are wanted.

    Example:
        >>> import numpy as np
        >>> from fzoos._util.draws import Draws
        >>> draws = Draws([np.random.default_rng(seed) for seed in range(2)], (3,), times=4)
        >>> draws.begin()
        >>> draws.take().shape
        (2, 3)
        >>> bool(np.all(draws.take()[0] == np.random.default_rng(0).random(6)[3:]))
        True
        >>> draws.close()
    """

    def __init__(
        self, rngs: Sequence[np.random.Generator], shape: tuple[int, ...], times: int = 1, device: str | None = None
    ) -> None:
        self._rngs, self._left, self._taken = rngs, times, 0
        blocks = -(-times // max(1, _BLOCK // (len(rngs) * math.prod(shape))))
        self._at_once = -(-times // blocks) if times else 0
        self._staging = _Staging((len(rngs), self._at_once, *shape), device)
        self._ready = self._next = 0  # how many of the block are still to be taken, and which is next
        self._under_way: list[Future[object]] = []
        # To take back what is not used; one alone draws when it needs the numbers.
        self._before: list[Any] = [rng.bit_generator.state for rng in rngs] if len(rngs) > 1 or times > 1 else []

    def begin(self) -> None:
        """See to it that the next are drawn; what `take` returned before is no longer valid."""
        if self._ready or self._under_way or not self._left:
            return
        if len(self._rngs) == 1 or self._staging.host.size < _LARGE:  # few are drawn faster than they are begun
            self._draw(range(len(self._rngs)))
            self._set_ready()
        else:
            self._under_way = in_background(self._draw, len(self._rngs))

    def take(self) -> Array:
        """The next, on the device, shape (N, ...): valid until `begin`, and free to be written to."""
        self.begin()
        if self._under_way:
            shares, self._under_way = self._under_way, []
            for share in shares:
                share.result()
            self._set_ready()
        if not self._ready:
            raise ValueError("all have been taken")
        self._ready, self._taken, self._next = self._ready - 1, self._taken + 1, self._next + 1
        return self._staging.there[:, self._next - 1]

    def _set_ready(self) -> None:
        self._ready, self._next = min(self._at_once, self._left), 0
        self._left -= self._ready

    def close(self) -> None:
        """Take back what was drawn and not taken."""
        if not self._before or not (self._ready or self._under_way):
            return
        wait(self._under_way)
        self._under_way, self._ready, self._left = [], 0, 0
        for rng, state, block in zip(self._rngs, self._before, self._staging.host, strict=True):
            rng.bit_generator.state = state
            for _ in range(self._taken):
                rng.random(out=block[0])

    def _draw(self, numbers: range) -> None:
        count = min(self._at_once, self._left)
        for i in numbers:
            self._rngs[i].random(out=self._staging.host[i, :count])
        self._staging.send(slice(numbers.start, numbers.stop))


class _Staging:
    """Room for numbers on the host, and room for the same on a device."""

    def __init__(self, shape: tuple[int, ...], device: str | None) -> None:
        self.host: FloatArray
        self.there: Array
        self._stream: Any = None  # of its own: copies to a GPU wait for nothing that is computed there
        if device is None:
            self.host = self.there = np.empty(shape)
            return
        import torch

        on_gpu = device.startswith("cuda")
        self._block = torch.empty(shape, dtype=torch.float64, pin_memory=on_gpu)
        self.host, self.there = self._block.numpy(), self._block
        if on_gpu:
            self.there = torch.empty(shape, dtype=torch.float64, device=device)
            # The room may have been another array's, on which work has only been begun.
            torch.cuda.current_stream(device).synchronize()
            self._stream = torch.cuda.Stream(device)

    def send(self, rows: slice) -> None:
        """Bring these rows to the device, and wait until they are there. What reads the rows there must have ended."""
        if self._stream is None:
            return
        import torch

        with torch.cuda.stream(self._stream):
            self.there[rows].copy_(self._block[rows], non_blocking=True)
        self._stream.synchronize()
