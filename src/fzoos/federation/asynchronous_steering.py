"""Asynchronous rounds where the server steers: late gradients are predicted, and no x goes where that may not hold.

A steered algorithm whose `Steering` keeps answers sends "gradient" in its first exchange, which is that of f_i at x.
Its rounds go on without a client that is busy:

refresh    asked are those that are not busy. The averaged gradient is over all: those that answered, and those whose
           gradient follows from what they said last (`late_gradients.py`). A client that has answered late is next
           asked for a gradient without queries, which comes at once: it takes part in a whole round, at today's x.
update     goes to those that answered, with the averaged gradients of past rounds where late answers have changed
           them. x is the average over these, but no further from a late client's last centre than R.
waiting    x has moved less than 0.3 of how far it is from where a busy client was asked: what is left to be won
           depends on that client. The exchange then waits for all.

Where somebody has no value at a centre, or has constraints, all later exchanges wait for all: such rounds are those of
`Server`. If that was said late, x goes back to the last centre at which that client had a value.
"""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.federation.aggregate import aggregate
from fzoos.federation.asynchronous import AsynchronousServer
from fzoos.federation.late_gradients import LateGradients
from fzoos.federation.server import Server
from fzoos.federation.server_state import Plan
from fzoos.messages.message import Kind, Message

__all__ = ["SteeredAsynchronousServer"]

_LITTLE = 0.3  # of the way from where a busy client was asked


class SteeredAsynchronousServer(AsynchronousServer):
    """Runs asynchronous rounds of an algorithm whose server decides where to go: see `AsynchronousServer`."""

    @property
    def _late(self) -> LateGradients:
        return self.state.answers.gradients

    def moved(self, before: FloatArray) -> float:
        """At rest, x no longer moves, and is where everybody was asked."""
        state, late = self.state, self._late
        known = {i: late.last(i) for i in range(len(self._weights)) if self._weights[i] and i not in late.absent}
        if None in known.values():
            return 1.0
        asked = {state.answers.centres[s].tobytes(): state.answers.centres[s] for s in known.values() if s is not None}
        return max(Server.moved(self, x) for x in [before, *asked.values()])

    def _told(self, participants: tuple[int, ...], client: int) -> dict[str, float]:
        """With "quiet" to whom was late, and "history", the number of past gradients that come with an update."""
        told = dict(super()._told(participants, client))
        if self.state.refreshed is not None and "history" in self.state.payload:
            told["history"] = len(self.state.payload["history"])
        elif client in self._late.quiet and not self._waits:
            told["quiet"] = 1
        return told

    @property
    def _waits(self) -> bool:
        return self._late.together or self.state.constrained

    def _wanted(self, kind: Kind) -> int:
        """How many answers end an exchange: all, where those under way decide what is next."""
        busy = self.state.answers.under_way.values()
        if self._waits or (kind == "refresh" and busy and self._settled([m.round for m in busy])):
            return len(self._weights)
        return super()._wanted(kind)

    def _settled(self, asked: list[int]) -> bool:
        """Whether x goes on moving by little, seen from where busy clients were asked."""
        x, centres = self.state.x, self.state.answers.centres
        previous = centres.get(self.state.round)
        if previous is None:
            return False
        far = max(float(np.max(np.abs(x - centres[s]))) for s in asked)
        return Server.moved(self, previous) <= _LITTLE * far

    def _heard(self, client: int, request: Message, reply: Message) -> None:
        late, plan = self._late, self.state.plan
        assert plan is not None
        assert self._steering is not None
        if request.kind != "refresh":
            return
        late.add(request.round, client, reply.arrays["gradient"])
        late.together = late.together or "infeasible" in reply.scalars
        if request.scalars.get("quiet"):
            late.quiet.discard(client)
            return
        if request.round < plan.round:
            late.quiet.add(client)
        if not self._steering.failed(reply.arrays):
            late.valued[client] = request.round
            return
        late.together = True
        if request.round < plan.round:
            late.back = late.valued.get(client, 0)

    def _fail(self, client: int, request: Message, reason: Exception, known: int | None) -> None:
        super()._fail(client, request, reason, known)
        self._late.absent.add(client)

    def _average(self, kind: Kind, replies: dict[int, Message]) -> dict[str, FloatArray]:
        state, late, centres = self.state, self._late, self.state.answers.centres
        if kind == "update":
            mean = Server._average(self, kind, replies) if replies else {"x": state.x}
            return mean | {"x": late.within_reach(mean["x"], state.x, state.refreshed or [], centres)}
        plan = state.plan
        assert plan is not None
        if not replies:  # nothing moves
            return {name: array for name, array in state.payload.items() if name != "history"}
        mean = Server._average(self, kind, replies)
        late.judge(plan.round, centres, self._weights)
        mean |= self._history(plan)
        if len(replies) < len(plan.participants):
            late.partial.add(plan.round)
            mean["gradient"] = self._averaged(plan.round)
        late.sent[plan.round] = mean["gradient"]
        state.answers.forget()
        return mean

    def _averaged(self, round: int) -> FloatArray:
        filled = self._late.filled(round, self._weights)
        parts = [{"gradient": g} for g in filled.values()]
        return aggregate(parts, self._weights[list(filled)], self._combine)["gradient"]

    def _history(self, plan: Plan) -> dict[str, FloatArray]:
        """The averaged gradients of the rounds before this one, where late answers have changed any of them."""
        sent = self._late.sent
        now = {s: self._averaged(s) for s in self._late.partial}
        if all(np.array_equal(gradient, sent[s]) for s, gradient in now.items()):
            return {}
        sent |= now
        nothing = np.zeros_like(self.state.x)  # in a round in which nobody was sent an update
        return {"history": np.array([sent.get(s, nothing) for s in range(min(sent), plan.round)])}

    def _complete(self, plan: Plan, replies: dict[int, Message]) -> None:
        super()._complete(plan, replies)
        late = self._late
        if late.back and self._steering is not None:
            self.state.shared = self._steering.back(self.state.shared, self.state.answers.centres[late.back])
            late.back = 0
