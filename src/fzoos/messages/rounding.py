"""Rounding of messages before they are sent: their arrays become the numbers that will arrive.

The random numbers of stochastic rounding are a function of the sender's seed, the round and the array's name. So
there is no state to store: a message that is made again after a crash, or sent to one client more, is the same, and all
other random numbers of a run are those of any other precision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.messages.precision import Precision, check_precision, rounded

__all__ = ["Rounding"]


@dataclass(frozen=True)
class Rounding:
    """Rounds messages to a precision.

    Args:
        precision: how finely arrays travel; scalars stay as they are.
        seed: the sender's seed; needed by "stochastic" only.

    Example:
        >>> import numpy as np
        >>> from fzoos.messages.message import Message
        >>> from fzoos.messages.rounding import Rounding
        >>> message = Message("update", 1, {"x": np.array([0.1, 0.2, 0.7])}, {"seed": 7})
        >>> sent = Rounding("float16")(message)
        >>> sent.arrays["x"], message.nbytes, sent.nbytes
        (array([0.09997559, 0.19995117, 0.70019531]), 32, 16)
    """

    precision: Precision = "float64"
    seed: np.random.SeedSequence | None = None

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if self.precision == "stochastic" and self.seed is None:
            raise ValueError("precision 'stochastic' needs a seed")

    def __call__(self, message: Message) -> Message:
        """The message as it will arrive."""
        if self.precision == message.precision == "float64":
            return message
        return replace(message, arrays=self.arrays(message.arrays, message.round), precision=self.precision)

    def arrays(self, arrays: Arrays, round: int) -> dict[str, FloatArray]:
        """These arrays as they will arrive in a message of this round; those that were rounded stay as they are.

        Raises:
            MessageError: an array holds NaN, infinity or numbers too large for the precision.
        """
        if self.precision == "float64":
            return dict(arrays)
        found = {}
        for name, array in arrays.items():
            try:
                found[name] = rounded(array, self.precision, self._rng(round, name))
            except ValueError as error:
                raise MessageError(f"array {name!r} {error}") from None
        return found

    def _rng(self, round: int, name: str) -> np.random.Generator | None:
        if self.precision != "stochastic" or self.seed is None:
            return None
        key = (*self.seed.spawn_key, round, *name.encode())
        return np.random.default_rng(np.random.SeedSequence(self.seed.entropy, spawn_key=key))
