"""What the other side is allowed to send: every other message is refused with its reason."""

import numpy as np
import pytest

from fzoos.federation.check import check_reply, check_request
from fzoos.federation.codec import MessageError
from fzoos.federation.message import Message
from fzoos.federation.settings import make_algorithm

D = 2
FZOOS = make_algorithm({"name": "fzoos", "features": 4})
FITTED = make_algorithm({"name": "fzoos", "features": 4, "fit": {}})
ONE = make_algorithm({"name": "fzoos", "features": 4, "refresh": False})
FEDZO = make_algorithm({"name": "fedzo"})
FREE = make_algorithm({"name": "fedzo", "projected": False})
SCAFFOLD = make_algorithm({"name": "scaffold2"})

REFRESH = Message("refresh", 2, {"x": np.full(D, 0.5)}, {"seed": 1})
UPDATE = Message("update", 2, {"w": np.zeros(4)}, {"seed": 1})
PLAIN = Message("update", 2, {"x": np.full(D, 0.5)})
X, W, C, L = {"x": np.full(D, 0.5)}, {"w": np.zeros(4)}, {"c": np.zeros(D)}, {"log_length_scale": np.zeros(1)}


def reply(kind="iterate", round=2, arrays=X, queries=3, **scalars):
    return Message(kind, round, arrays, ({} if queries is None else {"queries": queries}) | scalars)


@pytest.mark.parametrize(
    ("algorithm", "request_", "good"),
    [
        (FEDZO, PLAIN, reply()),
        (FEDZO, PLAIN, reply(queries=0)),
        (FEDZO, PLAIN, reply(queries=7.0, correction_length=1.0, uncertainty=0.5)),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.0, 1.0])})),
        (FREE, PLAIN, reply(arrays={"x": np.array([-3.0, 4.0])})),
        (SCAFFOLD, PLAIN, reply(arrays=X | C)),
        (FZOOS, REFRESH, reply("payload", arrays=W)),
        (FZOOS, UPDATE, reply()),
        (FITTED, REFRESH, reply("payload", arrays=W | L)),
        (ONE, PLAIN, reply(arrays=X | W)),
    ],
)
def test_good_replies(algorithm, request_, good):
    """What an honest client sends is taken."""
    check_reply(algorithm, request_, good, D)


@pytest.mark.parametrize(
    ("algorithm", "request_", "bad", "reason"),
    [
        (FEDZO, PLAIN, reply("payload"), "answered 'update' of round 2 with 'payload' of round 2"),
        (FEDZO, PLAIN, reply("update"), "answered 'update' of round 2 with 'update'"),
        (FZOOS, REFRESH, reply("iterate"), "answered 'refresh' of round 2 with 'iterate'"),
        (FEDZO, PLAIN, reply(round=1), "with 'iterate' of round 1"),
        (FEDZO, PLAIN, reply(round=3), "with 'iterate' of round 3"),
        (FEDZO, PLAIN, reply(arrays={}), "array 'x' is missing"),
        (FEDZO, PLAIN, reply(arrays=X | W), "array 'w' is not expected; these are: x"),
        (FZOOS, UPDATE, reply(arrays=X | W), "array 'w' is not expected; these are: x"),
        (SCAFFOLD, PLAIN, reply(), "array 'c' is missing"),
        (FZOOS, REFRESH, reply("payload", arrays=W | X), "array 'x' is not expected; these are: w"),
        (FITTED, REFRESH, reply("payload", arrays=W), "array 'log_length_scale' is missing"),
        (FEDZO, PLAIN, reply(arrays={"x": np.zeros(3)}), r"'x' must have shape \(2,\), got \(3,\)"),
        (FEDZO, PLAIN, reply(arrays={"x": np.zeros((2, 1))}), r"got \(2, 1\)"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array(0.5)}), r"got \(\)"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.5, np.nan])}), "'x' holds NaN or infinity"),
        (FREE, PLAIN, reply(arrays={"x": np.array([0.5, np.inf])}), "'x' holds NaN or infinity"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.5, 1.0 + 1e-12])}), "x is outside the box"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([-1e-300, 0.5])}), "x is outside the box"),
        (FEDZO, PLAIN, reply(queries=None), "does not tell its number of queries"),
        (FEDZO, PLAIN, reply(queries=-1), "number of queries"),
        (FEDZO, PLAIN, reply(queries=0.5), "number of queries"),
        (FEDZO, PLAIN, reply(queries=float("nan")), "number of queries"),
        (FEDZO, PLAIN, reply(queries=2.0**63), "number of queries"),
        (FEDZO, PLAIN, reply(loss=0.1), "scalar 'loss' is not expected; these are: correction_length, queries"),
    ],
)
def test_bad_replies(algorithm, request_, bad, reason):
    """Wrong kind, round, names, shapes, NaN, a point outside the box, unknown or impossible numbers."""
    with pytest.raises(MessageError, match=reason):
        check_reply(algorithm, request_, bad, D)


