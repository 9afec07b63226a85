"""Whether a message is what the other side is allowed to send: names, shapes, round, finite numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.optimizers import Optimizer
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.messages.precision import Precision

__all__ = ["check_precision_of", "check_reply", "check_request"]

_REPLIES = {"refresh": "payload", "update": "iterate"}
_MAX_SIZE = 1e100  # of a number: its square, and sums of squares, can still be computed by everybody
_MAX_QUERIES = 2**40  # the sum over all clients is still an integer of the file of runs


def check_reply(algorithm: Algorithm, request: Message, reply: Message, dim: int, local_steps: int) -> None:
    """Raise a MessageError unless this reply answers that request.

    Args:
        algorithm: says what its payload looks like.
        request: the server's request.
        reply: the client's reply to it.
        dim: d, the number of variables.
        local_steps: T, the number of local steps in a round.
    """
    if reply.kind != _REPLIES[request.kind] or reply.round != request.round:
        raise MessageError(
            f"answered {request.kind!r} of round {request.round} with {reply.kind!r} of round {reply.round}"
        )
    expected: dict[str, tuple[int, ...]] = {}
    if algorithm.protocol.returns_x(request.kind):
        expected["x"] = (dim,)
    if algorithm.protocol.returns_payload(request.kind):
        expected |= algorithm.shapes(dim, local_steps)
    _check_arrays(reply.arrays, expected, set(expected))
    queries = reply.scalars.get("queries", -1)
    if not 0 <= queries < _MAX_QUERIES or queries != int(queries):
        raise MessageError("the reply does not tell its number of queries")
    failed = reply.scalars.get("failed", 0)
    if not 0 <= failed <= queries or failed != int(failed):
        raise MessageError("the reply does not tell its number of failed queries")
    _check_scalars(reply.scalars, {"queries", "failed", *algorithm.reported})
    _check_inside(algorithm, reply)


def check_request(algorithm: Algorithm, request: Message, dim: int, local_steps: int, optimizer: Optimizer) -> None:
    """Raise a MessageError unless a server of this study may ask this."""
    if not algorithm.protocol.requests(request.kind):
        raise MessageError(f"{request.kind!r} is not a request of {algorithm.label}")
    if request.round < 1:
        raise MessageError(f"rounds are counted from 1, got {request.round}")
    payload, half = algorithm.shapes(dim, local_steps), algorithm.server(dim, local_steps, optimizer)
    if half is not None:  # all of the state, or all that it takes to rebuild it
        state = {name: array.shape for name, array in half.start(np.zeros(dim)).items()}
        allowed = state if "x" in request.arrays else payload
        _check_arrays(request.arrays, allowed, set(allowed))
    else:
        needed = {"x"} if algorithm.protocol.requires_x(request.kind) else set()
        _check_arrays(request.arrays, {"x": (dim,)} | payload, needed)
    _check_inside(algorithm, request)
    _check_scalars(request.scalars, {"seed"})
    if algorithm.shares_seed and "seed" not in request.scalars:
        raise MessageError("the request does not tell the seed that all clients share")


def check_precision_of(message: Message, precision: Precision, *, or_exact: bool = False) -> None:
    """Raise a MessageError unless the message has this precision; `or_exact`: or is not rounded at all."""
    if message.precision != precision and not (or_exact and message.precision == "float64"):
        raise MessageError(f"a message in {message.precision}, agreed is {precision}")


def _check_arrays(arrays: Arrays, expected: Mapping[str, tuple[int, ...]], needed: set[str]) -> None:
    for name, array in arrays.items():
        if name not in expected:
            raise MessageError(f"array {name!r} is not expected; these are: {', '.join(expected) or 'none'}")
        if array.shape != expected[name]:
            raise MessageError(f"array {name!r} must have shape {expected[name]}, got {array.shape}")
        if not np.all(np.isfinite(array)):
            raise MessageError(f"array {name!r} holds NaN or infinity")
        if np.any(np.abs(array) > _MAX_SIZE):
            raise MessageError(f"array {name!r} holds numbers beyond {_MAX_SIZE:g}")
    if needed - set(arrays):
        raise MessageError(f"array {min(needed - set(arrays))!r} is missing")


def _check_inside(algorithm: Algorithm, message: Message) -> None:
    x = message.arrays.get("x")
    if x is not None and algorithm.projected and (np.any(x < 0.0) or np.any(x > 1.0)):
        raise MessageError("x is outside the box")


def _check_scalars(scalars: Mapping[str, float], allowed: set[str]) -> None:
    unknown = set(scalars) - allowed
    if unknown:
        raise MessageError(f"scalar {min(unknown)!r} is not expected; these are: {', '.join(sorted(allowed))}")
