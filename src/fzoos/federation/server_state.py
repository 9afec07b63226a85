"""What the server knows between two exchanges: one record, saved and restored as it is.

On disk it is JSON values and named arrays. A field of arrays, such as `half`, becomes one array for each entry, such as
`half_x`; every other field is a JSON value of its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import part_of, prefixed
from fzoos.algorithms.base import State
from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["Answer", "Answers", "Plan", "ServerState"]


@dataclass(frozen=True)
class Plan:
    """A round before it is run: who takes part and what it will cost."""

    round: int  # from 1
    participants: tuple[int, ...]
    queries: int  # of all participants together
    cut: int = 0  # the size to which the budget cuts the round; 0: it is whole


@dataclass(frozen=True)
class Answer:
    """The last reply of a client to one kind of request."""

    client: int
    round: int  # of the request
    pace: int  # how many rounds later the reply arrived
    arrays: Arrays


@dataclass
class Answers:
    """What a server of asynchronous rounds stores: requests under way, and the last reply of every client."""

    under_way: dict[int, Message] = field(default_factory=dict)  # by client: each is busy with one
    last: dict[tuple[str, int], Answer] = field(default_factory=dict)  # by kind and client
    centres: dict[int, FloatArray] = field(default_factory=dict)  # by round of these: the server's x at its start

    def add(self, client: int, reply: Message, round: int) -> None:
        """Store a reply that arrived in this round."""
        sent = self.under_way.pop(client).round
        self.last[reply.kind, client] = Answer(client, sent, round - sent, reply.arrays)

    def of(self, kind: Kind) -> list[Answer]:
        """The last replies of this kind, in the order of the clients."""
        return sorted((a for (found, _), a in self.last.items() if found == kind), key=lambda a: a.client)

    def forget(self) -> None:
        """Drop the centres that are not needed any more."""
        rounds = {a.round for a in self.last.values()} | {m.round for m in self.under_way.values()}
        self.centres = {round: x for round, x in self.centres.items() if round in rounds}

    def save(self) -> tuple[dict[str, Any], State]:
        """Return JSON values, and all arrays by their positions."""
        tables: list[Arrays] = [*(m.arrays for m in self.under_way.values()), *(a.arrays for a in self.last.values())]
        tables.append({str(round): x for round, x in self.centres.items()})
        values: dict[str, Any] = {
            "under_way": [[i, m.kind, m.round, dict(m.scalars), m.precision] for i, m in self.under_way.items()],
            "last": [[kind, a.client, a.round, a.pace] for (kind, _), a in self.last.items()],
            "names": [list(table) for table in tables],
        }
        return values, {f"{k}_{j}": x for k, table in enumerate(tables) for j, x in enumerate(table.values())}

    @classmethod
    def load(cls, values: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore what `save` returned."""
        tables = iter(
            {name: arrays[f"{k}_{j}"] for j, name in enumerate(names)} for k, names in enumerate(values["names"])
        )
        under_way = {
            i: Message(kind, round, next(tables), scalars, precision)
            for i, kind, round, scalars, precision in values["under_way"]
        }
        last = {(kind, i): Answer(i, round, pace, next(tables)) for kind, i, round, pace in values["last"]}
        return cls(under_way, last, {int(round): x for round, x in next(tables).items()})


def _restored_generator(state: Mapping[str, Any]) -> np.random.Generator:
    made = np.random.default_rng()
    made.bit_generator.state = state
    return made


def _restored_plan(values: Mapping[str, Any] | None) -> Plan | None:
    return None if values is None else Plan(**(dict(values) | {"participants": tuple(values["participants"])}))


def _restored_counts(values: Mapping[str, int]) -> dict[int, int]:
    return {int(client): count for client, count in values.items()}  # JSON has no numbers for names


_ARRAYS = {"arrays": True}  # a field of named arrays
_SET = {"restore": set}  # from its JSON value


