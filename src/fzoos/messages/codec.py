"""Messages as bytes: a JSON header and the arrays' own bytes. Reading never runs anything and checks everything.

    4 bytes    b"FZM1"
    4 bytes    length of the header, little-endian
    header     JSON: {"kind", "round", "study", "scalars": {name: number}, "arrays": {name: shape}}, and "precision"
               where it is not "float64"
               or, for a reply that says why there is none, {"failure", "study"}
    arrays     one after another in the header's order, little-endian, in the message's precision: float64; float32;
               float16 after an int16 e, values times 2^e; or "stochastic": smallest and largest number, float64, and a
               byte k for each: k / 255 of the way from the one to the other (of one or two numbers: float64)

The bytes beside the content, some 200, are the framing that `Message.nbytes` leaves out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.messages.message import Kind, Message
from fzoos.messages.precision import PRECISIONS, Precision, read, size, write

__all__ = ["MAX_BYTES", "MessageError", "RemoteFailure", "decode", "encode", "encode_failure", "pack", "unpack"]

MAX_BYTES = 64 * 2**20
"""A longer message is refused unread."""

_MAGIC = b"FZM1"
_MAX_HEADER = 64 * 2**10
_MAX_ARRAYS = 32
_MAX_REASON = 2_000  # characters
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class MessageError(ValueError):
    """Bytes that are not a message of this study, with the reason."""


class RemoteFailure(RuntimeError):
    """A client's reply that says why it could not answer, and how many queries it has made so far, if known."""

    def __init__(self, reason: str, queries: int | None = None) -> None:
        super().__init__(reason)
        self.queries = queries


def encode(message: Message, study: str) -> bytes:
    """Return a message of a study as bytes.

    Raises:
        ValueError: it was not rounded, and other numbers would arrive.
    """
    header = {"kind": message.kind, "round": message.round, "study": study, "scalars": dict(message.scalars)}
    return pack(header, message.arrays, message.precision)


def encode_failure(reason: str, study: str, queries: int | None = None) -> bytes:
    """Return the reply of a client that could not answer, and how many queries it has made so far, if known."""
    count = {} if queries is None else {"queries": queries}
    return pack({"failure": reason[:_MAX_REASON], "study": study, **count}, {})


def decode(data: bytes, study: str) -> Message:
    """The message in these bytes.

    Raises:
        MessageError: they are not a valid message, or one of another study.
        RemoteFailure: they are a client's reason for not answering.
    """
    header, arrays = unpack(data)
    if header.get("study") != study:
        raise MessageError(f"a message of study {_short(header.get('study'))}, not of {study!r}")
    if "failure" in header:
        queries = header.pop("queries", None)
        _check_fields(header, {"failure", "study"})
        if arrays or not isinstance(header["failure"], str) or len(header["failure"]) > _MAX_REASON:
            raise MessageError("a failure must have a reason in words and nothing else")
        if queries is not None and not _is_count(queries):
            raise MessageError(f"queries must be a number from 0, got {_short(queries)}")
        raise RemoteFailure(_printable(header["failure"]), queries)
    precision = header.pop("precision", "float64")
    _check_fields(header, {"kind", "round", "study", "scalars"})
    if header["kind"] not in get_args(Kind):
        raise MessageError(f"kind must be one of {', '.join(get_args(Kind))}, got {_short(header['kind'])}")
    if not _is_count(header["round"]):
        raise MessageError(f"round must be a number from 0, got {_short(header['round'])}")
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise MessageError(f"array {name!r} holds NaN or infinity")
    return Message(header["kind"], header["round"], arrays, _scalars(header["scalars"]), precision)


def pack(header: Mapping[str, Any], arrays: Mapping[str, FloatArray], precision: Precision = "float64") -> bytes:
    """A header of JSON values, and named float64 arrays that were rounded to this precision, as bytes."""
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    named = {} if precision == "float64" else {"precision": precision}
    text = json.dumps({**header, **named, "arrays": shapes}, separators=(",", ":"), allow_nan=False).encode()
    parts = [_written(name, array, precision) for name, array in arrays.items()]
    return b"".join([_MAGIC, len(text).to_bytes(4, "little"), text, *parts])