@pytest.mark.parametrize("how", ["w", "c", "log_length_scale"])
def test_numbers_that_no_sum_survives(how):
    """A payload that would overflow at the other clients, and so stop all of them, is refused where it comes in."""
    algorithm, request_ = {"w": (FZOOS, REFRESH), "c": (SCAFFOLD, PLAIN), "log_length_scale": (FITTED, REFRESH)}[how]
    arrays = {"w": W, "c": X | C, "log_length_scale": W | L}[how]
    kind = "payload" if request_ is REFRESH else "iterate"
    check_reply(algorithm, request_, reply(kind, arrays=arrays), D)
    for size in (1e200, -1e308):
        huge = arrays | {how: np.full_like(arrays[how], size)}
        with pytest.raises(MessageError, match=f"array '{how}' holds numbers beyond"):
            check_reply(algorithm, request_, reply(kind, arrays=huge), D)


@pytest.mark.parametrize(
    ("algorithm", "good"),
    [
        (FEDZO, PLAIN),
        (SCAFFOLD, Message("update", 1, X)),
        (SCAFFOLD, Message("update", 2, X | C)),
        (FZOOS, REFRESH),
        (FZOOS, UPDATE),
        (FZOOS, Message("update", 2, X | W, {"seed": 1})),
        (FITTED, Message("refresh", 3, X | L, {"seed": 1})),
    ],
)
def test_good_requests(algorithm, good):
    """What an honest server asks is taken, also x again with the payload for a client that missed the refresh."""
    check_request(algorithm, good, D)


@pytest.mark.parametrize(
    ("algorithm", "bad", "reason"),
    [
        (FEDZO, Message("refresh", 2, X), "'refresh' is not a request of FedZO"),
        (FEDZO, Message("iterate", 2, X), "'iterate' is not a request of FedZO"),
        (FZOOS, Message("payload", 2, X, {"seed": 1}), "'payload' is not a request"),
        (FEDZO, Message("update", 0, X), "rounds are counted from 1, got 0"),
        (FEDZO, Message("update", 1), "array 'x' is missing"),
        (FZOOS, Message("refresh", 2, W, {"seed": 1}), "array 'x' is missing"),
        (FEDZO, Message("update", 1, X | C), "array 'c' is not expected; these are: x"),
        (FEDZO, Message("update", 1, {"x": np.zeros(9)}), r"must have shape \(2,\), got \(9,\)"),
        (FEDZO, Message("update", 1, {"x": np.full(D, np.nan)}), "holds NaN"),
        (FEDZO, Message("update", 1, X, {"code": 1}), "scalar 'code' is not expected"),
        (FZOOS, Message("refresh", 2, X), "does not tell the seed"),
    ],
)
def test_bad_requests(algorithm, bad, reason):
    """A client asks its objective nothing for a request that no server of its study would make."""
    with pytest.raises(MessageError, match=reason):
        check_request(algorithm, bad, D)


def test_a_server_cannot_ask_outside_the_box():
    """A projected algorithm never takes a site's objective outside the box, whatever the server says."""
    outside = Message("update", 1, {"x": np.array([0.5, 1.5])})
    with pytest.raises(MessageError, match="x is outside the box"):
        check_request(FEDZO, outside, D)
    check_request(FREE, outside, D)
