"""The client's loop, the same for every algorithm: request in, reply out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.blas import one_blas_thread
from fzoos._util.generators import generator_state, restore_generator
from fzoos._util.states import StateDict, part_of, prefixed
from fzoos.algorithms.base import LARGEST, ClientHalf, ServerHalf, State, SteeredHalf
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.messages.rounding import Rounding

__all__ = ["Client"]


class Client:
    """One client: its trajectory and its half of the algorithm.

    Args:
        half: the algorithm's client half.
        rounding: what is done to replies before they leave.
        server: the algorithm's server half, where it rebuilds x.
        protect: what is done to them before that, given the request and the server's x: noise is rounded, too.
    """

    def __init__(
        self,
        half: ClientHalf,
        rounding: Rounding = Rounding(),
        server: ServerHalf | None = None,
        protect: Callable[[Message, Message, FloatArray], Message] = lambda reply, request, x: reply,
    ) -> None:
        self._half, self._server = half, server
        self._rounding, self._protect = rounding, protect
        self._state: State = {}  # the server's, of this round
        self._x_round = 0

    @property
    def x(self) -> FloatArray | None:
        """The server's x of this round."""
        return self._state.get("x")

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
        """What every reply tells; failures only where there are any."""
        counts: dict[str, float] = {"queries": self.queries}
        return counts | ({"failed": self.failed} if self.failed else {}) | self._feasibility

    @property
    def _feasibility(self) -> dict[str, float]:
        """Whether the server's x violates a constraint of this client; nothing where there is none."""
        violation = self._half.context.trajectory.violation
        return {} if violation is None else {"infeasible": float(violation > 0.0)}

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
            "x_round": self._x_round,
            "generator": generator_state(self.generator),
            **prefixed("server", self._state),
            **prefixed("evaluator", self._half.context.evaluator.state()),
            **prefixed("trajectory", self._half.context.trajectory.state()),
            **prefixed("half", self._half.state()),
        }

    def restore(self, state: StateDict) -> None:
        """Replace all by what `state` returned; a client that raises is of no use any more."""
        self._x_round, self._state = int(state["x_round"]), part_of("server", state)
        restore_generator(self.generator, state["generator"])
        self._half.context.evaluator.restore(part_of("evaluator", state))
        self._half.context.trajectory.restore(part_of("trajectory", state))
        self._half.restore(part_of("half", state))

    def rest(self) -> None:
        """Others take part for a while: keep the points and give back what follows from them."""
        self._half.rest()

    def handle(self, request: Message) -> Message:
        """Answer one request of the server: the reply as it leaves."""
        reply = self.answer(request)
        if request.kind == "value":  # one number, exactly; with differential privacy there is none
            return reply
        return self._rounding(self._protect(reply, request, self._state["x"]))

    def answer(self, request: Message) -> Message:
        """The same reply before noise and rounding; for whoever answers once more only to be where it was."""
        with one_blas_thread(self._half.context.largest_matrix):
            return self._answer(request)

    def _answer(self, request: Message) -> Message:
        context = self._half.context
        context.evaluator.round, context.evaluator.step = request.round, 0
        if request.kind == "value":
            value = context.evaluator.value(request.arrays["x"])
            known = abs(value) <= LARGEST
            shared = np.array([value if known else 0.0, 0.0 if known else 1.0])
            return Message("shared", request.round, {"value": shared}, self._counts)
        if request.kind == "refresh":
            x = self._place(request)
            self._state, self._x_round = {"x": x}, request.round
            constrained = context.begin_round(x)
            arrays = self._half.refresh(x, request)
            self._ask_constraints(x, constrained)
            return Message("payload", request.round, arrays, self._counts)
        if self._server is not None:
            request = self._rebuilt(self._server, request)
        elif "x" in request.arrays:
            self._state, self._x_round = {"x": request.arrays["x"]}, request.round
        elif self._x_round != request.round:
            raise MessageError("an update without x, and no refresh of its round that brought it")
        opens = "x" in request.arrays or self._server is not None
        return self._update(self._state["x"], request, opens and context.begin_round(self._state["x"]))

    def _ask_constraints(self, x: FloatArray, constrained: bool) -> None:
        """Whether the server's x is feasible must be known, even where the algorithm has not asked it."""
        context = self._half.context
        if constrained and context.trajectory.violation is None:
            context.query(x[None], "refresh", at_server_x=True)

    def _place(self, request: Message) -> FloatArray:
        """The server's x, which a steered client may be able to work out."""
        if "x" in request.arrays:
            return request.arrays["x"]
        if not isinstance(self._half, SteeredHalf) or not self._state or self._x_round != request.round - 1:
            raise MessageError(
                f"a refresh of round {request.round} without x, and no round before it to work it out from"
            )
        return self._half.rebuild(request)

    def _rebuilt(self, server: ServerHalf, request: Message) -> Message:
        """The request as if all of the state had come with it."""
        r = request.round
        if "x" in request.arrays:
            self._state = dict(request.arrays)
        elif self._x_round == r - 1 and self._state:
            self._state = server.next_state(self._state, request.arrays, r - 1, int(request.scalars["seed"]))
        elif self._x_round != r:
            raise MessageError(f"an update of round {r} without x, and none of round {r - 1} to rebuild it from")
        self._x_round = r
        return Message(request.kind, r, self._state, request.scalars)

    def _update(self, x: FloatArray, request: Message, constrained: bool) -> Message:
        """The second exchange of a round, or the only one."""
        half = self._half
        if isinstance(half, SteeredHalf):
            answer = half.answer(x, request)
            self._ask_constraints(x, constrained)
            return Message(
                "iterate", request.round, answer, {"queries": self.queries, **self._feasibility, **half.diagnostics()}
            )
        half.begin(x, request)
        x = half.run_round(x)
        self._ask_constraints(self._state["x"], constrained)
        arrays = half.end(x) if self._server is not None else {"x": x, **half.end(x)}
        return Message("iterate", request.round, arrays, {**self._counts, **half.diagnostics()})