def unpack(
    data: bytes, limit: int = MAX_BYTES, max_header: int = _MAX_HEADER, max_arrays: int = _MAX_ARRAYS
) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Header (without "arrays") and arrays of what `pack` wrote; a MessageError for anything else."""
    if not isinstance(data, bytes):
        raise MessageError(f"a message is bytes, got {type(data).__name__}")
    if len(data) > limit:
        raise MessageError(f"{len(data):,} bytes, at most {limit:,} are read")
    if len(data) < 8 or data[:4] != _MAGIC:
        raise MessageError("not a message: it does not begin with FZM1")
    length = int.from_bytes(data[4:8], "little")
    if length > min(max_header, len(data) - 8):
        raise MessageError(f"a header of {length:,} bytes in a message of {len(data):,}")
    try:
        header = json.loads(data[8 : 8 + length], object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), dict):
        raise MessageError("the header must be an object that names the arrays")
    precision = header.get("precision", "float64")
    if precision not in list(PRECISIONS):
        raise MessageError(f"precision must be one of {', '.join(PRECISIONS)}, got {_short(precision)}")
    shapes = header.pop("arrays")
    if len(shapes) > max_arrays:
        raise MessageError(f"{len(shapes)} arrays, at most {max_arrays} are read")
    return header, _arrays(shapes, data, 8 + length, precision, limit)


def _written(name: str, array: FloatArray, precision: Precision) -> bytes:
    try:
        return write(array, precision)
    except ValueError as error:
        raise ValueError(f"array {name!r} {error}") from None


def _arrays(shapes: dict[str, Any], data: bytes, start: int, precision: Precision, limit: int) -> dict[str, FloatArray]:
    found: dict[str, FloatArray] = {}
    for name, shape in shapes.items():
        if not _NAME.fullmatch(name):
            raise MessageError(f"an array's name must be short and of a-z, 0-9 and _, got {_short(name)}")
        if not isinstance(shape, list) or len(shape) > 4 or not all(_is_count(n) for n in shape):
            raise MessageError(f"array {name!r} has the shape {_short(shape)}")
        count = math.prod(shape)
        end = start + size(count, precision)
        if end > len(data):
            raise MessageError(f"array {name!r} of shape {shape} goes beyond the end of the message")
        if count == 0 and math.prod(max(n, 1) for n in shape) > len(data):
            raise MessageError(f"array {name!r} has the shape {shape}, and nothing in it")  # NumPy cannot hold it
        if 8 * count > limit - sum(array.nbytes for array in found.values()):  # however few bytes they came in
            raise MessageError(f"array {name!r} of shape {shape} and those before it are longer than {limit:,} bytes")
        try:
            found[name] = read(data[start:end], precision, shape)
        except ValueError as error:
            raise MessageError(f"array {name!r} {error}") from None
        start = end
    if start != len(data):
        raise MessageError(f"{len(data) - start:,} bytes too many")
    return found


def _scalars(found: Any) -> dict[str, float]:
    if not isinstance(found, dict) or len(found) > _MAX_ARRAYS:
        raise MessageError("scalars must be an object of a few numbers")
    for name, value in found.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not _NAME.fullmatch(name) or not number or not abs(value) <= 2**63:  # NaN is not, either
            raise MessageError(f"scalar {_short(name)} must be a finite number, got {_short(value)}")
    return found


def _check_fields(header: dict[str, Any], expected: set[str]) -> None:
    if set(header) != expected:
        wrong = sorted(set(header) ^ expected)
        raise MessageError(f"fields {', '.join(map(_short, wrong))} unknown or missing")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**40


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _printable(text: str) -> str:
    """Foreign text, safe in a terminal, a log and a database: no escape sequences, line breaks or surrogates."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
