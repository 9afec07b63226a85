"""Random numbers of several generators, drawn and brought to a device while the caller does something else."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any

import numpy as np

from fzoos._util.arrays import Array, FloatArray
from fzoos._util.cores import in_background

__all__ = ["Draws"]

_LARGE = 100_000  # numbers, a third of a millisecond: from there on they are drawn on several cores


class Draws:
    """Numbers between 0 and 1, of each generator an array of the same shape, one after another.

    Those that come next can be begun before they are wanted. What was begun and never wanted `close` takes back: the
    generators are then as if it had not been.

    Args:
        rngs: the generators; nobody else may use them until `close`.
        shape: of what each of them draws.
        device: where the numbers are wanted.

    Example:
        >>> import numpy as np
        >>> from fzoos._util.draws import Draws
        >>> draws = Draws([np.random.default_rng(seed) for seed in range(2)], (3,))
        >>> draws.begin()
        >>> draws.take().shape
        (2, 3)
        >>> bool(np.all(draws.take()[0] == np.random.default_rng(0).random(6)[3:]))
        True
    """

    def __init__(self, rngs: Sequence[np.random.Generator], shape: tuple[int, ...], device: str | None = None) -> None:
        self._rngs = rngs
        self._staging = _Staging((len(rngs), *shape), device)
        self._under_way: list[Future[object]] = []
        self._before: list[Any] = []  # the generators' states before the first of those that were begun early
        self._taken = 0  # since then

    def begin(self) -> None:
        """Begin to draw the next; what `take` returned before is no longer valid."""
        if self._under_way or self._staging.host.size < _LARGE:  # few are drawn faster than they are begun
            return
        if not self._before:
            self._before, self._taken = [rng.bit_generator.state for rng in self._rngs], 0
        self._under_way = in_background(self._draw, len(self._rngs))

    def take(self) -> Array:
        """The next, on the device, shape (N, ...): valid until the next call, and free to be written to."""
        self._taken += 1
        if self._staging.host.size < _LARGE:
            self._draw(range(len(self._rngs)))
        else:
            shares = self._under_way or in_background(self._draw, len(self._rngs))
            self._under_way = []
            for share in shares:
                share.result()
        return self._staging.there

    def close(self) -> None:
        """Take back what was begun and not taken."""
        if not self._under_way:
            return
        wait(self._under_way)
        self._under_way = []
        for rng, state, numbers in zip(self._rngs, self._before, self._staging.host, strict=True):
            rng.bit_generator.state = state
            for _ in range(self._taken):
                rng.random(out=numbers)

    def _draw(self, numbers: range) -> None:
        for i in numbers:
            self._rngs[i].random(out=self._staging.host[i])
        self._staging.send(slice(numbers.start, numbers.stop))


class _Staging:
    """Room for numbers on the host, and room for the same on a device."""

    def __init__(self, shape: tuple[int, ...], device: str | None) -> None:
        self.host: FloatArray
        self.there: Array
        self._stream: Any = (
            None  # of copies to a GPU: they wait for nothing that is computed there, and nothing for them
        )
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
