"""The server half of the trust region: x is the clients' mean, Delta that of their proposals.

In asynchronous rounds (`late_gradients.py`) a round does not wait for a busy client:

refresh    goes to those that are not busy. The averaged gradient is over all clients: known, or predicted. A client
           that has replied late next receives a request without queries, which it answers at once: it takes part in a
           whole round, at today's x.
update     goes to those that replied, with the averaged gradients of past rounds where late replies have changed
           them. x is the average over these, but no further from a late client's last centre than R.
waiting    x has moved less than 0.3 of its distance from where a busy client was queried: what is left to be gained
           depends on that client. The exchange then waits for all.

Where a client has no value at a centre, or has constraints, all later exchanges wait for all. If such a reply is late,
x returns to the last centre at which that client had a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Part, Parts, Recipient, Request, Round, ServerHalf, State
from fzoos.algorithms.trust_region.client import FIRST_DELTA, PRIVATE, RegionStatistics, delta_of, ranges
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.late_gradients import LateGradients
from fzoos.messages.message import Arrays, Kind, Message

__all__ = ["RegionServer"]

_AVERAGES = ("gradient", "region", "shift", "history")  # of a first exchange


class RegionServer(ServerHalf):
    """State: x, the last centre at which no client failed, Delta, whether one ever failed at a centre; averages.

    Args:
        dim: d, the number of variables.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.scalars = RegionControl

    def start(self, x: FloatArray) -> State:
        return {"x": x, "good": x, "delta": np.array([FIRST_DELTA]), "careful": np.zeros(1)}

    def exchanges(self, round: int) -> tuple[Kind, ...]:
        return "refresh", "update"

    def request(self, state: State, kind: Kind, recipient: Recipient, round: Round) -> Request:
        control = RegionControl(round.seed, float(state["delta"][0]), cut=round.cut)
        if round.constrained:
            control = replace(control, constrained=1, weight=recipient.weight)
        x = {} if kind == "update" and recipient.in_round else {"x": state["x"]}
        if kind == "refresh":
            quiet = "late_quiet" in state and state["late_quiet"][recipient.position] and not _waits(state, round)
            return Request(x, (replace(control, quiet=1) if quiet else control).scalars())
        averages = {name: state[name] for name in _AVERAGES if name in state}
        if "history" in averages:
            control = replace(control, history=len(averages["history"]))
        return Request({**x, **averages}, control.scalars())

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        if kind == "refresh":
            return self._after_gradients(state, dict(mean), round)
        x, failed = mean["x"], RegionStatistics(*state["region"]).failed > 0.0
        good = state["good"] if failed else state["x"]
        careful = np.ones(1) if failed else state["careful"]
        late = {}
        if "late_rounds" in state:
            gradients = LateGradients.of(state, round.weights, self.dim)
            x = gradients.within_radii(x, state["x"], gradients.row(round.number))
            back = gradients.flags[1]
            if back:  # a client had no value at a later centre
                x = good = gradients.centres[gradients.row(int(back))]
                gradients.flags[1], careful = 0.0, np.ones(1)
            late = gradients.entries()
        return {**state, "x": x, "good": good, "delta": np.array([delta_of(state)]), "careful": careful, **late}

    def _after_gradients(self, state: State, mean: dict[str, FloatArray], round: Round) -> State:
        """Return the state after the first exchange, in which possibly no client has replied in time."""
        x = state["x"] if round.received_x is None else round.received_x
        old = ("history",) if not mean else _AVERAGES
        others = {name: array for name, array in state.items() if name not in old}
        if "late_rounds" not in state:
            return {**others, "x": x, **mean}
        late = LateGradients.of(state, round.weights, self.dim)
        row = late.row(round.number)
        late.centres[row] = x
        waiting = (late.pending == 0) & (late.absent == 0)
        waiting[list(round.replied)] = False
        late.pending[waiting] = round.number
        if mean:
            late.measure_radii(row)
            mean |= late.history(round)
            if len(round.replied) < len(round.weights):
                late.partial[row] = 1.0
                mean["gradient"] = late.average(row, round)
            late.sent[row] = mean["gradient"]
        late.forget()
        return {**others, "x": x, **mean, **late.entries()}

    def reported_x(self, state: State) -> FloatArray:
        """Return x; once a client had no value at a centre, the last one at which all had one."""
        return state["good"] if state["careful"][0] else state["x"]

    def moved(self, state: State, before: FloatArray) -> float:
        """Return how far x is from `before`, and from where every client was queried last; 1 where one never was."""
        moved = super().moved(state, before)
        if "late_rounds" not in state:
            return moved
        centres = LateGradients.of(state, state["late_radii"], self.dim).centres_of_all()
        return 1.0 if centres is None else max([moved, *(super(RegionServer, self).moved(state, c) for c in centres)])

    def reply_parts(self, request: Message) -> Parts:
        if request.kind == "update":
            return {"x": Part((self.dim,), late="drop")}
        control = RegionControl.of(request.scalars)
        low, high = ranges(control.radius)
        region = Part(
            (len(low),), "numbers", low=low, high=high, neutral=PRIVATE, indicators=slice(-1, None), late="drop"
        )
        vector = Part((self.dim,), late="drop")
        return {"gradient": vector, "region": region, **({"shift": vector} if control.constrained else {})}

    def request_parts(self, request: Message) -> Parts:
        vector, control = Part((self.dim,)), RegionControl.of(request.scalars)
        if request.kind == "refresh":
            return {"x": vector}
        x = {"x": vector} if "x" in request.arrays else {}
        history = {"history": Part((control.history, self.dim))} if control.history else {}
        return {**x, **self.reply_parts(replace(request, kind="refresh")), **history}

    def receive(self, state: State, request: Message, reply: Message | None, position: int, round: Round) -> State:
        late = LateGradients.of(state, round.weights, self.dim)
        if reply is None:
            late.absent[position], late.pending[position] = 1.0, 0.0
        elif request.kind == "refresh":
            self._receive_gradient(late, request, reply, position, is_late=request.round < round.number)
        return {**state, **late.entries()}

    def _receive_gradient(
        self, late: LateGradients, request: Message, reply: Message, position: int, *, is_late: bool
    ) -> None:
        row = late.row(request.round)
        late.gradients[row, position] = reply.arrays["gradient"]
        late.absent[position] = late.pending[position] = 0.0
        if "infeasible" in reply.scalars:
            late.flags[0] = 1.0
        late.quiet[position] = float(is_late)
        if RegionControl.of(request.scalars).quiet:
            late.quiet[position] = 0.0
        elif RegionStatistics(*reply.arrays["region"]).failed > 0.0:
            late.flags[0] = 1.0
            late.flags[1] = late.valued[position] if is_late else late.flags[1]
        else:
            late.valued[position] = request.round

    def waits_for_all(self, state: State, kind: Kind, pending: Sequence[int], round: Round) -> bool:
        if _waits(state, round):
            return True
        late = LateGradients.of(state, round.weights, self.dim)
        return kind == "refresh" and bool(pending) and late.settled(state["x"], pending, round.number - 1)


def _waits(state: State, round: Round) -> bool:
    """Return whether all exchanges wait for all clients."""
    return round.constrained or ("late_flags" in state and bool(state["late_flags"][0]))
