"""The server's loop, the same for every algorithm: choose clients, exchange, average.

One round r, for an algorithm of two exchanges (the first is skipped in round 1 and by the others):

    refresh:  x_{r-1} -> participants;  each refreshes its payload at x_{r-1} and replies it;  the payloads are averaged
    update:   averaged payload (and x_{r-1}, to whom it has not gone yet) -> participants;  each replies its x_i
              x_r = sum_i omega_i x_i

An algorithm that rebuilds x has a server half, which all parties run, and x does not travel:

    update:   averaged payload of round r-1 -> participants that have x_{r-2};  x_{r-1} and the rest of the state -> the
              others;  each replies its payload, whose average gives x_r here and, in round r+1, at the participants

The paper puts the refresh at x_r at the end of round r. At the start of round r + 1 it is the same computation, but the
refresh after the last round, whose payload nobody would use, is not paid for, and under partial participation the
payload comes from the clients that are about to use it.

Averages are over those who answered, with renewed weights. Between any two exchanges the server is a plain record, its
`state`, from which another server goes on exactly as this one would have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.optimizers import Optimizer
from fzoos.federation.aggregate import aggregate
from fzoos.federation.check import check_precision_of, check_reply
from fzoos.federation.exchange import Engine, Outcome
from fzoos.messages.message import Kind, Message
from fzoos.messages.rounding import Rounding

__all__ = ["Dropouts", "Plan", "Server", "TooFewClients"]


class TooFewClients(RuntimeError):
    """Fewer clients answered than a round needs; `failures` says why the others did not."""

    def __init__(self, kind: str, round: int, answered: int, needed: int, failures: Mapping[int, Exception]) -> None:
        reasons = "; ".join(f"client {i}: {error}" for i, error in sorted(failures.items()))
        super().__init__(f"round {round}: {answered} of {needed} clients answered the {kind} request ({reasons})")
        self.failures = dict(failures)


@dataclass(frozen=True)
class Dropouts:
    """What is done about clients that do not answer.

    Args:
        min_clients: an exchange counts if so many answer.
        timeout: seconds that an exchange is waited for; None: for ever.
        retries: how often an exchange with too few answers is tried again; who has answered answers from memory.
    """

    min_clients: int
    timeout: float | None = None
    retries: int = 2


@dataclass(frozen=True)
class Plan:
    """A round before it is run: who takes part and what it will cost."""

    round: int
    participants: tuple[int, ...]
    queries: int


class Server:
    """Runs rounds through an engine and keeps x, the payload and the byte counts.

    Args:
        engine: carries messages to the clients.
        algorithm: its settings.
        x: x_0 in the unit cube, shape (d,).
        local_steps: T.
        weights: omega, shape (N,).
        participants: how many clients take part in a round.
        shared_seed: the seed that all clients share (of the random features).
        rng: draws the participants.
        optimizer: what the clients do with gradient estimates; needed where the algorithm rebuilds x.
        dropouts: None: the first failure of a client is raised.
        combine: how the clients' arrays become one: "mean", "median" or "trimmed".
        rounding: what is done to requests before they leave; x and payload stay here as they are.
        after_exchange: called after each exchange, when `state` may be kept.
        on_failure: told the client, the round and the reason of each failure that is gone on from.
    """

    def __init__(
        self,
        engine: Engine,
        algorithm: Algorithm,
        x: FloatArray,
        *,
        local_steps: int,
        weights: FloatArray,
        participants: int,
        shared_seed: int,
        rng: np.random.Generator,
        optimizer: Optimizer | None = None,
        dropouts: Dropouts | None = None,
        combine: str = "mean",
        rounding: Rounding = Rounding(),
        after_exchange: Callable[[], None] = lambda: None,
        on_failure: Callable[[int, int, Exception], None] = lambda client, round, error: None,
    ) -> None:
        self._engine, self._algorithm, self._local_steps = engine, algorithm, local_steps
        self._weights, self._participants, self._rng = weights, participants, rng
        self._seed = {"seed": shared_seed} if algorithm.shares_seed else {}
        self._dropouts, self._combine, self._rounding = dropouts, combine, rounding
        self._after_exchange, self._on_failure = after_exchange, on_failure
        self._payload: dict[str, FloatArray] = {}
        self._met: set[int] = set()
        self._plan: Plan | None = None  # of the round that has begun
        self._refreshed: tuple[int, ...] | None = None  # who answered its refresh
        self._half = None if optimizer is None else algorithm.server(len(x), local_steps, optimizer)
        if algorithm.rebuilds and self._half is None:
            raise TypeError(f"{algorithm.label} rebuilds x with the optimizer: the server needs it, too")
        self._state = {"x": x} if self._half is None else self._half.start(x)
        self._following: set[int] = set()  # who has the state before this one, and needs the payload only
        self.round = 0
        self.queries = [0] * len(weights)  # of each client, as it last told
        self.bytes_up = self.bytes_down = 0
        self.diagnostics: dict[str, float] = {}
        self.distances: list[float | None] = [None] * len(
            weights
        )  # of each client's x from the mean, in the last round

    @property
    def x(self) -> FloatArray:
        """x_r, in the unit cube."""
        return self._state["x"]

    @property
    def begun(self) -> bool:
        """Whether a round has begun and is not complete."""
        return self._plan is not None

    def plan(self) -> Plan:
        """Draw the next round's participants and say what the round will cost in queries."""
        if self._plan is not None:  # it has begun, and goes on
            return self._plan
        chosen = np.flatnonzero(self._weights)  # a client of weight zero would be asked for nothing
        if self._participants < len(chosen):
            chosen = np.sort(self._rng.choice(chosen, self._participants, replace=False))
        participants = tuple(int(i) for i in chosen)
        refreshed = self._refreshes(self.round + 1)
        queries = sum(
            self._algorithm.queries(len(self.x), self._local_steps, first=i not in self._met, refreshed=refreshed)
            for i in participants
        )
        return Plan(self.round + 1, participants, queries)

    def run(self, plan: Plan) -> None:
        """Carry out a planned round, or what is left of it; afterwards x is x_r."""
        self._plan = plan
        if self._refreshes(plan.round) and self._refreshed is None:
            carried = {name: self._payload[name] for name in self._algorithm.carried if name in self._payload}
            request = self._request("refresh", plan, {"x": self.x, **carried})
            replies = self._exchange(plan, dict.fromkeys(plan.participants, request))
            self._payload = self._average(replies)
            self._refreshed = tuple(replies)
            self._after_exchange()

        known = set(self._refreshed or ()) | self._following  # they have x already, or can rebuild it
        short = self._request("update", plan, self._payload)
        if self._half is None:
            full = self._request("update", plan, {**self._state, **self._payload})
        else:  # whoever rebuilds x from it must have it exactly
            full = Message("update", plan.round, self._state, self._seed)
        replies = self._exchange(plan, {i: short if i in known else full for i in plan.participants})
        self._finish(plan, replies)
        self._after_exchange()

    def _finish(self, plan: Plan, replies: dict[int, Message]) -> None:
        self._met.update(replies)
        mean = self._average(replies)
        if self._half is None:
            self._state = {"x": mean.pop("x")}
        else:  # from the numbers that the clients will get
            mean = self._rounding.arrays(mean, plan.round + 1)
            self._state = self._half.next_state(self._state, mean, plan.round, self._seed["seed"])
            self._following = set(replies)
        self.distances = [
            float(np.linalg.norm(replies[i].arrays["x"] - self.x))
            if i in replies and "x" in replies[i].arrays
            else None
            for i in range(len(self._weights))
        ]
        if mean:
            self._payload = mean
        weights = self._weights[list(replies)]
        names = set.intersection(*(set(reply.scalars) for reply in replies.values())) - {"queries"}
        self.diagnostics = {
            name: float(np.average([reply.scalars[name] for reply in replies.values()], weights=weights))
            for name in sorted(names)
        }
        self.round, self._plan, self._refreshed = plan.round, None, None

    def _average(self, replies: dict[int, Message]) -> dict[str, FloatArray]:
        return aggregate([reply.arrays for reply in replies.values()], self._weights[list(replies)], self._combine)

    def _refreshes(self, round: int) -> bool:
        return self._algorithm.exchanges == 2 and (round > 1 or self._algorithm.refreshes_first)

    def _request(self, kind: Kind, plan: Plan, arrays: dict[str, FloatArray]) -> Message:
        return self._rounding(Message(kind, plan.round, arrays, self._seed))

    def _exchange(self, plan: Plan, requests: dict[int, Message]) -> dict[int, Message]:
        """The good replies, in the order of the clients; tried again while there are too few."""
        replies: dict[int, Message] = {}
        failures: dict[int, Exception] = {}
        needed = len(requests) if self._dropouts is None else min(self._dropouts.min_clients, len(requests))
        for _ in range(1 + (self._dropouts.retries if self._dropouts else 0)):
            missing = {i: request for i, request in requests.items() if i not in replies}
            outcome = self._engine.exchange(missing, self._dropouts.timeout if self._dropouts else None)
            failures = self._sort(missing, outcome, replies)
            if len(replies) >= needed:
                return {i: replies[i] for i in plan.participants if i in replies}
            if self._dropouts is None:
                raise next(failures[i] for i in sorted(failures))
        kind = next(iter(requests.values())).kind
        raise TooFewClients(kind, plan.round, len(replies), needed, failures)

    def _sort(
        self, requests: dict[int, Message], outcome: Outcome, replies: dict[int, Message]
    ) -> dict[int, Exception]:
        """Count, check and take the replies; what is not good is a failure."""
        failures = dict(outcome.failures)
        self.bytes_down += sum(request.nbytes for request in requests.values())
        for i, reply in outcome.replies.items():
            self.bytes_up += reply.nbytes
            try:
                check_precision_of(reply, self._rounding.precision)
                check_reply(self._algorithm, requests[i], reply, len(self.x), self._local_steps)
            except ValueError as error:
                failures[i] = error
            else:
                replies[i] = reply
                self.queries[i] = max(self.queries[i], int(reply.scalars["queries"]))
        if not failures:  # an engine that ends with the first failure has no word on the others
            for i in set(requests) - set(replies):
                failures[i] = RuntimeError("neither a reply nor a reason came back")
        for i, reason in failures.items():
            self._on_failure(i, requests[i].round, reason)
        return failures

    # What survives a crash

    @property
    def state(self) -> tuple[dict[str, Any], dict[str, FloatArray]]:
        """Everything that the next exchange depends on: JSON values and arrays."""
        plan = self._plan
        values: dict[str, Any] = {
            "round": self.round,
            "met": sorted(self._met),
            "following": sorted(self._following),
            "plan": None if plan is None else [plan.round, list(plan.participants), plan.queries],
            "refreshed": None if self._refreshed is None else list(self._refreshed),
            "queries": self.queries,
            "bytes": [self.bytes_up, self.bytes_down],
            "diagnostics": self.diagnostics,
            "generator": self._rng.bit_generator.state,
        }
        rest = {f"state_{name}": array for name, array in self._state.items() if name != "x"}
        payload = {f"payload_{name}": array for name, array in self._payload.items()}
        return values, {"x": self.x, **rest, **payload}

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> None:
        """Go on from a `state`."""
        plan = values["plan"]
        self._plan = None if plan is None else Plan(plan[0], tuple(plan[1]), plan[2])
        self._refreshed = None if values["refreshed"] is None else tuple(values["refreshed"])
        self._met, self._following = set(values["met"]), set(values.get("following", ()))
        self.round, self.queries, self.diagnostics = values["round"], list(values["queries"]), values["diagnostics"]
        self.bytes_up, self.bytes_down = values["bytes"]
        self._rng.bit_generator.state = values["generator"]
        self._state = {"x": arrays["x"], **_named("state_", arrays)}
        self._payload = _named("payload_", arrays)


def _named(prefix: str, arrays: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
