"""A server that does not wait for the slowest: rounds continue when enough clients have replied.

An exchange sends requests to all clients that are not busy, and ends when `enough` replies have arrived, to its own
requests or to earlier ones. A busy client gets no further request until it has replied. What a late reply is worth is
declared for each of its arrays (`Part.late`):

    "keep"   it is stored until there is a newer one: averages are over all clients that ever replied, and not over the
             fast ones, whose optimum is another
    "once"   it is in the average of the round in which it arrives
    "drop"   it is in no average; the server half has received it (`ServerHalf.receive`)

A reply that was made at another x is first brought to the x of today: of round s, in round r it has

    x_i + x_{r-1} - x_{s-1}    in place of x_i: the client's step, made from here
    its other arrays           as they are: functions and control vectors of another x are still those of the client

and is averaged with the weight omega_i min(1, (1 + 2 p) / (1 + age)). Its age is r - s, and p the age at which it
arrived. A client that always needs p rounds gets its next request when it has replied, so that its replies are between
p and 2 p rounds old while they are in use. Up to there they count in full: less would shift the average towards the
fast clients' optimum, for good. Beyond, a client is slower than it was, or gone, and its last reply counts less and
less.

If all replies come in time, all numbers are those of `Server`. A client that was too late with its reply to a refresh
is not sent the update, which is the longer part, but the next refresh.

Which clients had replied each time the server had waited is in the records: `Record.arrivals`. With it, and with
deterministic objectives, a run can be repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Parts
from fzoos.federation.exchange import AsynchronousEngine, TooFewClients
from fzoos.federation.server import Server
from fzoos.federation.server_state import Answer, Plan
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.objectives.box import clip_to_cube

__all__ = ["AsynchronousServer"]

_REPLY: dict[str, Kind] = {"refresh": "payload", "update": "iterate"}


class AsynchronousServer(Server):
    """Runs asynchronous rounds, with `dropouts` and all clients; `enough` replies end an exchange."""

    def __init__(self, engine: AsynchronousEngine, *settings: Any, enough: int, **others: Any) -> None:
        super().__init__(engine, *settings, **others)
        assert self.dropouts is not None
        self._gather, self._enough = engine.gather, enough
        self._sent: set[int] = set()  # clients that this engine has taken a request to, which is under way

    def begin(self, plan: Plan) -> None:
        """Begin a planned round, or continue it."""
        if not self.begun:
            self.state.arrivals = []
        super().begin(plan)

    def moved(self, before: FloatArray) -> float:
        """Return how far x is from `before`, and from where all replies were made that count in full."""
        state = self.state
        opening = _REPLY[self._half.exchanges(2)[0]]
        last = [a for a in state.answers.of(opening) if _weight(state.round - a.round, a.pace) == 1.0]
        return max(
            super(AsynchronousServer, self).moved(x) for x in [before, *(state.answers.centres[a.round] for a in last)]
        )

    def _is_free(self, client: int) -> bool:
        """Whether a client is not busy; the queries that busy clients may have made are counted as unknown."""
        return client not in self.state.answers.under_way

    def _due(self, plan: Plan, requests: dict[int, Message]) -> dict[int, Message]:
        """Return the requests that are sent: none to busy clients, and no update without the refresh before it."""
        state = self.state
        return {i: r for i, r in requests.items() if self._is_free(i) and (state.done == 0 or i in state.answered)}

    def _exchange(self, plan: Plan, requests: dict[int, Message]) -> dict[int, Message]:
        """The good replies to this exchange's requests; late ones are among the answers."""
        answers, dropouts = self.state.answers, self.dropouts
        assert dropouts is not None
        sent = (request.arrays["x"] for request in requests.values() if "x" in request.arrays)
        answers.centres[plan.round] = next(sent, self.state.x)
        awaited = due = self._due(plan, requests)
        possible, retries = len(awaited) + len(answers.under_way), dropouts.retries
        enough = min(self._wanted(plan, next(iter(requests.values())).kind), possible)
        least = min(dropouts.min_clients, possible)
        came: dict[int, Message] = {}
        failures: dict[int, Exception] = {}
        while True:
            self._send(due)
            failed = self._wait(plan, max(enough - len(came), 1), came)
            failures = {i: error for i, error in (failures | failed).items() if i not in came}
            ours = {i: came[i] for i in awaited if i in came}
            unanswered = any(i in answers.under_way for i in awaited)
            if len(came) >= enough and (ours or not unanswered):
                return ours
            if len(came) + len(answers.under_way) >= enough:
                due = {}
                continue
            due = {i: awaited[i] for i in failures if i in awaited}
            if due and retries and self._counts.allow_retry(self.state, due.values(), dropouts.max_queries):
                retries -= 1
                continue
            due, enough = {}, len(came) + len(answers.under_way)
            if enough < least:
                kind = next(iter(requests.values())).kind
                raise TooFewClients(kind, plan.round, len(came), least, failures)
            if not answers.under_way:
                return ours

    def _wanted(self, plan: Plan, kind: Kind) -> int:
        """Return how many replies end an exchange."""
        state, pending = self.state, [request.round for request in self.state.answers.under_way.values()]
        round = self._round(plan.round, plan.participants, plan.cut)
        waits = self._half.waits_for_all(state.half, kind, pending, round)
        return len(self.weights) if waits else self._enough

    def _receive(self, plan: Plan, client: int, request: Message, reply: Message | None) -> None:
        """Let the half see a single reply, or that there will be none."""
        round, position = self._round(plan.round, plan.participants, plan.cut), plan.participants.index(client)
        self.state.half = self._half.receive(self.state.half, request, reply, position, round)

    def _send(self, requests: dict[int, Message]) -> None:
        """Put requests under way; until they are answered, what they may cost is planned for."""
        self.state.answers.under_way |= requests
        for i, request in requests.items():
            self.state.unknown[i] += self._planned(i, request)

    def _planned(self, client: int, request: Message) -> int:
        return self._counts.cost(request, first=client not in self.state.joined)

    def _wait(self, plan: Plan, enough: int, came: dict[int, Message]) -> dict[int, Exception]:
        """Wait for `enough` replies, and add the good ones; the others fail."""
        state, answers, dropouts = self.state, self.state.answers, self.dropouts
        assert dropouts is not None
        new = {i: request for i, request in answers.under_way.items() if i not in self._sent}
        state.bytes_down += sum(request.nbytes for request in new.values())
        self.before_sending(new)
        outcome = self._gather(new, dropouts.timeout, enough)
        failures = dict(outcome.failures)
        for i in outcome.replies.keys() | outcome.failures.keys():
            state.unknown[i] -= self._planned(i, answers.under_way[i])
        for i, reply in outcome.replies.items():
            request = answers.under_way[i]
            try:
                self._take(i, request, reply)
            except ValueError as error:
                failures[i] = error
                continue
            answers.add(i, reply, plan.round)
            self._receive(plan, i, request, reply)
            came[i] = reply
            state.joined.add(i)
        for i, reason in failures.items():
            request = answers.under_way.pop(i)
            self._fail(i, request, reason, outcome.counts.get(i))
            self._receive(plan, i, request, None)
        ended = outcome.replies.keys() | outcome.failures.keys()
        self._sent = (self._sent | new.keys()) - ended
        state.arrivals.append(sorted(ended))
        return failures

    def _average(self, parts: Parts, kind: Kind, replies: dict[int, Message]) -> dict[str, FloatArray]:
        """Combine the last replies of all clients as far as they count."""
        state, plan = self.state, self.state.plan
        assert plan is not None
        answers = state.answers.of(_REPLY[kind])
        mean: dict[str, FloatArray] = {}
        counting = {
            "keep": answers,
            "once": [answer for answer in answers if answer.round + answer.pace == plan.round],
            "drop": [answer for answer in answers if answer.client in replies and answer.round == plan.round],
        }
        for late, chosen in counting.items():
            some = {name: part for name, part in parts.items() if part.late == late}
            if some and chosen:
                ages = [_weight(plan.round - answer.round, answer.pace) for answer in chosen]
                weights = self.weights[[answer.client for answer in chosen]] * np.array(ages)
                mean |= self._combine(some, [self._today(answer, plan) for answer in chosen], weights)
        if "x" in parts:
            x = mean.get("x", state.x)
            mean["x"] = clip_to_cube(x) if self.algorithm.projected else x
        state.answers.forget()
        return mean

    def _today(self, answer: Answer, plan: Plan) -> Arrays:
        """Return the arrays of a reply as if it had been made at today's x."""
        if answer.round == plan.round or "x" not in answer.arrays:
            return answer.arrays
        moved = self.state.x - self.state.answers.centres[answer.round]
        return {**answer.arrays, "x": answer.arrays["x"] + moved}


def _weight(age: int, pace: int) -> float:
    return min(1.0, (1 + 2 * pace) / (1 + age))
