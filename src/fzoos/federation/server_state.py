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
from fzoos.algorithms.base import State
from fzoos.federation.answers import Answers
from fzoos.messages.message import Arrays

__all__ = ["Plan", "ServerState"]


@dataclass(frozen=True)
class Plan:
    """A round before it is run: who takes part and what it will cost.

    Args:
        round: r, the number of the round, from 1.
        participants: indices of the clients.
        queries: what it will cost all of them together.
        cut: the size to which the budget cuts the round; 0: it is whole.
    """

    round: int
    participants: tuple[int, ...]
    queries: int
    cut: int = 0


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
    """The server between two exchanges; another server goes on from it exactly as this one would have.

    Args:
        half: the state of the algorithm's server half: x_r, in the unit cube, and other named arrays.
        generator: draws the participants.
        queries: of each client, as it last reported.
        round: r, of the last complete round.
        plan: of the round that has begun; None between two rounds.
        done: how many of its exchanges are complete.
        answered: the clients that replied to the last of them.
        joined: clients whose first round is over.
        up_to_date: clients that replied to the last exchange of the last round.
        bytes_up: from the clients so far.
        bytes_down: to the clients so far.
        seconds: spent in exchanges so far.
        diagnostics: of the last round, means over the clients.
        distances: of each client's x from the mean in the last round; None where none came.
        moves: of the last three rounds, the largest of any coordinate of x in the unit cube.
        unknown: queries that each client may have made beyond those, in requests that it did not answer.
        offsets: queries of each client in a journal that was lost.
        failed: queries that failed, of each client that reported.
        constrained: whether any client has constraints.
        violated: whether a constraint was violated at the x with which the last round began.
        feasible: whether all clients' constraints are met at `asked`; None: none of those asked is violated, but not
            all clients were asked.
        asked: the last x, in the unit cube, with which a round began and that is as feasible as any.
        sharing: whether all of the round that has begun is done but for the values that clients share.
        previous: then, x as it was reported after the round before, and "place", where that began to look.
        value: F(x_r), where clients share their values and all of them had one.
        arrivals: of this round, or the last one, where rounds are asynchronous: see `Record`.
        answers: the clients' last answers, and the requests under way, where rounds are asynchronous.

    Example:
        >>> import json
        >>> import numpy as np
        >>> from fzoos.federation.server_state import ServerState
        >>> state = ServerState({"x": np.array([0.5])}, np.random.default_rng(0), [0, 0], joined={1})
        >>> values, arrays = state.save()
        >>> again = ServerState.load(json.loads(json.dumps(values)), arrays)
        >>> again.joined, again.x, again.generator.random() == state.generator.random()
        ({1}, array([0.5]), True)
    """

    half: State = field(metadata=_ARRAYS)
    generator: np.random.Generator = field(metadata={"restore": _restored_generator})
    queries: list[int]
    round: int = 0
    plan: Plan | None = field(default=None, metadata={"restore": _restored_plan})
    done: int = 0
    answered: list[int] = field(default_factory=list)
    joined: set[int] = field(default_factory=set, metadata=_SET)
    up_to_date: set[int] = field(default_factory=set, metadata=_SET)
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    diagnostics: dict[str, float] = field(default_factory=dict)
    distances: list[float | None] = field(default_factory=list)
    moves: list[float] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    failed: dict[int, int] = field(default_factory=dict, metadata={"restore": _restored_counts})
    constrained: bool = False
    violated: bool = False
    feasible: bool | None = None
    asked: State = field(default_factory=dict, metadata=_ARRAYS)
    sharing: bool = False
    previous: State = field(default_factory=dict, metadata=_ARRAYS)
    value: float | None = None
    arrivals: list[list[int]] = field(default_factory=list)
    answers: Answers = field(default_factory=Answers)

    def __post_init__(self) -> None:
        for name in ("unknown", "offsets"):  # none so far
            if not getattr(self, name):
                setattr(self, name, [0] * len(self.queries))

    @property
    def x(self) -> FloatArray:
        """x_r, in the unit cube."""
        return self.half["x"]

    def save(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """JSON values and arrays."""
        values: dict[str, Any] = {}
        arrays: dict[str, FloatArray] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if "arrays" in f.metadata:
                arrays |= {f"{f.name}_{name}": array for name, array in value.items()}
            elif isinstance(value, Answers):
                values[f.name], named = value.save()
                arrays |= {f"{f.name}_{name}": array for name, array in named.items()}
            else:
                values[f.name] = _plain(value)
        return values, arrays

    @classmethod
    def load(cls, values: Mapping[str, Any], arrays: Arrays) -> Self:
        """From what `save` gave."""
        found: dict[str, Any] = {}
        for f in fields(cls):
            if "arrays" in f.metadata:
                found[f.name] = _entries(f"{f.name}_", arrays)
            elif f.name == "answers":
                found[f.name] = Answers.load(values[f.name], _entries("answers_", arrays))
            else:
                found[f.name] = f.metadata.get("restore", _same)(values[f.name])
        return cls(**found)


def _plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, Plan):
        return asdict(value)
    return sorted(value) if isinstance(value, set) else value


def _same(value: Any) -> Any:
    return value


def _entries(prefix: str, arrays: Arrays) -> dict[str, FloatArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
