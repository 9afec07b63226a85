"""What a server of asynchronous rounds keeps: requests under way, and every client's last answer.

An answer has an age: the rounds since the one that it was asked in. Its weight is omega_i times

    min(1, (1 + 2 p) / (1 + age)),      p: the age at which it came

A client that always needs p rounds is asked again when it has answered, so that its answers are between p and 2 p
rounds old while they are in use. Up to there the weight is whole: less would shift the average towards the fast
clients' optimum, for good. Beyond, a client is slower than it was, or gone, and what it said last counts less and less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

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


@dataclass
class Answers:
    """Part of a server's state.

    Args:
        under_way: the request of each client that is busy with one.
        centres: the server's x at the start of rounds of which something is under way or kept.
        rows: arrays of replies by kind, round and client.
        last: round and pace of the last reply, by kind and client.
        waiting: clients that have answered a refresh when its round was over: their next request is an update.

    Example:
        >>> import numpy as np
        >>> from fzoos.federation.answers import Answers
        >>> from fzoos.messages.message import Message
        >>> answers = Answers()
        >>> answers.under_way[0] = Message("update", 1)
        >>> answers.add(0, Message("iterate", 1, {"x": np.ones(2)}), round=4)
        >>> [(answer.round, answer.pace) for answer in answers.of("iterate")], list(answers.under_way)
        ([(1, 3)], [])
    """

    under_way: dict[int, Message] = field(default_factory=dict)
    centres: dict[int, FloatArray] = field(default_factory=dict)
    rows: dict[tuple[str, int, int], Arrays] = field(default_factory=dict)
    last: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)

    def add(self, client: int, reply: Message, round: int) -> None:
        """A client has answered, in this round."""
        request = self.under_way.pop(client)
        self.rows[reply.kind, request.round, client] = reply.arrays
        self.last[reply.kind, client] = request.round, round - request.round

    def of(self, kind: Kind) -> Iterator[Answer]:
        """The last answers of this kind, in the order of the clients."""
        for (found, client), (round, pace) in sorted(self.last.items(), key=lambda entry: entry[0][1]):
            if found == kind:
                yield Answer(client, round, pace, self.rows[found, round, client])

    def in_round(self, kind: Kind, round: int) -> dict[int, Arrays]:
        """What clients answered to a round's requests, if it is still kept."""
        return {client: arrays for (k, r, client), arrays in self.rows.items() if (k, r) == (kind, round)}

    def forget(self, *, alone: bool) -> None:
        """Leave what is still needed: last answers alone, or all answers of rounds that one of them is of."""
        asked = {request.round for request in self.under_way.values()}
        rounds = asked | {round for round, _ in self.last.values()}
        last = {(kind, round, client) for (kind, client), (round, _) in self.last.items()}
        self.centres = {round: x for round, x in self.centres.items() if round in rounds}
        self.rows = {key: row for key, row in self.rows.items() if key in last or (not alone and key[1] in rounds)}

    def save(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """JSON values and arrays."""
        arrays = {f"centre_{round}": x for round, x in self.centres.items()}
        for client, request in self.under_way.items():
            arrays |= {f"request_{client}_{name}": array for name, array in request.arrays.items()}
        for (kind, round, client), row in self.rows.items():
            arrays |= {f"{kind}_{round}_{client}_{name}": array for name, array in row.items()}
        values = {
            "under_way": [[i, m.kind, m.round, dict(m.scalars), m.precision] for i, m in self.under_way.items()],
            "rows": [list(key) for key in self.rows],
            "last": [[*key, *found] for key, found in self.last.items()],
            "waiting": sorted(self.waiting),
        }
        return {name: value for name, value in values.items() if value}, arrays

    @classmethod
    def load(cls, values: Mapping[str, Any], arrays: Arrays) -> Self:
        """From what `save` gave."""

        def named(prefix: str) -> dict[str, FloatArray]:
            return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

        return cls(
            under_way={
                i: Message(kind, round, named(f"request_{i}_"), scalars, precision)
                for i, kind, round, scalars, precision in values.get("under_way", ())
            },
            centres={int(round): x for round, x in named("centre_").items()},
            rows={(kind, round, i): named(f"{kind}_{round}_{i}_") for kind, round, i in values.get("rows", ())},
            last={(kind, i): (round, pace) for kind, i, round, pace in values.get("last", ())},
            waiting=set(values.get("waiting", ())),
        )
