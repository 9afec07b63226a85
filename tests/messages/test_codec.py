"""Messages as bytes: exact there and back, and nothing but an error or a message from any bytes whatever."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fzoos.messages.codec import MAX_BYTES, MessageError, RemoteFailure, decode, encode, encode_failure, pack
from fzoos.messages.message import Message
from fzoos.messages.precision import PRECISIONS
from fzoos.messages.rounding import Rounding

STUDY = "0123456789abcdef"

names = st.from_regex(r"[a-z][a-z0-9_]{0,39}", fullmatch=True)
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.floats(-(2.0**63), 2.0**63) | st.integers(-(2**63), 2**63)
messages = st.builds(
    Message,
    st.sampled_from(["refresh", "update", "payload", "iterate"]),
    st.integers(0, 2**40 - 1),
    st.dictionaries(
        names, arrays(np.float64, array_shapes(min_dims=0, max_dims=4, min_side=0), elements=numbers), max_size=4
    ),
    st.dictionaries(names, scalars, max_size=4),
)


def read(data, study=STUDY):
    """A message that is valid in every respect, or the reason why there is none; anything else fails the test."""
    try:
        message = decode(data, study)
    except (MessageError, RemoteFailure) as error:
        reason = str(error)
        assert reason.isprintable(), "a reason is one line that can be shown, logged and stored"
        assert len(reason) < 2500
        return type(error)
    assert message.kind in ("refresh", "update", "payload", "iterate")
    assert isinstance(message.round, int)
    assert message.round >= 0
    for array in message.arrays.values():
        assert array.dtype == np.float64
        assert np.all(np.isfinite(array))
    for value in message.scalars.values():
        assert isinstance(value, (int, float))
        assert np.isfinite(float(value))
    assert len(encode(message, STUDY)) <= 2 * len(data) + 1000
    return Message


def rounding(precision):
    return Rounding(precision, np.random.SeedSequence(0))


def framed(header, content=b""):
    """Bytes with this header: text, or values to be made JSON of."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode("utf-8", "surrogatepass")
    return b"FZM1" + len(text).to_bytes(4, "little") + text + content


def header(**changes):
    values = {"kind": "update", "round": 1, "study": STUDY, "scalars": {}, "arrays": {}} | changes
    return {name: value for name, value in values.items() if value is not ...}


def of(precision, count):
    return header(precision=precision, arrays={"x": [count]})


def levels(low, top, *codes):
    return np.array([low, top], "<f8").tobytes() + bytes(codes)


@settings(max_examples=200)
@given(messages)
def test_there_and_back(message):
    """Every bit of every number comes back, -0.0 and subnormals too, with names, shapes and their order."""
    back = decode(encode(message, STUDY), STUDY)
    assert (back.kind, back.round) == (message.kind, message.round)
    assert list(back.arrays) == list(message.arrays)
    for name, array in message.arrays.items():
        assert back.arrays[name].shape == array.shape
        assert back.arrays[name].tobytes() == array.tobytes()
        assert back.arrays[name].flags.writeable
    assert [(n, repr(v)) for n, v in back.scalars.items()] == [(n, repr(v)) for n, v in message.scalars.items()]
    assert back.nbytes == message.nbytes


@settings(max_examples=200)
@given(messages, st.sampled_from(PRECISIONS))
def test_there_and_back_in_every_precision(message, precision):
    """Rounded once, a message comes back bit for bit, its content as long as it says."""
    small = {name: np.where(abs(array) > 1e30, 1.0, array) + 0.0 for name, array in message.arrays.items()}
    sent = rounding(precision)(Message(message.kind, message.round, small, message.scalars))
    data = encode(sent, STUDY)
    back = decode(data, STUDY)
    assert (back.kind, back.round, back.precision) == (message.kind, message.round, precision)
    for name, array in sent.arrays.items():
        assert back.arrays[name].shape == array.shape
        assert (back.arrays[name] + 0.0).tobytes() == (array + 0.0).tobytes()  # the sign of 0 is lost at times
    assert back.nbytes == sent.nbytes
    assert len(data) - 8 - int.from_bytes(data[4:8], "little") == sent.nbytes - 8 * len(message.scalars)
    assert encode(back, STUDY) == data


