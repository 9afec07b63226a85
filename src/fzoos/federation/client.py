"""The client's loop, the same for every algorithm: request in, reply out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.blas import one_blas_thread
from fzoos._util.generators import generator_state, restore_generator
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import LARGEST, ClientHalf
from fzoos.messages.message import Kind, Message
from fzoos.messages.rounding import Rounding

__all__ = ["Client"]

_REPLY: dict[str, Kind] = {"refresh": "payload", "update": "iterate"}


class Client:
    """One client: its trajectory and its half of the algorithm.

    Args:
        half: the algorithm's client half.
        rounding: what is done to replies before they leave.
        protect: what is done to them before that, given the request and the server's x: noise is rounded, too.
    """

    def __init__(
        self,
        half: ClientHalf,
        rounding: Rounding = Rounding(),
        protect: Callable[[Message, Message, FloatArray], Message] = lambda reply, request, x: reply,
    ) -> None:
        self._half, self._rounding, self._protect = half, rounding, protect
        self.x: FloatArray | None = None  # the server's, of this round
        self._refreshed = 0  # the round of the last refresh

    @property
    def stores_points(self) -> bool:
        """Whether the algorithm uses earlier queries."""
        return self._half.context.trajectory.stores_points

    @property
    def queries(self) -> int:
        """Queries paid for so far."""
        return self._half.context.evaluator.count

    @property
    def failed(self) -> int:
        """Queries that failed so far and were left out."""
        return self._half.context.evaluator.failed

    @property
    def first_failure(self) -> str:
        """What the first of them was, in words."""
        return self._half.context.evaluator.first_failure

    def violation(self, round: int) -> float | None:
        """The largest of the client's constraints at the x with which this round began, the last; None: not known."""
        context = self._half.context
        return context.trajectory.violation if context.evaluator.round == round else None

    @property
    def _counts(self) -> dict[str, float]:
        """Numbers of every reply: failures, if any; whether x is infeasible, where there are constraints."""
        trajectory = self._half.context.trajectory
        counts: dict[str, float] = {"queries": self.queries}
        if self.failed:
            counts["failed"] = self.failed
        if trajectory.violation is not None:
            counts["infeasible"] = float(trajectory.violation > 0.0)
        return counts

    @property
    def generator(self) -> np.random.Generator:
        """The client's random generator."""
        return self._half.context.rng

    def adopt(self, x: FloatArray, y: FloatArray) -> None:
        """Take note of queries, in the user's coordinates, that were paid for in a request that was never answered."""
        context = self._half.context
        context.trajectory.add(context.project(context.evaluator.box.scale(x)), context.evaluator.accept(y))

    @property
    def values(self) -> FloatArray:
        """Of all its queries in their order; they never leave."""
        return self._half.context.evaluator.values

    def replay(self, values: FloatArray, unanswered: int) -> None:
        """Take the values of the first queries from an earlier run: see `Evaluator.replay`."""
        self._half.context.evaluator.replay(values, unanswered)

    def stop(self) -> None:
        """Make no further query; an answer under way ends at the next one (called from another thread)."""
        self._half.context.evaluator.stopped = True

    def state(self) -> StateDict:
        """Named arrays and numbers: all that later requests depend on, beside the client's settings."""
        return {
            "refreshed": self._refreshed,
            "generator": generator_state(self.generator),
            **prefixed("evaluator", self._half.context.evaluator.state()),
            **prefixed("trajectory", self._half.context.trajectory.state()),
            **prefixed("half", self._half.state()),
        }

    def restore(self, state: StateDict) -> None:
        """Replace all by what `state` returned; a client that raises is of no use any more."""
        self._refreshed = int(state["refreshed"])
        restore_generator(self.generator, state["generator"])
        self._half.context.evaluator.restore(part_of("evaluator", state))
        self._half.context.trajectory.restore(part_of("trajectory", state))
        self._half.restore(part_of("half", state))

    def release(self) -> None:
        """Others take part for a while: keep the points and give back what follows from them."""
        self._half.release()

    def handle(self, request: Message) -> Message:
        """Answer one request of the server: the reply as it leaves."""
        reply = self.answer(request)
        if request.kind == "value":  # one number, exactly; with differential privacy there is none
            return reply
        assert self.x is not None
        return self._rounding(self._protect(reply, request, self.x))

    def answer(self, request: Message) -> Message:
        """The same reply before noise and rounding; for whoever answers once more only to be where it was."""
        with one_blas_thread(self._half.largest_matrix):
            return self._answer(request)

    def _answer(self, request: Message) -> Message:
        context = self._half.context
        context.evaluator.round, context.evaluator.step = request.round, 0
        if request.kind == "value":
            value = context.evaluator.value(request.arrays["x"])
            known = abs(value) <= LARGEST
            shared = np.array([value if known else 0.0, 0.0 if known else 1.0])
            return Message("shared", request.round, {"value": shared}, self._counts)
        self.x = x = self._half.locate(request)
        if request.kind == "refresh" or "x" in request.arrays or self._refreshed != request.round:
            self._half.begin_round(x)
        if request.kind == "refresh":
            self._refreshed = request.round
        arrays = self._half.reply(x, request)
        self._half.query_constraints(x)
        reported = self._half.diagnostics() if request.kind == "update" else {}
        return Message(_REPLY[request.kind], request.round, arrays, self._counts | reported)
