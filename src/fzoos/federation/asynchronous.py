"""A server that does not wait for the slowest: rounds go on when enough clients have answered.

An exchange sends requests to all clients that are not busy, and ends when `enough` answers have come, to its own
requests or to earlier ones. A client that is busy is asked nothing more until it has answered. Its answer is used from
the next average of its kind on, whatever round it belongs to, and is kept until there is a newer one: averages are over
all clients that ever answered, not over the fast ones, whose optimum is another.

What was asked at another x is first brought to the x of today: an answer of round s in round r has

    x_i + x_{r-1} - x_{s-1}    in place of x_i: the client's step, made from here
    its payload                as it is: functions and control vectors of another x are still those of the client

and is then averaged with the weights of `answers.py`. If all answers come in time, all numbers are those of `Server`.

Where a round has two exchanges, payloads correct each client's steps so that they are steps of all: the average of x is
then over those that have just come, and only payloads are kept. A client that was too late with its refresh is not sent
the update, which is the longer part, but the next refresh.

Which clients had answered each time the server had waited is in the records: `Record.arrivals`. With it, and with
deterministic objectives, a run can be repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.federation.aggregate import aggregate
from fzoos.federation.answers import Answer, weight_of
from fzoos.federation.exchange import AsynchronousEngine
from fzoos.federation.server import Server, TooFewClients
from fzoos.federation.server_state import Plan
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.objectives.box import clip_to_cube

__all__ = ["AsynchronousServer"]

_REPLY: dict[str, Kind] = {"refresh": "payload", "update": "iterate"}


class AsynchronousServer(Server):
    """Runs asynchronous rounds.

    Args:
        engine: carries messages to the clients.
        enough: how many answers end an exchange.
        settings: those of `Server`; `dropouts` is needed, and all clients take part.
    """

    def __init__(self, engine: AsynchronousEngine, *settings: Any, enough: int, **others: Any) -> None:
        super().__init__(engine, *settings, **others)
        assert self._dropouts is not None
        self._gather, self._enough = engine.gather, enough
        self._sent: set[int] = set()  # clients that this engine has taken a request to, which is under way

    def begin(self, plan: Plan) -> None:
        """Begin a planned round, or go on with it."""
        if not self.begun:
            self.state.arrivals = []
        super().begin(plan)

    def moved(self, before: FloatArray) -> float:
        """At rest, x no longer moves, and is where all those were asked whose answers count in full."""
        state = self.state
        opening: Kind = "payload" if self._algorithm.exchanges == 2 else "iterate"
        last = [a for a in state.answers.of(opening) if weight_of(state.round - a.round, a.pace) == 1.0]
        return max(
            super(AsynchronousServer, self).moved(x) for x in [before, *(state.answers.centres[a.round] for a in last)]
        )

    def _free(self, participants: tuple[int, ...]) -> tuple[int, ...]:
        """Those that are not busy; what the others may have asked is counted as unknown."""
        return tuple(i for i in participants if i not in self.state.answers.under_way)

    def _due(self, plan: Plan, requests: dict[int, Message]) -> dict[int, Message]:
        """The requests that are sent: none to who is busy, and no update without the refresh before it."""
        free, refreshed = self._free(tuple(requests)), self.state.refreshed
        return {i: requests[i] for i in free if refreshed is None or i in refreshed}

    def _exchange(self, plan: Plan, requests: dict[int, Message]) -> dict[int, Message]:
        """The good replies to this exchange's requests; late ones are among the answers."""
        answers, dropouts = self.state.answers, self._dropouts
        assert dropouts is not None
        answers.centres[plan.round] = self.state.x
        asked = due = self._due(plan, requests)
        possible, retries = len(asked) + len(answers.under_way), dropouts.retries
        enough = min(self._wanted(next(iter(requests.values())).kind), possible)
        least = min(dropouts.min_clients, possible)
        came: dict[int, Message] = {}
        failures: dict[int, Exception] = {}
        while True:
            self._send(due)
            failed = self._wait(plan, max(enough - len(came), 1), came)
            failures = {i: error for i, error in (failures | failed).items() if i not in came}
            ours = {i: came[i] for i in asked if i in came}
            unanswered = any(i in answers.under_way for i in asked)
            if len(came) >= enough and (ours or not unanswered):
                return ours
            if len(came) + len(answers.under_way) >= enough:
                due = {}
                continue
            due = {i: asked[i] for i in failures if i in asked}
            if due and retries and self._counts.allow_retry(self.state, due, dropouts.max_queries):
                retries -= 1
                continue
            due, enough = {}, len(came) + len(answers.under_way)
            if enough < least:
                kind = next(iter(requests.values())).kind
                raise TooFewClients(kind, plan.round, len(came), least, failures)
            if not answers.under_way:
                return ours

    def _wanted(self, kind: Kind) -> int:
        """How many answers end an exchange."""
        return self._enough

    def _heard(self, client: int, request: Message, reply: Message) -> None:
        """A good answer has come, to a request of this round or of an earlier one."""

    def _send(self, requests: dict[int, Message]) -> None:
        """They are under way; until they are answered, what they may cost is planned for."""
        state, algorithm = self.state, self._algorithm
        state.answers.under_way |= requests
        for i, request in requests.items():
            new, refreshed = i not in state.joined, request.kind == "refresh"
            cost = algorithm.planned(len(state.x), request.scalars, first=new, refreshed=refreshed)
            state.unknown[i] = max(state.unknown[i], cost)

    def _wait(self, plan: Plan, enough: int, came: dict[int, Message]) -> dict[int, Exception]:
        """Wait for so many answers, and add those that are good; the others fail."""
        state, answers, dropouts = self.state, self.state.answers, self._dropouts
        assert dropouts is not None
        new = {i: request for i, request in answers.under_way.items() if i not in self._sent}
        state.bytes_down += sum(request.nbytes for request in new.values())
        outcome = self._gather(new, dropouts.timeout, enough)
        failures = dict(outcome.failures)
        for i, reply in outcome.replies.items():
            request = answers.under_way[i]
            try:
                self._take(i, request, reply)
            except ValueError as error:
                failures[i] = error
                continue
            answers.add(i, reply, plan.round)
            self._heard(i, request, reply)
            came[i] = reply
            state.joined.add(i)
        for i, reason in failures.items():
            self._fail(i, answers.under_way.pop(i), reason, outcome.counts.get(i))
        ended = outcome.replies.keys() | outcome.failures.keys()
        self._sent = (self._sent | new.keys()) - ended
        state.arrivals.append(sorted(ended))
        return failures

    def _average(self, kind: Kind, replies: dict[int, Message]) -> dict[str, FloatArray]:
        """Over all clients that ever answered such a request; of iterates that are corrected, those that just came."""
        state, plan = self.state, self.state.plan
        assert plan is not None
        answers = state.answers.of(_REPLY[kind])
        if kind == "update" and self._algorithm.exchanges == 2:
            answers = [answer for answer in answers if answer.came == plan.round]
            if not answers:
                return {"x": state.x}
        ages = [weight_of(plan.round - answer.round, answer.pace) for answer in answers]
        weights = self._weights[[answer.client for answer in answers]] * np.array(ages)
        mean = aggregate([self._today(answer, plan) for answer in answers], weights, self._combine)
        if "x" in mean and self._algorithm.projected:
            mean["x"] = clip_to_cube(mean["x"])
        state.answers.forget()
        return mean

    def _today(self, answer: Answer, plan: Plan) -> Arrays:
        """An answer as if it had been asked at today's x."""
        if answer.round == plan.round or "x" not in answer.arrays:
            return answer.arrays
        moved = self.state.x - self.state.answers.centres[answer.round]
        return {**answer.arrays, "x": answer.arrays["x"] + moved}
