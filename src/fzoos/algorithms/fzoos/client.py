"""The client half of FZooS: hands a round to the star or to the trust region."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, SteeredHalf
from fzoos.algorithms.fzoos.control import Control, Mode
from fzoos.algorithms.fzoos.region import RegionClient
from fzoos.algorithms.fzoos.star import StarClient
from fzoos.messages.message import Arrays, Message

__all__ = ["FZooSClient"]


class FZooSClient(SteeredHalf):
    """One client.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        super().__init__(context)
        self._star, self._region = StarClient(context), RegionClient(context)

    def rebuild(self, request: Message) -> FloatArray:
        """x_r from x_{r-1}, which all clients have that took part in the last round."""
        return self._star.rebuilt(Control.of(request.scalars))

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Ask at x and around it; gradients."""
        control = Control.of(request.scalars)
        if control.mode is Mode.REGION:
            return self._region.refresh(x, control, request.round)
        return self._star.star(x, control, request.round)

    def answer(self, x: FloatArray, request: Message) -> Arrays:
        """Values along the averaged gradients, or a minimum of the surrogates."""
        control = Control.of(request.scalars)
        if control.mode is Mode.REGION:
            return self._region.answer(x, control, request.arrays, request.round)
        return self._star.answer(x, control, request.arrays)

    def rest(self) -> None:
        """Without what the next request makes anew."""
        self._region.rest()
        self._star.rest()

    def local_gradient(self, x: FloatArray) -> FloatArray:
        """The gradient of the client's own surrogate."""
        process = self._region.process
        return np.zeros_like(x) if process is None else process(x)[1]