@pytest.mark.parametrize("precision", PRECISIONS)
def test_any_layout(precision):
    """An array that is big-endian, strided or a view travels as its values."""
    x = np.arange(12.0).reshape(3, 4)
    for array in (x.T, x[:, ::2], x.astype(">f8"), np.asfortranarray(x)):
        message = rounding(precision)(Message("iterate", 1, {"x": array}))
        assert np.array_equal(decode(encode(message, STUDY), STUDY).arrays["x"], message.arrays["x"])


def test_framing_is_as_documented():
    """The layout at the head of the module, byte by byte: another program must be able to read it."""
    data = encode(Message("update", 3, {"x": np.array([0.25, -2.0])}, {"seed": 7}), STUDY)
    assert data[:4] == b"FZM1"
    length = int.from_bytes(data[4:8], "little")
    assert json.loads(data[8 : 8 + length]) == header(round=3, scalars={"seed": 7}, arrays={"x": [2]})
    assert data[8 + length :] == np.array([0.25, -2.0], "<f8").tobytes()


@pytest.mark.parametrize(
    ("precision", "content"),
    [
        ("float32", np.array([0.0, 255.0, 51.0], "<f4").tobytes()),
        ("float16", b"\xf9\xff" + np.array([0.0, 255.0 * 128, 51.0 * 128], "<f2").tobytes()),  # e = -7
        ("stochastic", np.array([0.0, 255.0], "<f8").tobytes() + bytes([0, 255, 51])),
    ],
)
def test_framing_of_other_precisions_is_as_documented(precision, content):
    """0, 255 and 51, which all of them hold exactly, by hand: 255 * 2^7 is the one between 2^14 and 2^15."""
    data = encode(Message("update", 3, {"x": np.array([0.0, 255.0, 51.0])}, {}, precision), STUDY)
    length = int.from_bytes(data[4:8], "little")
    assert json.loads(data[8 : 8 + length]) == header(round=3, arrays={"x": [3]}, precision=precision)
    assert data[8 + length :] == content


# Inputs that nobody should send


GOOD = [
    encode(Message("update", 3, {"x": np.array([0.25, 0.5])}, {"seed": 7}), STUDY),
    encode(
        Message("iterate", 12, {"x": np.linspace(0, 1, 9), "w": np.ones((3, 2))}, {"queries": 5, "a": -1e-300}), STUDY
    ),
    encode(Message("refresh", 0), STUDY),
    *(
        encode(rounding(precision)(Message("payload", 2, {"g": np.linspace(-3, 5, 9), "m": np.ones(2)})), STUDY)
        for precision in PRECISIONS[1:]
    ),
    encode_failure("the objective failed in round 3", STUDY),
]
damages = st.tuples(
    st.sampled_from(["flip", "cut", "insert", "double", "drop"]), st.integers(0, 300), st.binary(max_size=4)
)


@settings(max_examples=1000)
@given(st.sampled_from(GOOD), st.lists(damages, min_size=1, max_size=3))
def test_damaged_messages(good, damage):
    """Bits flipped, bytes cut off, put in, doubled or dropped."""
    data = bytearray(good)
    for what, place, put in damage:
        at = place % (len(data) + 1)
        if what == "flip" and at < len(data):
            data[at] ^= 1 << place % 8
        elif what == "cut":
            del data[at:]
        elif what == "insert":
            data[at:at] = put
        elif what == "double":
            data += data[at:]
        else:
            del data[at : at + 8]
    read(bytes(data))


NUMBERS = [-1, 0, 1, 2**31, 2**39, 2**40, 2**63, 2**64, 10**400, -(10**400), 0.5, 1e308, -0.0, np.nan, np.inf]
WORDS = ["", "update", "iterate", STUDY, "\ud800", "\x1b[31m", "a" * 3000, "\u202e", None, True]
NESTED = [[], {}, [[]], ["update"], {"x": {}}, {"a": 1}, {"a": 10**400}, {"a": [1]}, {"A": 1}, {"": 0}, {"a" * 50: 1}]
hostile = st.sampled_from([*NUMBERS, *WORDS, *NESTED])
shapes = st.lists(st.sampled_from([0, 1, 2, 3, 2**20, 2**31, 2**39, 2**40, 2**63, -1, True, 1.0, None]), max_size=5)


