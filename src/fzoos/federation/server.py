"""The server's loop, the same for every algorithm: choose clients, exchange, average.

What is sent, and what becomes of the averages, is decided by the algorithm's server half (`algorithms/server_half.py`).
A round is one or two exchanges:

    for each exchange:  requests of the half -> participants;  their replies are checked and averaged;  next state

Averages are over the clients that replied, with their weights renormalised. Between any two exchanges all that the
server knows is one record, its `state`, from which another server continues exactly as this one would have.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm, Parts, Recipient, Round
from fzoos.federation.aggregate import aggregate
from fzoos.federation.check import COUNTED, check_precision_of, check_reply
from fzoos.federation.counts import CountTooSmall, QueryCounts
from fzoos.federation.exchange import Dropouts, Engine, Outcome, TooFewClients, Undelivered
from fzoos.federation.server_state import Plan, ServerState
from fzoos.messages.codec import RemoteFailure
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.messages.rounding import Rounding
from fzoos.objectives.box import clip_to_cube

if TYPE_CHECKING:
    from fzoos.federation.privacy import Privacy

__all__ = ["Server"]


@dataclass(eq=False)
class Server:
    """Runs rounds through an engine, an exchange at a time; what it knows is in `state`, which may be replaced."""

    engine: Engine  # carries messages to the clients
    algorithm: Algorithm
    x0: InitVar[FloatArray]  # in the unit cube, shape (d,)
    _: KW_ONLY
    weights: FloatArray  # omega, shape (N,)
    participants: int  # how many clients take part in a round
    shared_seed: int  # that all clients share (of the random features)
    rng: InitVar[np.random.Generator]  # draws the participants
    dropouts: Dropouts | None = None  # None: the first failure of a client is raised
    combine: str = "mean"  # how the clients' arrays become one: a name of `AGGREGATES`
    rounding: Rounding = Rounding()  # of requests before they leave; x and payload stay here as they are
    privacy: Privacy | None = None  # clip and noise of the replies; None: none
    share_values: bool = False  # whether all clients return f_i(x_r) after each round: one exchange more
    # Called with the client, the round and the reason of each failure that is tolerated.
    on_failure: Callable[[int, int, Exception], None] = lambda client, round, error: None
    # Called with the requests that are about to be sent.
    before_sending: Callable[[Mapping[int, Message]], None] = lambda requests: None

    def __post_init__(self, x0: FloatArray, rng: np.random.Generator) -> None:
        self._half, self._aggregate = self.algorithm.server(len(x0)), partial(aggregate, how=self.combine)
        lost = () if self.dropouts is None else self.dropouts.lost
        self._counts = QueryCounts(self.algorithm, self._half, lost, self.share_values)
        count = len(self.weights)
        self.state = ServerState(self._half.start(x0), rng, queries=[0] * count, distances=[None] * count)

    @property
    def x(self) -> FloatArray:
        """x_r, in the unit cube; with constraints the last x that was feasible for all when it was queried, if any."""
        return self.state.feasible_x["x"] if self.state.constrained else self._half.reported_x(self.state.half)

    @property
    def round(self) -> int:
        """r, of the last complete round."""
        return self.state.round

    @property
    def begun(self) -> bool:
        """Whether a round has begun and is not complete."""
        return self.state.plan is not None

    @property
    def _everybody(self) -> list[int]:
        """All clients that ever get a request: one of weight zero would get it for nothing."""
        return [int(i) for i in np.flatnonzero(self.weights)]

    def plan(self) -> Plan:
        """Draw the next round's participants and say what the round will cost in queries."""
        state = self.state
        if state.plan is not None:  # it has begun, and continues
            return state.plan
        chosen = self._everybody
        if self.participants < len(chosen):
            chosen = sorted(state.generator.choice(chosen, self.participants, replace=False))
        participants = tuple(int(i) for i in chosen)
        return Plan(state.round + 1, participants, self._cost(participants))

    def cut(self, plan: Plan, most: int) -> Plan | None:
        """Return the largest part of a planned round that costs at most `most` queries, if there is any."""
        cut = bisect_right(range(1, most + 1), most, key=lambda size: self._cost(plan.participants, size))
        queries = self._cost(plan.participants, cut) if cut else 0  # a part without queries may be free of charge
        return replace(plan, queries=queries, cut=cut) if queries else None

    def _cost(self, participants: tuple[int, ...], cut: int = 0) -> int:
        """Return the queries of the next round, whole or cut, at most: shared values and constraints may be free."""
        state, half, round = self.state, self._half, self._round(self.state.round + 1, participants, cut)
        kind = half.exchanges(round.number)[0]
        queries = len(participants) * state.constrained
        for i, recipient in self._recipients(participants).items():
            if self._is_free(i):
                request = Message(kind, round.number, {}, half.request(state.half, kind, recipient, round).scalars)
                queries += self._counts.cost(request, first=i not in state.joined)
        return queries + (len(self._everybody) if self.share_values else 0)

    def moved(self, before: FloatArray) -> float:
        """Return how far x is from `before`: a run converges when x no longer moves."""
        return self._half.moved(self.state.half, before)

    def _is_free(self, client: int) -> bool:
        """Whether a client can get a request."""
        return True

    def run(self, plan: Plan) -> None:
        """Carry out a planned round, or what is left of it; afterwards x is x_r."""
        self.begin(plan)
        while self.begun:
            self.advance()

    def begin(self, plan: Plan) -> None:
        """Begin a planned round, or continue it."""
        self.state.plan = plan

    def advance(self) -> None:
        """Carry out the next exchange of the round that has begun; the last one completes it."""
        plan, started = self.state.plan, time.perf_counter()
        if plan is None:
            raise RuntimeError("no round has begun")
        try:
            self._counts.begin(self.state)
            if self.state.sharing:
                self._share(plan)
            else:
                self._advance(plan)
        finally:
            self.state.seconds += time.perf_counter() - started

    def _advance(self, plan: Plan) -> None:
        """Carry out an exchange of the algorithm: requests, replies, their average, the state after it."""
        state, half = self.state, self._half
        kinds = half.exchanges(plan.round)
        kind, last = kinds[state.done], state.done + 1 == len(kinds)
        round = self._round(plan.round, plan.participants, plan.cut)
        requests = self._requests(kind, round, plan.participants)
        replies = self._exchange(plan, requests)
        if last:
            self._note_feasibility(replies)
        before = {"x": self.x, "place": state.x}
        parts = half.reply_parts(next(iter(requests.values())))
        mean = self._average(parts, kind, replies)
        if self.privacy is not None and "x" in mean:
            mean["x"] = clip_to_cube(mean["x"])  # noisy replies leave the box, to both sides
        if state.done == 0:  # the numbers that clients will receive
            sent = {name: array for name, array in mean.items() if name != "x" and not parts[name].stacked}
            mean |= self.rounding.arrays(sent, plan.round + last)
        received_x = next((r.arrays["x"] for r in requests.values() if "x" in r.arrays), None)
        replied = tuple(k for k, i in enumerate(plan.participants) if i in replies)
        round = replace(round, replied=replied, received_x=received_x)
        state.half = half.next_state(state.half, kind, mean, round)
        state.done, state.answered = state.done + 1, list(replies)
        if last:
            self._complete(plan, replies, before)

    def _round(self, number: int, participants: tuple[int, ...], cut: int) -> Round:
        weights = self.weights[list(participants)]
        return Round(number, self.shared_seed, weights, cut, self.state.constrained, aggregate=self._aggregate)

    def _recipients(self, participants: tuple[int, ...]) -> dict[int, Recipient]:
        """Return the participants as the half sees them."""
        state, weights = self.state, self.weights[list(participants)]
        shares = (weights / weights.sum()).tolist()
        return {
            i: Recipient(k, shares[k], i in state.answered, i in state.up_to_date) for k, i in enumerate(participants)
        }

    def _requests(self, kind: Kind, round: Round, participants: tuple[int, ...]) -> dict[int, Message]:
        """Return the requests as they are sent; an array that many clients get is rounded once."""
        rounded: dict[int, FloatArray] = {}
        requests = {}
        for i, recipient in self._recipients(participants).items():
            made = self._half.request(self.state.half, kind, recipient, round)
            requests[i] = Message(kind, round.number, made.arrays, made.scalars)
            if made.exact or self.rounding.precision == "float64":
                continue
            for name, array in made.arrays.items():
                if id(array) not in rounded:
                    rounded[id(array)] = self.rounding.arrays({name: array}, round.number)[name]
            arrays = {name: rounded[id(array)] for name, array in made.arrays.items()}
            requests[i] = replace(requests[i], arrays=arrays, precision=self.rounding.precision)
        return requests

    def _average(self, parts: Parts, kind: Kind, replies: dict[int, Message]) -> dict[str, FloatArray]:
        """Combine the arrays of the replies as their declarations say."""
        return self._combine(parts, [reply.arrays for reply in replies.values()], self.weights[list(replies)])

    def _combine(self, parts: Parts, arrays: list[Arrays], weights: FloatArray) -> dict[str, FloatArray]:
        stacked = {name: np.stack([one[name] for one in arrays]) for name, part in parts.items() if part.stacked}
        if len(stacked) == len(parts):
            return stacked
        rest = [{name: one[name] for name in parts if name not in stacked} for one in arrays]
        indicators = {name: part.indicators for name, part in parts.items() if part.indicators is not None}
        return stacked | self._aggregate(rest, weights, indicators=indicators)

    def _complete(self, plan: Plan, replies: dict[int, Message], before: dict[str, FloatArray]) -> None:
        """Store what is reported of the round; from here on it is over."""
        state = self.state
        state.up_to_date = set(replies)
        state.joined.update(replies)
        names = set.intersection(*(set(reply.scalars) for reply in replies.values())) if replies else set()
        state.diagnostics = {
            name: float(np.average([r.scalars[name] for r in replies.values()], weights=self.weights[list(replies)]))
            for name in sorted(names - COUNTED)
        }
        positions = {i: reply.arrays["x"] for i, reply in replies.items() if "x" in reply.arrays}
        state.distances = [
            float(np.linalg.norm(positions[i] - self.x)) if i in positions else None for i in range(len(self.weights))
        ]
        state.done, state.answered, state.sharing = 0, [], self.share_values
        if self.share_values:
            state.previous = before
        else:
            state.round, state.plan = plan.round, None

    def _note_feasibility(self, replies: dict[int, Message]) -> None:
        """Store the x with which the round began, where constraints were queried, unless a better one is known."""
        state = self.state
        violated = [bool(reply.scalars["infeasible"]) for reply in replies.values() if "infeasible" in reply.scalars]
        if not violated:
            return
        state.constrained, state.violated = True, any(violated)
        feasible = False if state.violated else (True if set(replies) == set(self._everybody) else None)
        order: list[bool | None] = [False, None, True]
        if not state.feasible_x or order.index(feasible) >= order.index(state.feasible):
            state.feasible_x, state.feasible = {"x": state.x}, feasible

    def _share(self, plan: Plan) -> None:
        """The exchange after a round: F(x_r) = sum_i omega_i f_i(x_r), over all clients, or nothing is known."""
        state, everybody = self.state, self._everybody
        request = Message("value", plan.round, {"x": self.x})  # exactly
        replies = self._exchange(plan, dict.fromkeys(everybody, request))
        weights = self.weights[list(replies)]
        value, failed = aggregate([reply.arrays for reply in replies.values()], weights)["value"]
        known = len(replies) == len(everybody) and failed < 0.5 * weights.min()
        state.value = float(value) if known else None
        state.round, state.plan, state.sharing, state.previous = plan.round, None, False, {}

    def _exchange(self, plan: Plan, requests: dict[int, Message]) -> dict[int, Message]:
        """The good replies, in the order of the clients; tried again while there are too few."""
        replies: dict[int, Message] = {}
        failures: dict[int, Exception] = {}
        needed = len(requests) if self.dropouts is None else min(self.dropouts.min_clients, len(requests))
        for _ in range(1 + (self.dropouts.retries if self.dropouts else 0)):
            missing = {i: request for i, request in requests.items() if i not in replies}
            self.before_sending(missing)
            outcome = self.engine.exchange(missing, self.dropouts.timeout if self.dropouts else None)
            failures = self._sort(missing, outcome, replies)
            if len(replies) >= needed:
                return {i: replies[i] for i in requests if i in replies}
            if self.dropouts is None:
                raise next(failures[i] for i in sorted(failures))
            if not self._counts.allow_retry(self.state, [requests[i] for i in failures], self.dropouts.max_queries):
                break
        kind = next(iter(requests.values())).kind
        raise TooFewClients(kind, plan.round, len(replies), needed, failures)

    def _sort(
        self, requests: dict[int, Message], outcome: Outcome, replies: dict[int, Message]
    ) -> dict[int, Exception]:
        """Count, check and take the replies; what is not good is a failure."""
        failures = dict(outcome.failures)
        self.state.bytes_down += sum(request.nbytes for request in requests.values())
        for i, reply in outcome.replies.items():
            try:
                self._take(i, requests[i], reply)
            except ValueError as error:
                failures[i] = error
            else:
                replies[i] = reply
        if not failures:  # an engine that ends with the first failure has no word on the others
            for i in set(requests) - set(replies):
                failures[i] = RuntimeError("neither a reply nor a reason came back")
        for i, reason in failures.items():
            self._fail(i, requests[i], reason, outcome.counts.get(i))
        return failures

    def _take(self, client: int, request: Message, reply: Message) -> None:
        """Count and check a reply; raises a ValueError where it is not good."""
        self.state.bytes_up += reply.nbytes
        check_precision_of(reply, "float64" if request.kind == "value" else self.rounding.precision)
        check_reply(self.algorithm, self._half, request, reply, self.privacy)
        state, queries = self.state, int(reply.scalars["queries"])
        if self.dropouts is None:  # all clients are in this process
            state.queries[client] = max(state.queries[client], queries)
        elif doubt := self._counts.answered(state, client, request, queries):
            self.on_failure(client, request.round, ValueError(doubt))
        state.failed[client] = max(state.failed.get(client, 0), int(reply.scalars.get("failed", 0)))

    def _fail(self, client: int, request: Message, reason: Exception, known: int | None) -> None:
        """Take note of a failure, and of the count that came with it or that the engine knows."""
        count = reason.queries if isinstance(reason, RemoteFailure) else known
        if not isinstance(reason, Undelivered | CountTooSmall):
            self._counts.failed(self.state, client, request, count)
        self.on_failure(client, request.round, reason)
