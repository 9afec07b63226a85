"""The client's loop, the same for every algorithm: request in, reply out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.blas import one_blas_thread
from fzoos._util.states import StateDict, generator_state, part_of, prefixed, restore_generator
from fzoos.algorithms.base import LARGEST, ClientHalf
from fzoos.messages.message import Kind, Message
from fzoos.messages.rounding import Rounding

__all__ = ["Client"]

_REPLY: dict[str, Kind] = {"refresh": "payload", "update": "iterate"}


class Client:
    """One client: its trajectory and its half of the algorithm.

    A reply is changed by `protect`, given the request and the server's x, and then rounded, noise included.
    """

    def __init__(
        self,
        half: ClientHalf,
        rounding: Rounding = Rounding(),
        protect: Callable[[Message, Message, FloatArray], Message] = lambda reply, request, x: reply,
    ) -> None:
        self._half, self._rounding, self._protect = half, rounding, protect
        self.context = half.context
        self.x: FloatArray | None = None  # the server's, of this round
        self._refreshed = 0  # the round of the last refresh

    @property
    def queries(self) -> int:
        """The number of queries so far."""
        return self.context.evaluator.count

    def violation(self, round: int) -> float | None:
        """The largest of the client's constraints at the x with which this round began, the last; None: not known."""
        return self.context.trajectory.violation if self.context.evaluator.round == round else None

    @property
    def _counts(self) -> dict[str, float]:
        """Numbers of every reply: failures, if any; whether x is infeasible, where there are constraints."""
        evaluator, violation = self.context.evaluator, self.context.trajectory.violation
        counts: dict[str, float] = {"queries": evaluator.count}
        if evaluator.failed:
            counts["failed"] = evaluator.failed
        if violation is not None:
            counts["infeasible"] = float(violation > 0.0)
        return counts

    def adopt(self, x: FloatArray, y: FloatArray) -> None:
        """Add queries of a request that has no reply, or old data; x is in the user's coordinates."""
        context = self.context
        context.trajectory.add(context.project(context.evaluator.box.scale(x)), context.evaluator.accept(y))

    def stop(self) -> None:
        """Make no further query; an answer under way ends at the next one (called from another thread)."""
        self.context.evaluator.stopped = True

    def state(self) -> StateDict:
        """Named arrays and numbers: all that later requests depend on, beside the client's settings."""
        return {
            "refreshed": self._refreshed,
            "generator": generator_state(self.context.rng),
            **prefixed("evaluator", self.context.evaluator.state()),
            **prefixed("trajectory", self.context.trajectory.state()),
            **prefixed("half", self._half.state()),
        }

    def restore(self, state: StateDict) -> None:
        """Replace all by what `state` returned; a client that raises is of no use any more."""
        self._refreshed = int(state["refreshed"])
        restore_generator(self.context.rng, state["generator"])
        self.context.evaluator.restore(part_of("evaluator", state))
        self.context.trajectory.restore(part_of("trajectory", state))
        self._half.restore(part_of("half", state))

    def release(self) -> None:
        """Release what can be computed again from the trajectory: other clients take part for a while."""
        self._half.release()

    def handle(self, request: Message) -> Message:
        """Answer one request of the server; return the reply as it leaves."""
        reply = self.answer(request)
        if request.kind == "value":  # one number, exactly; with differential privacy there is none
            return reply
        assert self.x is not None
        return self._rounding(self._protect(reply, request, self.x))

    def answer(self, request: Message) -> Message:
        """Return the reply before noise and rounding, as a site needs it that replays its journal."""
        with one_blas_thread(self._half.largest_matrix):
            return self._answer(request)

    def _answer(self, request: Message) -> Message:
        context = self.context
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