@dataclass
class ServerState:
    """The server between two exchanges; another server continues from it exactly as this one would have."""

    half: State = field(metadata=_ARRAYS)  # of the algorithm's server half: x_r, in the unit cube, and other arrays
    generator: np.random.Generator = field(metadata={"restore": _restored_generator})  # draws the participants
    queries: list[int]  # per client, as it last reported
    round: int = 0  # r, of the last complete round
    # The round that has begun; None between two rounds.
    plan: Plan | None = field(default=None, metadata={"restore": _restored_plan})
    done: int = 0  # how many of its exchanges are complete
    answered: list[int] = field(default_factory=list)  # clients that replied to the last of them
    joined: set[int] = field(default_factory=set, metadata=_SET)  # clients whose first round is over
    up_to_date: set[int] = field(default_factory=set, metadata=_SET)  # those that replied at the end of the last round
    bytes_up: int = 0  # from the clients so far
    bytes_down: int = 0  # to the clients so far
    seconds: float = 0.0  # spent in exchanges so far
    diagnostics: dict[str, float] = field(default_factory=dict)  # of the last round, means over the clients
    distances: list[float | None] = field(default_factory=list)  # in the last round, of each client's x from the mean
    moves: list[float] = field(default_factory=list)  # in the last three rounds, the largest of any coordinate of x
    unknown: list[int] = field(default_factory=list)  # queries per client in requests that it did not answer, at most
    offsets: list[int] = field(default_factory=list)  # queries per client in a journal that was lost
    # Failed queries of each client that reported any.
    failed: dict[int, int] = field(default_factory=dict, metadata={"restore": _restored_counts})
    constrained: bool = False  # whether any client has constraints
    violated: bool = False  # whether a constraint was violated at the x with which the last round began
    # Whether all constraints are met at `feasible_x`; None: those queried are met, but not all clients were queried.
    feasible: bool | None = None
    feasible_x: State = field(default_factory=dict, metadata=_ARRAYS)  # the last server x that is as feasible as any
    sharing: bool = False  # whether only the values that clients share are missing of the round that has begun
    # Then, the x that was reported after the round before, and "place", the half's own x.
    previous: State = field(default_factory=dict, metadata=_ARRAYS)
    value: float | None = None  # F(x_r), where clients share their values and all of them had one
    arrivals: list[list[int]] = field(default_factory=list)  # of the last asynchronous round: see `Record`
    answers: Answers = field(default_factory=Answers)  # where rounds are asynchronous

    def __post_init__(self) -> None:
        for name in ("unknown", "offsets"):  # none so far
            if not getattr(self, name):
                setattr(self, name, [0] * len(self.queries))

    @property
    def x(self) -> FloatArray:
        """x_r, in the unit cube."""
        return self.half["x"]

    @property
    def without_value(self) -> list[int]:
        """The clients whose queries have all failed."""
        return [client for client, count in enumerate(self.queries) if 0 < count <= self.failed.get(client, 0)]

    def save(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """JSON values and arrays."""
        values: dict[str, Any] = {}
        arrays: dict[str, FloatArray] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if "arrays" in f.metadata:
                arrays |= prefixed(f.name, value)
            elif isinstance(value, Answers):
                values[f.name], named = value.save()
                arrays |= prefixed(f.name, named)
            else:
                values[f.name] = _plain(value)
        return values, arrays

    @classmethod
    def load(cls, values: Mapping[str, Any], arrays: Arrays) -> Self:
        """From what `save` gave."""
        found: dict[str, Any] = {}
        for f in fields(cls):
            if "arrays" in f.metadata:
                found[f.name] = part_of(f.name, arrays)
            elif f.name == "answers":
                found[f.name] = Answers.load(values[f.name], part_of(f.name, arrays))
            else:
                restore = f.metadata.get("restore")
                found[f.name] = values[f.name] if restore is None else restore(values[f.name])
        return cls(**found)


def _plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, Plan):
        return asdict(value)
    return sorted(value) if isinstance(value, set) else value
