"""Whether a message is what the other side is allowed to send: names, shapes, ranges, round, finite numbers."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import LARGEST, Algorithm, Part, Parts, ServerHalf
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays, Message
from fzoos.messages.precision import Precision

if TYPE_CHECKING:
    from fzoos.federation.privacy import Privacy

__all__ = ["COUNTED", "check_precision_of", "check_reply", "check_request"]

COUNTED = frozenset({"queries", "failed", "infeasible"})
"""Numbers of every algorithm's replies, which are not averaged."""

_REPLIES = {"refresh": "payload", "update": "iterate", "value": "shared"}
_SHARED = {"value": Part((2,), "refuse", low=(-LARGEST, 0.0), high=(LARGEST, 1.0))}  # f_i(x), whether it failed
_ROUNDING: Mapping[Precision, float] = {  # how far it takes a number out of its range, over the array's largest
    "float64": 0.0,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "stochastic": 2.0 / 255.0,  # a number moves to the next of 256 levels between the array's extremes
}
_MAX_QUERIES = 2**40  # the sum over all clients is still an integer of the file of runs


def check_reply(
    algorithm: Algorithm, half: ServerHalf, request: Message, reply: Message, privacy: Privacy | None = None
) -> None:
    """Raise a MessageError unless this reply answers that request; clip and noise of `privacy` change the ranges."""
    if reply.kind != _REPLIES[request.kind] or reply.round != request.round:
        raise MessageError(
            f"answered {request.kind!r} of round {request.round} with {reply.kind!r} of round {reply.round}"
        )
    parts = _SHARED if request.kind == "value" else half.reply_parts(request)
    parts = parts if privacy is None else privacy.noisy_parts(parts)
    _check_arrays(reply, parts)
    _check_ranges(reply.arrays, parts, reply.precision)
    queries = reply.scalars.get("queries", -1)
    if not 0 <= queries < _MAX_QUERIES or queries != int(queries):
        raise MessageError("the reply does not tell its number of queries")
    failed = reply.scalars.get("failed", 0)
    if not 0 <= failed <= queries or failed != int(failed):
        raise MessageError("the reply does not tell its number of failed queries")
    if reply.scalars.get("infeasible", 0) not in (0, 1):
        raise MessageError("the reply does not tell whether x is feasible by 0 or 1")
    if not COUNTED.issuperset(reply.scalars):
        _check_scalars(reply.scalars, COUNTED.union(algorithm.diagnostics))
    if privacy is None:
        _check_inside(algorithm, reply)


def check_request(algorithm: Algorithm, half: ServerHalf, request: Message, *, noisy: bool = False) -> None:
    """Raise a MessageError unless a server of this study may send this; averages of noisy arrays have no ranges."""
    if request.kind == "value":
        _check_arrays(request, {"x": Part((half.dim,))})
        _check_inside(algorithm, request)
        return _check_scalars(request.scalars, set())
    if request.round < 1:
        raise MessageError(f"rounds are counted from 1, got {request.round}")
    if request.kind not in half.exchanges(request.round):
        raise MessageError(f"{request.kind!r} is not a request of {algorithm.label} in round {request.round}")
    half.scalars.of(request.scalars)  # wrong numbers are refused
    parts = half.request_parts(request)
    _check_arrays(request, parts)
    if not noisy:
        _check_ranges(request.arrays, parts, request.precision)
    _check_inside(algorithm, request)


def check_precision_of(message: Message, precision: Precision) -> None:
    """Raise a MessageError unless the message has this precision."""
    if message.precision != precision:
        raise MessageError(f"a message in {message.precision}, agreed is {precision}")


def _check_arrays(message: Message, expected: Parts) -> None:
    for name, array in message.arrays.items():
        if name not in expected:
            raise MessageError(f"array {name!r} is not expected; these are: {', '.join(expected) or 'none'}")
        if array.shape != expected[name].shape:
            raise MessageError(f"array {name!r} must have shape {expected[name].shape}, got {array.shape}")
        if not _largest(array) <= LARGEST:  # of NaN, too
            finite = bool(np.all(np.isfinite(array)))
            wrong = f"numbers beyond {LARGEST:g}" if finite else "NaN or infinity"
            raise MessageError(f"array {name!r} holds {wrong}")
    if not expected.keys() <= message.arrays.keys():
        raise MessageError(f"array {min(expected.keys() - message.arrays.keys())!r} is missing")


def _largest(array: FloatArray) -> float:
    """max |v|, or NaN; 0 where there is nothing."""
    return float(np.maximum.reduce(np.abs(array), axis=None, initial=0.0))


def _check_ranges(arrays: Arrays, parts: Parts, precision: Precision) -> None:
    """Raise a MessageError where a number is outside the range that its part declares."""
    for name, array in arrays.items():
        if parts[name].low == -LARGEST and parts[name].high == LARGEST:
            continue  # all of them are
        slack = _ROUNDING[precision] * _largest(array) if precision != "float64" else 0.0
        if not slack and _few_are_inside(array, parts[name]):
            continue
        low, high = (np.broadcast_to(bound, array.shape) for bound in (parts[name].low, parts[name].high))
        wrong = (array < low - slack) | (array > high + slack)
        if np.any(wrong):
            bounds = f"from {low[wrong][0]:g} to {high[wrong][0]:g}"
            raise MessageError(f"array {name!r} must hold numbers {bounds}, got {array[wrong][0]:g}")


def _few_are_inside(array: FloatArray, part: Part) -> bool:
    """Whether each of a few numbers is in its range: Python compares so few before NumPy has begun."""
    if not isinstance(part.low, tuple) or not isinstance(part.high, tuple) or array.shape != (len(part.low),):
        return False
    return all(low <= v <= high for low, v, high in zip(part.low, array.tolist(), part.high, strict=True))


def _check_inside(algorithm: Algorithm, message: Message) -> None:
    x = message.arrays.get("x")
    if x is not None and algorithm.projected and (np.any(x < 0.0) or np.any(x > 1.0)):
        raise MessageError("x is outside the box")


def _check_scalars(scalars: Mapping[str, float], allowed: Set[str]) -> None:
    unknown = scalars.keys() - allowed
    if unknown:
        raise MessageError(f"scalar {min(unknown)!r} is not expected; these are: {', '.join(sorted(allowed))}")
