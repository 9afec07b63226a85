"""What the replies of a round say besides the arrays that are averaged: diagnostics, distances, feasibility."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.federation.server_state import ServerState
from fzoos.messages.message import Message

__all__ = ["distances", "hear_constraints", "mean_scalars"]

_COUNTED = frozenset({"queries", "failed", "infeasible"})  # of each client by itself


def mean_scalars(replies: Mapping[int, Message], weights: FloatArray) -> dict[str, float]:
    """Return the weighted means of the numbers that all replies report, but for what is counted.

    Args:
        replies: of a round, by client.
        weights: omega of all clients.

    Example:
        >>> import numpy as np
        >>> from fzoos.federation.reports import mean_scalars
        >>> from fzoos.messages.message import Message
        >>> said = {i: Message("iterate", 1, {}, {"queries": 5, "correction_length": float(i)}) for i in (0, 1)}
        >>> mean_scalars(said, np.array([0.25, 0.75]))
        {'correction_length': 0.75}
    """
    if not replies:
        return {}
    names = set.intersection(*(set(reply.scalars) for reply in replies.values())) - _COUNTED
    return {
        name: float(np.average([reply.scalars[name] for reply in replies.values()], weights=weights[list(replies)]))
        for name in sorted(names)
    }


def distances(replies: Mapping[int, Message], x: FloatArray, clients: int) -> list[float | None]:
    """Of each client's x from x_r; None where none came."""
    found: list[float | None] = [None] * clients
    for i, reply in replies.items():
        if "x" in reply.arrays:
            found[i] = float(np.linalg.norm(reply.arrays["x"] - x))
    return found


def hear_constraints(state: ServerState, replies: Mapping[int, Message], everybody: set[int]) -> None:
    """Keep the x with which the round began, at which constraints were asked, unless a better one is known.

    Args:
        state: the server's, in which it is kept.
        replies: of the round, by client.
        everybody: all clients that are ever asked.
    """
    said = {i: bool(reply.scalars["infeasible"]) for i, reply in replies.items() if "infeasible" in reply.scalars}
    if not said:
        return
    state.constrained, state.violated = True, any(said.values())
    feasible = False if state.violated else (True if set(replies) == everybody else None)
    order: list[bool | None] = [False, None, True]
    if not state.asked or order.index(feasible) >= order.index(state.feasible):
        state.asked, state.feasible = {"x": state.x}, feasible