@settings(max_examples=1000)
@given(
    st.sampled_from([*header(), "precision", "failure", "extra"]),
    hostile,
    st.dictionaries(st.sampled_from(["x", "w", "X", "x" * 41, "\ud800"]), shapes, max_size=2),
    st.integers(0, 4),
)
def test_hostile_headers(field, value, arrays, count):
    """Values of every kind in every field; NaN and Infinity are written as Python's own JSON does."""
    read(framed(header(**{"arrays": arrays, field: value}), bytes(8 * count)))


@settings(max_examples=500)
@given(st.sampled_from(PRECISIONS), st.integers(0, 5), st.binary(max_size=60))
def test_hostile_arrays(precision, count, content):
    """Any bytes for the numbers of any precision: a message that would be written like that, or the reason why not."""
    data = framed(header(precision=precision, arrays={"x": [count]}), content)
    if read(data) is Message and precision != "float64":
        message = decode(data, STUDY)
        assert encode(message, STUDY).endswith(content)
        assert message.nbytes == len(content)


@settings(max_examples=500)
@given(
    st.sampled_from(["kind", "round", "study", "scalars", "arrays", "precision", "failure", "deep"]),
    st.integers(700, 1050) | st.integers(1, 30_000),
    st.booleans(),
)
def test_deep_headers(field, depth, objects):
    """Nesting of any depth in any field, most of it around where Python's own limit is."""
    opening, closing = ('{"a":', "}") if objects else ("[", "]")
    nested = opening * depth + "1" + closing * depth
    values = {name: json.dumps(value) for name, value in header().items()} | {field: nested}
    read(framed(("{" + ",".join(f'"{name}":{value}' for name, value in values.items()) + "}").encode()))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with FZM1"),
        (b"FZM2" + bytes(100), "does not begin with FZM1"),
        (b"FZM1\xff\xff\xff\xff", "a header of 4,294,967,295 bytes in a message of 8"),
        (b"FZM1" + (70_000).to_bytes(4, "little") + b" " * 80_000, "a header of 70,000 bytes"),
        (bytes(MAX_BYTES + 1), "67,108,865 bytes, at most 67,108,864 are read"),
        (bytes(MAX_BYTES), "does not begin with FZM1"),
        (framed(b"\xff\xfe\x00"), "not JSON"),
        (framed(b"[" * 60_000), "not JSON"),
        (framed(b"[]"), "must be an object"),
        (framed(b'{"kind":"update","kind":"update","arrays":{}}'), "a name comes twice"),
        (framed(b'{"arrays":{"x":[1],"x":[1]}}'), "a name comes twice"),
        (framed(header(scalars={"seed": float("nan")})), "NaN is not a number"),
        (framed(json.dumps(header(scalars={"seed": 1})).replace("1}", "1e999}").encode()), "must be a finite number"),
        (framed(header(scalars={"seed": 10**400})), "must be a finite number"),
        (framed(header(scalars={"seed": "7"})), "must be a finite number"),
        (framed(header(scalars={f"s{i}": 1 for i in range(40)})), "a few numbers"),
        (
            framed(header(kind="train")),
            "kind must be one of refresh, update, payload, iterate, value, shared, got 'train'",
        ),
        (framed(header(round=-1)), "round must be a number from 0, got -1"),
        (framed(header(round=True)), "round must be"),
        (framed(header(extra=1)), "fields 'extra' unknown or missing"),
        (
            framed(header(precision="float8")),
            "precision must be one of float64, float32, float16, stochastic, got 'float8'",
        ),
        (framed(of("float32", 2), bytes(7)), "'x' of shape \\[2\\] goes beyond the end"),
        (framed(of("float32", 2), bytes(9)), "1 bytes too many"),
        (framed(of("stochastic", MAX_BYTES // 8 + 1), bytes(MAX_BYTES // 8 + 17)), "are longer than 67,108,864 bytes"),
        (framed(of("stochastic", 3), bytes(18)), "beyond the end"),
        (framed(of("float32", 1), np.array([np.nan], "<f4").tobytes()), "'x' holds NaN or infinity"),
        (framed(of("float16", 1), bytes(2) + np.array([np.inf], "<f2").tobytes()), "'x' holds NaN or infinity"),
        (framed(of("float16", 1), b"\xff\x7f" + np.array([1.0], "<f2").tobytes()), "'x' holds NaN or infinity"),
        (framed(of("float16", 1), bytes(2) + np.array([1.0], "<f2").tobytes()), "'x' is not written as float16 is"),
        (framed(of("stochastic", 3), levels(0, np.nan, 0, 1, 255)), "'x' holds NaN or infinity"),
        (framed(of("stochastic", 3), levels(-np.inf, 0, 0, 1, 255)), "'x' holds NaN or infinity"),
        (framed(of("stochastic", 3), levels(-1.7e308, 1.7e308, 0, 1, 255)), "'x' holds NaN or infinity"),
        (framed(of("stochastic", 3), levels(1, 0, 0, 1, 255)), "'x' is not written as stochastic is"),
        (framed(of("stochastic", 3), levels(0, 1, 0, 1, 2)), "'x' is not written as stochastic is"),
        (framed(header(scalars=...)), "fields 'scalars' unknown or missing"),
        (framed(header(study="another")), f"a message of study 'another', not of '{STUDY}'"),
        (framed(header(arrays={"x": [-1]})), "has the shape"),
        (framed(header(arrays={"x": [2**39, 2**39]})), "beyond the end"),
        (framed(header(arrays={"x": [0, 2**39, 2**39, 2**39]})), "has the shape"),
        (framed(header(arrays={"x": 3})), "has the shape"),
        (framed(header(arrays={"../x": [1]}), bytes(8)), "name must be short"),
        (framed(header(arrays={f"x{i}": [0] for i in range(40)})), "40 arrays"),
        (framed(header(arrays={"x": [2]}), bytes(15)), "beyond the end"),
        (framed(header(arrays={"x": [2]}), bytes(17)), "1 bytes too many"),
        (framed(header(arrays={"x": [1]}), np.array([np.nan]).tobytes()), "'x' holds NaN or infinity"),
        (framed({"failure": "why", "study": STUDY, "precision": "float32", "arrays": {}}), "'precision' unknown"),
        (framed({"failure": 3, "study": STUDY, "arrays": {}}), "a reason in words and nothing else"),
        (framed({"failure": "x" * 3000, "study": STUDY, "arrays": {}}), "a reason in words"),
        (pack({"failure": "why", "study": STUDY}, {"x": np.zeros(1)}), "a reason in words and nothing else"),
    ],
)
def test_reasons(data, reason):
    """Every refusal says what is wrong."""
    with pytest.raises(MessageError, match=reason):
        decode(data, STUDY)


def test_failure_is_heard():
    """A client's reason comes out as a RemoteFailure with its words, and only in its own study."""
    with pytest.raises(RemoteFailure, match=r"^the objective failed in round 3$"):
        decode(encode_failure("the objective failed in round 3", STUDY), STUDY)
    with pytest.raises(MessageError, match="a message of study"):
        decode(encode_failure("why", "another"), STUDY)


def test_long_reasons_are_cut():
    """What a client says is never too long for the other side to read, whatever it is written in."""
    for letter in "x\u00e9\U0001f600\n":
        with pytest.raises(RemoteFailure):
            decode(encode_failure(letter * 100_000, STUDY), STUDY)


def test_reasons_are_harmless():
    """Escape sequences, line breaks and half characters of a foreign reason do not reach a terminal or a database."""
    data = framed({"failure": "\x1b[31mred\r\nforged line \ud800 \x00\u202e", "study": STUDY, "arrays": {}})
    with pytest.raises(RemoteFailure) as caught:
        decode(data, STUDY)
    reason = str(caught.value)
    assert reason.isprintable()
    assert "red" in reason
    assert "forged line" in reason
    reason.encode()
