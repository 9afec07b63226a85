"""The errors a run can end with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fzoos.result import Result

from fzoos.arrays import FloatArray

__all__ = ["NotAsked", "ObjectiveError"]


class NotAsked(RuntimeError):
    """An objective has no value yet, and asking cost nothing: the values come later, from people."""


class ObjectiveError(RuntimeError):
    """An objective raised, or returned NaN or infinity.

    The original exception, if there was one, is the cause (`__cause__`).

    Attributes:
        client: index of the client.
        round: the round it happened in.
        x: the point, in the user's coordinates (the first point of the batch if a vectorised objective raised).
        result: everything up to the last complete round.

    Example:
        >>> import numpy as np
        >>> from fzoos import ObjectiveError, minimize
        >>> try:
        ...     minimize([lambda x: float("nan")], x0=np.zeros(2), bounds=(-1, 1), rounds=1, seed=0)
        ... except ObjectiveError as error:
        ...     print(error.client, error.round, error.result.rounds)
        0 1 0
    """

    def __init__(self, what: str, client: int, round: int, x: FloatArray) -> None:
        self.client, self.round, self.x = client, round, x
        self.result: Result | None = None
        point = np.array2string(x, threshold=6, edgeitems=3, separator=", ")
        super().__init__(f"objective of client {client} {what} in round {round} at x = {point}")
