"""The server's loop, the same for every algorithm: choose clients, exchange, average.

One round r, for an algorithm of two exchanges (the first is skipped in round 1 and by the others):

    refresh:  x_{r-1} -> participants;  each refreshes its payload at x_{r-1} and replies it;  the payloads are averaged
    update:   averaged payload (and x_{r-1}, if it has not gone out yet) -> participants;  each replies its x_i
              x_r = sum_i omega_i x_i

The paper puts the refresh at x_r at the end of round r. At the start of round r + 1 it is the same computation, but the
refresh after the last round, whose payload nobody would use, is not paid for, and under partial participation the
payload comes from the clients that are about to use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos.algorithms.base import Algorithm
from fzoos.arrays import FloatArray
from fzoos.engines.base import Engine
from fzoos.federation.message import Kind, Message, average

__all__ = ["Plan", "Server"]


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
    ) -> None:
        self._engine, self._algorithm, self._local_steps = engine, algorithm, local_steps
        self._weights, self._participants, self._rng = weights, participants, rng
        self._seed = {"seed": shared_seed} if algorithm.shares_seed else {}
        self._payload: dict[str, FloatArray] = {}
        self._met: set[int] = set()
        self.x = x
        self.round = 0
        self.bytes_up = self.bytes_down = 0
        self.diagnostics: dict[str, float] = {}

    def plan(self) -> Plan:
        """Draw the next round's participants and say what the round will cost in queries."""
        chosen = np.flatnonzero(self._weights)  # a client of weight zero would be asked for nothing
        if self._participants < len(chosen):
            chosen = np.sort(self._rng.choice(chosen, self._participants, replace=False))
        participants = tuple(int(i) for i in chosen)
        refreshed = self._refreshes(self.round + 1)
        queries = sum(
            self._algorithm.queries(self._local_steps, first=i not in self._met, refreshed=refreshed)
            for i in participants
        )
        return Plan(self.round + 1, participants, queries)

    def run(self, plan: Plan) -> None:
        """Carry out a planned round; afterwards x is x_r."""
        x = {"x": self.x}
        if self._refreshes(plan.round):
            carried = {name: self._payload[name] for name in self._algorithm.carried if name in self._payload}
            replies = self._exchange("refresh", plan, {**x, **carried})
            self._payload = average([reply.arrays for reply in replies], self._weights[list(plan.participants)])
            x = {}  # it has just gone out
        replies = self._exchange("update", plan, {**x, **self._payload})
        self._met.update(plan.participants)

        weights = self._weights[list(plan.participants)]
        mean = average([reply.arrays for reply in replies], weights)
        self.x = mean.pop("x")
        if mean:
            self._payload = mean
        names = [name for name in replies[0].scalars if name != "queries"]
        self.diagnostics = {
            name: float(np.average([reply.scalars[name] for reply in replies], weights=weights)) for name in names
        }
        self.round = plan.round

    def _refreshes(self, round: int) -> bool:
        return self._algorithm.exchanges == 2 and round > 1

    def _exchange(self, kind: Kind, plan: Plan, arrays: dict[str, FloatArray]) -> list[Message]:
        request = Message(kind, plan.round, arrays, self._seed)
        replies = self._engine.exchange(dict.fromkeys(plan.participants, request))
        self.bytes_down += request.nbytes * len(plan.participants)
        self.bytes_up += sum(reply.nbytes for reply in replies.values())
        return [replies[i] for i in plan.participants]
