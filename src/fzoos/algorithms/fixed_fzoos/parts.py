"""What a client of FZooS is made of: parts that each send some numbers and take their averages from requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import PayloadPart
from fzoos.messages.message import Arrays, Message

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["Part"]


class Part:
    """A part of the client. All that is to say of a number in the payload is said in one of them.

    The client asks every part to `take` what a request brings, and every part that `sends` something to `renew` it.
    """

    @classmethod
    def sends(cls, settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
        """The arrays that it sends, by name; none where the settings have no use for it."""
        return {}

    def take(self, x: FloatArray, request: Message) -> None:
        """Take from a request, of either kind, what is meant for this part.

        Args:
            x: the server's, in the unit cube.
            request: a refresh brings the carried entries of the last round, an update all averages of the latest.
        """
        return

    def renew(self, x: FloatArray) -> Arrays:
        """The arrays that it `sends`, from the client's trajectory around x."""
        return {}

    def diagnostics(self) -> dict[str, float]:
        """What the client reports of it with a round's reply."""
        return {}
