"""The server's loop, the same for every algorithm: choose clients, exchange, average.

One round r, for an algorithm of two exchanges (the first is skipped in round 1 and by the others):

    refresh:  x_{r-1} -> participants;  each refreshes its payload at x_{r-1} and replies it;  the payloads are averaged
    update:   averaged payload (and x_{r-1}, to whom it has not gone yet) -> participants;  each replies its x_i
              x_r = sum_i omega_i x_i

An algorithm that rebuilds x has a server half, which server and clients run, and x does not travel:

    update:   averaged payload of round r-1 -> participants that have x_{r-2};  x_{r-1} and the rest of the state -> the
              others;  each replies its payload, whose average gives x_r here and, in round r+1, at the participants

The paper puts the refresh at x_r at the end of round r. At the start of round r + 1 it is the same computation, but the
refresh after the last round, whose payload nobody would use, is not paid for, and under partial participation the
payload comes from the clients that are about to use it.

An algorithm that `combines_replies` makes x_r of the single replies, with what it kept of earlier rounds.

Averages are over those who answered, with renewed weights. Between any two exchanges all that the server knows is one
record, its `state`, from which another server goes on exactly as this one would have.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.federation.aggregate import aggregate
from fzoos.federation.check import check_precision_of, check_reply
from fzoos.federation.counts import CountTooSmall, QueryCounts
from fzoos.federation.dropouts import Dropouts, TooFewClients
from fzoos.federation.exchange import Engine, Outcome, Undelivered
from fzoos.federation.reports import distances, hear_constraints, mean_scalars
from fzoos.federation.server_state import Plan, ServerState
from fzoos.messages.codec import RemoteFailure
from fzoos.messages.message import Kind, Message
from fzoos.messages.rounding import Rounding
from fzoos.objectives.box import clip_to_cube

__all__ = ["Dropouts", "Plan", "Server", "TooFewClients"]


class Server:
    """Runs rounds through an engine, an exchange at a time; what it knows is in `state`, which may be replaced.

    Args:
        engine: carries messages to the clients.
        algorithm: its settings.
        x: x_0 in the unit cube, shape (d,).
        weights: omega, shape (N,).
        participants: how many clients take part in a round.
        shared_seed: the seed that all clients share (of the random features).
        rng: draws the participants.
        dropouts: None: the first failure of a client is raised.
        combine: how the clients' arrays become one: a name of `AGGREGATES`.
        rounding: what is done to requests before they leave; x and payload stay here as they are.
        noisy: whether replies got noise for privacy.
        share_values: whether all clients are asked for f_i(x_r) after each round, and F(x_r) is known: one exchange
            more.
        on_failure: called with the client, the round and the reason of each failure that is gone on from.
    """

    def __init__(
        self,
        engine: Engine,
        algorithm: Algorithm,
        x: FloatArray,
        *,
        weights: FloatArray,
        participants: int,
        shared_seed: int,
        rng: np.random.Generator,
        dropouts: Dropouts | None = None,
        combine: str = "mean",
        rounding: Rounding = Rounding(),
        noisy: bool = False,
        share_values: bool = False,
        on_failure: Callable[[int, int, Exception], None] = lambda client, round, error: None,
    ) -> None:
        self._engine, self._algorithm = engine, algorithm
        self._weights, self._participants = weights, participants
        self._seed = {"seed": shared_seed} if algorithm.shares_seed else {}
        self._dropouts, self._combine, self._rounding = dropouts, combine, rounding
        self._on_failure, self._noisy, self._share_values = on_failure, noisy, share_values
        attempts, lost = (1, ()) if dropouts is None else (1 + dropouts.retries, dropouts.lost)
        self._counts = QueryCounts(algorithm, len(x), attempts, lost, share_values)
        self._half = algorithm.server(len(x))
        self._steering = algorithm.steering(len(x))
        self._places: tuple[tuple[int, ...], dict[int, tuple[int, float]]] = (), {}  # of participants: turn and share
        start = self._half or self._steering
        shared = {"x": x} if start is None else start.start(x)
        count = len(weights)
        self.state = ServerState(shared, rng, queries=[0] * count, distances=[None] * count)

    @property
    def x(self) -> FloatArray:
        """x_r, in the unit cube; with constraints the last x that was feasible for all when it was asked, if any."""
        if self.state.constrained:
            return self.state.asked["x"]
        return self.state.x if self._steering is None else self._steering.reported(self.state.shared)

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
        """All who are ever asked: a client of weight zero would be asked for nothing."""
        return [int(i) for i in np.flatnonzero(self._weights)]

    def plan(self) -> Plan:
        """Draw the next round's participants and say what the round will cost in queries."""
        state = self.state
        if state.plan is not None:  # it has begun, and goes on
            return state.plan
        chosen = self._everybody
        if self._participants < len(chosen):
            chosen = sorted(state.generator.choice(chosen, self._participants, replace=False))
        participants = tuple(int(i) for i in chosen)
        return Plan(state.round + 1, participants, self._cost(participants))

    def cut(self, plan: Plan, most: int) -> Plan | None:
        """The largest part of a planned round that costs so many queries at most, if there is any."""
        largest = self._algorithm.largest_cut(len(self.state.x))
        sizes = range(1, largest + 1)
        cut = bisect_right(sizes, most, key=lambda size: self._cost(plan.participants, size))
        queries = self._cost(plan.participants, cut) if cut else 0  # a part that asks nothing may be free of charge
        return replace(plan, queries=queries, cut=cut) if queries else None

    def _cost(self, participants: tuple[int, ...], cut: int = 0) -> int:
        """Queries of the next round, all of it or cut."""
        state, part = self.state, {"cut": cut} if cut else {}
        refreshed = self._algorithm.protocol.refreshes(state.round + 1)
        queries = len(participants) * (state.constrained and not self._algorithm.asks_x) + sum(
            self._algorithm.planned(
                len(state.x),
                {**self._told(participants, i), **part},
                first=i not in state.joined,
                refreshed=refreshed,
            )
            for i in self._free(participants)
        )
        # At most: who begins the next round at x_r has asked there already.
        return queries + (len(self._everybody) if self._share_values else 0)

    def moved(self, before: FloatArray) -> float:
        """How far x is from `before`, in the coordinate in which it is furthest: at rest, it no longer moves.

        A round that only looked in vain is no rest.
        """
        looked = 0.0 if self._steering is None else self._steering.looked(self.state.shared)
        return max(float(np.max(np.abs(self.state.x - before), initial=0.0)), looked)

    def _free(self, participants: tuple[int, ...]) -> tuple[int, ...]:
        """Those of them that can be asked."""
        return participants

    def run(self, plan: Plan) -> None:
        """Carry out a planned round, or what is left of it; afterwards x is x_r."""
        self.begin(plan)
        while self.begun:
            self.advance()

    def begin(self, plan: Plan) -> None:
        """Begin a planned round, or go on with it."""
        if self.state.plan is None:
            self._counts.begin(self.state)
        self.state.plan = plan
        if plan.cut and self._steering is not None:
            self.state.shared = self._steering.cut(self.state.shared, plan.cut)

    def advance(self) -> None:
        """Carry out the next exchange of the round that has begun; the last one completes it."""
        plan, started = self.state.plan, time.perf_counter()
        if plan is None:
            raise RuntimeError("no round has begun")
        try:
            if self.state.sharing:
                self._share(plan)
            elif self._algorithm.protocol.refreshes(plan.round) and self.state.refreshed is None:
                self._refresh(plan)
            else:
                self._update(plan)
        finally:
            self.state.seconds += time.perf_counter() - started

    def _told(self, participants: tuple[int, ...], client: int) -> Mapping[str, float]:
        """The numbers that go with the requests to a client."""
        if self._steering is None:
            plan = self.state.plan
            return {**self._seed, "cut": plan.cut} if plan is not None and plan.cut else self._seed
        if self._places[0] is not participants:
            weights = self._weights[list(participants)]
            shares = (weights / weights.sum()).tolist()
            self._places = participants, dict(zip(participants, enumerate(shares), strict=True))
        turn, share = self._places[1][client]
        told = self._steering.scalars(self.state.shared, self._seed["seed"], turn, len(participants), share)
        if self.state.constrained and "constrained" in self._algorithm.told:
            return {**told, "constrained": 1, "share": share}
        return told

    def _steer(self, plan: Plan) -> None:
        """First exchange of a steered round: x goes to those who cannot work it out."""
        state, steering = self.state, self._steering
        assert steering is not None
        exact = steering.rebuilds(state.shared)  # whoever works x out from it must have it exactly
        if not exact:
            state.shared = {**state.shared, **self._rounding.arrays({"x": state.x}, plan.round)}
        requests = {}
        for i in plan.participants:
            short = exact and i in state.up_to_date
            message = Message("refresh", plan.round, {} if short else {"x": state.x}, self._told(plan.participants, i))
            requests[i] = message if exact and not short else self._rounding(message)
        replies = self._exchange(plan, requests)
        mean = self._average("refresh", replies)
        state.payload = self._rounding.arrays(mean, plan.round)  # the numbers that clients will get
        state.refreshed = list(replies)

    def _refresh(self, plan: Plan) -> None:
        if self._steering is not None:
            return self._steer(plan)
        state = self.state
        carried = {name: state.payload[name] for name in self._algorithm.carried if name in state.payload}
        request = self._request("refresh", plan, {"x": state.x, **carried})
        replies = self._exchange(plan, dict.fromkeys(plan.participants, request))
        state.payload = self._average("refresh", replies)
        state.refreshed = list(replies)

    def _update(self, plan: Plan) -> None:
        state = self.state
        known = set(state.refreshed or ())  # they have x already
        if self._steering is None:
            known |= state.up_to_date  # or can rebuild it
        if self._steering is not None:
            requests, exact = {}, self._steering.rebuilds(state.shared)
            for i in plan.participants:
                x = {} if i in known else {"x": state.x}
                message = Message("update", plan.round, {**x, **state.payload}, self._told(plan.participants, i))
                requests[i] = message if exact and x else self._rounding(message)  # it will work x out from this one
            return self._complete(plan, self._exchange(plan, requests))
        short = self._request("update", plan, state.payload)
        if self._half is None:
            full = self._request("update", plan, {**state.shared, **state.payload})
        else:  # whoever rebuilds x from it must have it exactly
            full = Message("update", plan.round, state.shared, self._told(plan.participants, plan.participants[0]))
        replies = self._exchange(plan, {i: short if i in known else full for i in plan.participants})
        self._complete(plan, replies)

    def _complete(self, plan: Plan, replies: dict[int, Message]) -> None:
        """x_r, the payload and what is reported of the round; from here on it is over."""
        state = self.state
        hear_constraints(state, replies, set(self._everybody))
        previous = {"x": self.x, "place": state.x}
        mean = self._combined(replies) if self._algorithm.combines_replies else self._average("update", replies)
        if self._steering is not None:
            averages, seed = {**state.payload, **mean}, self._seed["seed"]
            if self._noisy and "x" in averages:
                averages["x"] = clip_to_cube(averages["x"])
            state.shared = self._steering.next_state(state.shared, averages, seed, len(replies))
            state.up_to_date, mean = set(replies), {}
        elif self._half is None:
            x = mean.pop("x")
            state.shared = {"x": clip_to_cube(x) if self._noisy else x}  # noisy replies leave the box, to both sides
        else:  # from the numbers that the clients will get
            mean = self._rounding.arrays(mean, plan.round + 1)
            state.shared = self._half.next_state(state.shared, mean, plan.round, self._seed["seed"])
            state.up_to_date = set() if plan.cut else set(replies)  # whose shorter messages are no request
        if mean:
            state.payload = mean
        state.joined.update(replies)
        # Without local steps there is none to correct, and the length of corrections is a 0 that says nothing.
        state.diagnostics = mean_scalars(
            replies, self._weights, ("correction_length",) if self._algorithm.steered else ()
        )
        state.distances = distances(replies, self.x, len(self._weights))
        state.refreshed, state.sharing = None, self._share_values
        if self._share_values:
            state.previous = previous
        else:
            state.round, state.plan = plan.round, None

    def _share(self, plan: Plan) -> None:
        """The exchange after a round: F(x_r) = sum_i omega_i f_i(x_r), over all clients, or nothing is known."""
        state, everybody = self.state, self._everybody
        request = Message("value", plan.round, {"x": self.x})  # exactly
        replies = self._exchange(plan, dict.fromkeys(everybody, request))
        weights = self._weights[list(replies)]
        value, failed = aggregate([reply.arrays for reply in replies.values()], weights)["value"]
        known = len(replies) == len(everybody) and failed < 0.5 * weights.min()
        state.value = float(value) if known else None
        state.round, state.plan, state.sharing, state.previous = plan.round, None, False, {}

    def _average(self, kind: Kind, replies: dict[int, Message]) -> dict[str, FloatArray]:
        parts = [reply.arrays for reply in replies.values()]
        return aggregate(parts, self._weights[list(replies)], self._combine, self._algorithm.votes)

    def _combined(self, replies: dict[int, Message]) -> dict[str, FloatArray]:
        """x and what goes out, as the algorithm makes them; what else it made stays here."""
        parts = [reply.arrays for reply in replies.values()]
        made = self._algorithm.combine_replies({**self.state.kept, "x": self.x}, parts, self._weights[list(replies)])
        outgoing = {"x", *self._algorithm.shapes(len(self.x))}
        self.state.kept = {name: array for name, array in made.items() if name != "x"}
        return {name: array for name, array in made.items() if name in outgoing}

    def _request(self, kind: Kind, plan: Plan, arrays: dict[str, FloatArray]) -> Message:
        told = self._told(plan.participants, plan.participants[0])  # the same to all of them
        return self._rounding(Message(kind, plan.round, arrays, told))

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
                return {i: replies[i] for i in requests if i in replies}
            if self._dropouts is None:
                raise next(failures[i] for i in sorted(failures))
            if not self._counts.allow_retry(self.state, failures, self._dropouts.max_queries):
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
        check_precision_of(reply, "float64" if request.kind == "value" else self._rounding.precision)
        check_reply(self._algorithm, request, reply, len(self.state.x), noisy=self._noisy)
        self._count(client, request, int(reply.scalars["queries"]))
        self.state.failed[client] = max(self.state.failed.get(client, 0), int(reply.scalars.get("failed", 0)))

    def _fail(self, client: int, request: Message, reason: Exception, known: int | None) -> None:
        """Take note of a failure, and of the count that came with it or that the engine knows."""
        told = reason.queries if isinstance(reason, RemoteFailure) else known
        if not isinstance(reason, Undelivered | CountTooSmall):
            self._counts.failed(self.state, client, told)
        self._on_failure(client, request.round, reason)

    def _count(self, client: int, request: Message, claimed: int) -> None:
        """Take a client's count of its queries: where all are in this process, as it is."""
        state = self.state
        if self._dropouts is None:
            state.queries[client] = max(state.queries[client], claimed)
            return
        doubt = self._counts.answered(state, client, claimed, update=request.kind == "update")
        if doubt is not None:
            self._on_failure(client, request.round, ValueError(doubt))
