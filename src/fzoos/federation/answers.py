"""What a server of asynchronous rounds keeps: requests under way, and every client's last answer.

An answer has an age: the rounds since the one that it was asked in. Its weight is omega_i times

    min(1, (1 + 2 p) / (1 + age)),      p: the age at which it came

A client that always needs p rounds is asked again when it has answered, so that its answers are between p and 2 p
rounds old while they are in use. Up to there the weight is whole: less would shift the average towards the fast
clients' optimum, for good. Beyond, a client is slower than it was, or gone, and what it said last counts less and less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["Answer", "Answers", "weight_of"]


def weight_of(age: int, pace: int) -> float:
    """What an answer of this age counts, at a client whose answers come at the age `pace`.

    Example:
        >>> from fzoos.federation.answers import weight_of
        >>> weight_of(0, 0), weight_of(1, 0), weight_of(20, 10), weight_of(41, 10)
        (1.0, 0.5, 1.0, 0.5)
    """
    return min(1.0, (1 + 2 * pace) / (1 + age))


@dataclass(frozen=True)
class Answer:
    """The last answer of a client to one kind of request.

    Args:
        client: whose it is.
        round: in which it was asked.
        pace: how many rounds later it came.
        arrays: what it brought.
    """

    client: int
    round: int
    pace: int
    arrays: Arrays

    @property
    def came(self) -> int:
        """The round in which it came."""
        return self.round + self.pace


@dataclass
class Answers:
    """Part of a server's state.

    Args:
        under_way: the request of each client that is busy with one.
        last: the last answer of each client, by kind and client.
        centres: the server's x at the start of the rounds that these belong to.

    Example:
        >>> import numpy as np
        >>> from fzoos.federation.answers import Answers
        >>> from fzoos.messages.message import Message
        >>> answers = Answers({0: Message("update", 1)})
        >>> answers.add(0, Message("iterate", 1, {"x": np.ones(2)}), round=4)
        >>> [(answer.round, answer.pace) for answer in answers.of("iterate")], list(answers.under_way)
        ([(1, 3)], [])
    """

    under_way: dict[int, Message] = field(default_factory=dict)
    last: dict[tuple[str, int], Answer] = field(default_factory=dict)
    centres: dict[int, FloatArray] = field(default_factory=dict)

    def add(self, client: int, reply: Message, round: int) -> None:
        """A client has answered, in this round."""
        asked = self.under_way.pop(client).round
        self.last[reply.kind, client] = Answer(client, asked, round - asked, reply.arrays)

    def of(self, kind: Kind) -> list[Answer]:
        """The last answers of this kind, in the order of the clients."""
        return sorted((a for (found, _), a in self.last.items() if found == kind), key=lambda a: a.client)

    def forget(self) -> None:
        """Leave the centres that are still needed."""
        rounds = {a.round for a in self.last.values()} | {m.round for m in self.under_way.values()}
        self.centres = {round: x for round, x in self.centres.items() if round in rounds}

    def save(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """JSON values, and all numbers in one array: a file has room for few of them."""
        tables = [*(m.arrays for m in self.under_way.values()), *(a.arrays for a in self.last.values())]
        tables.append({str(round): x for round, x in self.centres.items()})
        values: dict[str, Any] = {
            "under_way": [[i, m.kind, m.round, dict(m.scalars), m.precision] for i, m in self.under_way.items()],
            "last": [[kind, a.client, a.round, a.pace] for (kind, _), a in self.last.items()],
            "shapes": [{name: array.shape for name, array in table.items()} for table in tables],
        }
        if not self.under_way and not self.last:
            return {}, {}
        numbers = [array.ravel() for table in tables for array in table.values()]
        return values, {"all": np.concatenate([np.zeros(0), *numbers])}

    @classmethod
    def load(cls, values: Mapping[str, Any], arrays: Arrays) -> Self:
        """From what `save` gave."""
        if not values:
            return cls()
        tables = _tables(values["shapes"], arrays["all"])
        under_way = {
            i: Message(kind, round, next(tables), scalars, precision)
            for i, kind, round, scalars, precision in values["under_way"]
        }
        last = {(kind, i): Answer(i, round, pace, next(tables)) for kind, i, round, pace in values["last"]}
        centres = {int(round): x for round, x in next(tables).items()}
        return cls(under_way, last, centres)


def _tables(shapes: list[dict[str, list[int]]], numbers: FloatArray) -> Iterator[dict[str, FloatArray]]:
    """Named arrays of these shapes, cut out of one."""
    start = 0
    for table in shapes:
        found = {}
        for name, shape in table.items():
            end = start + math.prod(shape)
            found[name], start = numbers[start:end].reshape(shape), end
        yield found
