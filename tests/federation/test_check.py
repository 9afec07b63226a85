"""What the other side is allowed to send: every other message is refused with its reason."""

from dataclasses import replace

import numpy as np
import pytest

from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.optimizers import Adam
from fzoos.federation import check
from fzoos.federation.client import Client
from fzoos.federation.study import make_algorithm
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory

D = 2
WEIGHTS = {"name": "fzoos", "features": 4}
FZOOS = make_algorithm(WEIGHTS)
MEASURED = make_algorithm(WEIGHTS | {"length": {"name": "Measured"}})
ONE = make_algorithm(WEIGHTS | {"refresh": False})
FEDZO = make_algorithm({"name": "fedzo"})
FREE = make_algorithm({"name": "fedzo", "projected": False})
SCAFFOLD = make_algorithm({"name": "scaffoldii"})
DECOMFL = make_algorithm(
    {"name": "decomfl", "local_steps": 3, "optimizer": {"name": "sgd"}, "differences": {"count": 4}}
)
HISO = make_algorithm({"name": "hiso", "local_steps": 3, "optimizer": {"name": "sgd"}, "differences": {"count": 4}})

REFRESH = Message("refresh", 2, {"x": np.full(D, 0.5)}, {"seed": 1})
UPDATE = Message("update", 2, {"w": np.zeros(4)}, {"seed": 1})
PLAIN = Message("update", 2, {"x": np.full(D, 0.5)})
X, W, C, L = {"x": np.full(D, 0.5)}, {"w": np.zeros(4)}, {"c": np.zeros(D)}, {"square": np.zeros(1)}


def check_reply(algorithm, request_, reply_):
    check.check_reply(algorithm, algorithm.server(D), request_, reply_)


def check_request(algorithm, request_):
    check.check_request(algorithm, algorithm.server(D), request_)


def reply(kind="iterate", round=2, arrays=X, queries=3, **scalars):
    return Message(kind, round, arrays, ({} if queries is None else {"queries": queries}) | scalars)


@pytest.mark.parametrize(
    ("algorithm", "request_", "good"),
    [
        (FEDZO, PLAIN, reply()),
        (FEDZO, PLAIN, reply(queries=0)),
        (FEDZO, PLAIN, reply(queries=7.0, correction_length=1.0)),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.0, 1.0])})),
        (FREE, PLAIN, reply(arrays={"x": np.array([-3.0, 4.0])})),
        (SCAFFOLD, PLAIN, reply(arrays=X | C)),
        (FZOOS, REFRESH, reply("payload", arrays=W)),
        (FZOOS, UPDATE, reply()),
        (MEASURED, REFRESH, reply("payload", arrays=W | L)),
        (ONE, PLAIN, reply(arrays=X | W)),
    ],
)
def test_good_replies(algorithm, request_, good):
    """What an honest client sends is taken."""
    check_reply(algorithm, request_, good)


@pytest.mark.parametrize(
    ("algorithm", "request_", "bad", "reason"),
    [
        (FEDZO, PLAIN, reply("payload"), "answered 'update' of round 2 with 'payload' of round 2"),
        (FZOOS, REFRESH, reply("iterate"), "answered 'refresh' of round 2 with 'iterate'"),
        (FEDZO, PLAIN, reply(round=1), "with 'iterate' of round 1"),
        (FEDZO, PLAIN, reply(arrays={}), "array 'x' is missing"),
        (FEDZO, PLAIN, reply(arrays=X | W), "array 'w' is not expected; these are: x"),
        (SCAFFOLD, PLAIN, reply(), "array 'c' is missing"),
        (FZOOS, REFRESH, reply("payload", arrays=W | X), "array 'x' is not expected; these are: w"),
        (FEDZO, PLAIN, reply(arrays={"x": np.zeros(3)}), r"'x' must have shape \(2,\), got \(3,\)"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.5, np.nan])}), "'x' holds NaN or infinity"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.5, -np.inf])}), "'x' holds NaN or infinity"),
        (SCAFFOLD, PLAIN, reply(arrays=X | {"c": np.array([0.0, -1e101])}), r"'c' holds numbers beyond 1e\+100$"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([0.5, 1.0 + 1e-12])}), "x is outside the box"),
        (FEDZO, PLAIN, reply(arrays={"x": np.array([-1e-300, 0.5])}), "x is outside the box"),
        (FEDZO, PLAIN, reply(queries=None), "does not tell its number of queries"),
        (FEDZO, PLAIN, reply(queries=-1), "number of queries"),
        (FEDZO, PLAIN, reply(queries=float("nan")), "number of queries"),
        (FEDZO, PLAIN, reply(queries=2.0**63), "number of queries"),
        (FEDZO, PLAIN, reply(loss=0.1), "scalar 'loss' is not expected; these are: correction_length, failed"),
    ],
)
def test_bad_replies(algorithm, request_, bad, reason):
    """Wrong kind, round, names, shapes, NaN, a point outside the box, unknown or impossible numbers."""
    with pytest.raises(MessageError, match=reason):
        check_reply(algorithm, request_, bad)


def test_a_number_out_of_its_range_is_named_with_the_range():
    """f_i(x) may be anything finite; whether it failed is in [0, 1]. The bounds themselves are inside: s of FedCMA."""
    reply_ = reply("shared", arrays={"value": np.array([7.0, 1.5])})
    with pytest.raises(MessageError, match=r"array 'value' must hold numbers from 0 to 1, got 1\.5$"):
        check_reply(FEDZO, Message("value", 2, X), reply_)
    cma = make_algorithm({"name": "fedcma"})
    check_reply(cma, PLAIN, reply(arrays=X | {"s": np.array([1e-12, 0.5])}))


@pytest.mark.parametrize("how", ["w", "c", "square"])
def test_numbers_that_no_sum_survives(how):
    """A payload that would overflow at the other clients, and so stop all of them, is refused where it comes in."""
    algorithm, request_ = {"w": (FZOOS, REFRESH), "c": (SCAFFOLD, PLAIN), "square": (MEASURED, REFRESH)}[how]
    arrays = {"w": W, "c": X | C, "square": W | L}[how]
    kind = "payload" if request_ is REFRESH else "iterate"
    check_reply(algorithm, request_, reply(kind, arrays=arrays))
    for size in (1e200, -1e308):
        huge = arrays | {how: np.full_like(arrays[how], size)}
        with pytest.raises(MessageError, match=f"array '{how}' holds numbers beyond"):
            check_reply(algorithm, request_, reply(kind, arrays=huge))


@pytest.mark.parametrize(
    ("algorithm", "bad", "reason"),
    [
        (FEDZO, Message("refresh", 2, X), "'refresh' is not a request of FedZO"),
        (FZOOS, Message("payload", 2, X, {"seed": 1}), "'payload' is not a request"),
        (FEDZO, Message("update", 0, X), "rounds are counted from 1, got 0"),
        (FEDZO, Message("update", 1), "array 'x' is missing"),
        (FZOOS, Message("refresh", 2, {}, {"seed": 1}), "array 'x' is missing"),
        (FZOOS, Message("refresh", 2, X | W, {"seed": 1}), "array 'w' is not expected; these are: x"),
        (FZOOS, Message("refresh", 1, X, {"seed": 1}), "'refresh' is not a request of FZooS in round 1"),
        (FEDZO, Message("update", 1, X | C), "array 'c' is not expected; these are: x"),
        (FEDZO, Message("update", 1, {"x": np.zeros(9)}), r"must have shape \(2,\), got \(9,\)"),
        (FEDZO, Message("update", 1, {"x": np.full(D, np.nan)}), "holds NaN"),
        (FEDZO, Message("update", 1, X, {"code": 1}), "scalar 'code' is not expected"),
        (FZOOS, Message("refresh", 2, X), "a request must have cut, seed; got"),
        (FEDZO, Message("update", 1, X, {"seed": 1}), "scalar 'seed' is not expected; these are: cut"),
    ],
)
def test_bad_requests(algorithm, bad, reason):
    """A client asks its objective nothing for a request that no server of its study would make."""
    with pytest.raises(MessageError, match=reason):
        check_request(algorithm, bad)


def test_a_server_cannot_ask_outside_the_box():
    """A projected algorithm never takes a site's objective outside the box, whatever the server says."""
    outside = Message("update", 1, {"x": np.array([0.5, 1.5])})
    with pytest.raises(MessageError, match="x is outside the box"):
        check_request(FEDZO, outside)
    check_request(FREE, outside)


S, H = {"s": np.zeros(3 * 4)}, {"h": np.ones(D)}  # T P slopes, T = 3
KEPT = Adam(restart=False)
MOMENTS = {"optimizer": np.zeros(1 + 2 * D)}  # Adam's k, m and v


@pytest.mark.parametrize(
    ("algorithm", "arrays", "reason"),
    [
        (DECOMFL, {}, "array 's' is missing"),
        (DECOMFL, {"s": np.zeros(11)}, r"array 's' must have shape \(12,\), got \(11,\)"),
        (DECOMFL, S | X, "array 's' is not expected; these are: x"),
        (DECOMFL, X | MOMENTS, "array 'optimizer' is not expected"),
        (replace(DECOMFL, optimizer=KEPT), X, "array 'optimizer' is missing"),
        (HISO, X, "array 'h' is missing"),
        (HISO, H, "array 'h' is not expected; these are: s"),
    ],
)
def test_bad_requests_of_what_is_rebuilt(algorithm, arrays, reason):
    """Half of a state is none, and what belongs to no state is refused."""
    with pytest.raises(MessageError, match=reason):
        check_request(algorithm, Message("update", 2, arrays, {"seed": 1}))


# Steered rounds

TRUST, SEARCH = (make_algorithm({"name": name}) for name in ("fedtrustregion", "fedlinesearch"))
STEERED = {"region": TRUST, "shared": SEARCH, "dealt": SEARCH}
REGION = {"seed": 1, "radius": 0.1}
SHARED, DEALT = ({"seed": 1, "mode": mode, "radius": 0.1} for mode in (1, 2))
G, NUMBERS = {"gradient": np.zeros(D)}, {"region": np.array([np.log(0.1), 0.0, 0.0])}
FRESH, MEMORY, STAR = {"fresh": np.zeros(D)}, {"memory": np.zeros(D)}, {"statistics": np.zeros(9)}
LINES = {"lines": np.zeros(6), "failed": np.zeros(6)}
PAIR = {"pair": np.zeros(2)}
FIRST = {"region": G | NUMBERS, "shared": FRESH | STAR | MEMORY, "dealt": FRESH | STAR | MEMORY}
SECOND = {"region": X, "shared": PAIR | LINES, "dealt": LINES}
TOLD = {"region": REGION, "shared": SHARED, "dealt": DEALT}


def steered(request_, algorithm=TRUST):
    check_request(algorithm, request_)


@pytest.mark.parametrize("mode", TOLD)
def test_good_messages_of_a_steered_round(mode):
    """x, or nothing where it can be computed; then the averages, with or without x; and replies to both."""
    for arrays in (X,) if mode == "region" else ({}, X):
        steered(Message("refresh", 2, arrays, TOLD[mode]), STEERED[mode])
        steered(Message("update", 2, arrays | FIRST[mode], TOLD[mode]), STEERED[mode])
    check_reply(STEERED[mode], Message("refresh", 2, X, TOLD[mode]), reply("payload", arrays=FIRST[mode]))
    check_reply(STEERED[mode], Message("update", 2, FIRST[mode], TOLD[mode]), reply(arrays=SECOND[mode]))


@pytest.mark.parametrize("mode", TOLD)
@pytest.mark.parametrize("second", [False, True])
def test_every_array_of_a_steered_round_is_checked(mode, second):
    """In averages and replies: none may be missing, be of another shape, hold NaN or numbers that no sum survives; and
    none may be there that this mode does not have."""
    arrays, told = (SECOND if second else FIRST)[mode], TOLD[mode]
    asked = Message("update", 2, FIRST[mode], told) if second else Message("refresh", 2, X, told)

    def refused(changed, reason):
        with pytest.raises(MessageError, match=reason):
            check_reply(STEERED[mode], asked, reply("iterate" if second else "payload", arrays=changed))
        if not second:
            with pytest.raises(MessageError, match=reason):
                steered(Message("update", 2, changed, told), STEERED[mode])

    for name, array in arrays.items():
        refused({other: a for other, a in arrays.items() if other != name}, f"array '{name}' is missing")
        refused(arrays | {name: np.zeros(len(array) + 1)}, f"array '{name}' must have shape")
        refused(arrays | {name: np.full_like(array, np.nan)}, f"array '{name}' holds NaN")
        refused(arrays | {name: np.full_like(array, 1e200)}, f"array '{name}' holds numbers beyond")
    for name in {"gradient", "region", "fresh", "memory", "statistics", "lines", "failed", "pair", "c"} - set(arrays):
        refused(arrays | {name: np.zeros(D)}, f"array '{name}' is not expected")


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_trust_region_is_doubled_or_halved_at_most(factor):
    """Whatever a liar proposes beyond that is no reply, and so no average either: the range follows what was told."""
    asked = Message("refresh", 2, X, REGION)
    for beyond in (1.0, factor**0.01):
        numbers = {"region": np.array([np.log(0.1) + np.log(factor * beyond), 0.5, 0.0])}
        if beyond == 1.0:
            numbers = {"region": np.array([np.log(0.1) + np.log(2.0) * np.sign(factor - 1.0), 0.5, 0.0])}
            check_reply(TRUST, asked, reply("payload", arrays=G | numbers))
            steered(Message("update", 2, G | numbers, REGION))
            continue
        with pytest.raises(MessageError, match="array 'region' must hold numbers from"):
            check_reply(TRUST, asked, reply("payload", arrays=G | numbers))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Message("refresh", 2, X | G, REGION), "array 'gradient' is not expected; these are: x"),
        (Message("refresh", 2, X, REGION | {"code": 1.0}), "scalar 'code' is not expected"),
        (Message("refresh", 2, X, {"radius": 0.1}), "a request must have seed, radius"),
        (Message("refresh", 2, {}, REGION), "array 'x' is missing"),
        (Message("update", 2, X, REGION), "array 'gradient' is missing|array 'region' is missing"),
        (Message("update", 2, G | NUMBERS, REGION | {"mode": 1}), "scalar 'mode' is not expected"),
        (Message("update", 2, G | NUMBERS, REGION | {"radius": 3.0}), "scalar 'radius' must be in"),
        (Message("update", 2, G | NUMBERS, {"seed": 1}), "a request must have seed, radius"),
        (Message("payload", 2, X, REGION), "'payload' is not a request of FedTrustRegion"),
    ],
)
def test_bad_requests_of_a_steered_round(bad, reason):
    """Names, shapes, numbers and the order of things: refused before anything is asked."""
    with pytest.raises(MessageError, match=reason):
        steered(bad)


def test_a_client_that_has_no_x():
    """A first request without x in round 1, or two rounds after the last: nothing to work x out from."""
    evaluator = Evaluator(lambda u: 0.0, Box.of((0, 1), D))
    client = Client(SEARCH.client(ClientContext(evaluator, Trajectory(D), np.random.default_rng(0), D, 2, True)))
    with pytest.raises(MessageError, match="without x, and no round before it"):
        client.handle(Message("refresh", 1, {}, SHARED))
    client.handle(Message("refresh", 1, X, SHARED))
    with pytest.raises(MessageError, match="without x, and no round before it"):
        client.handle(Message("refresh", 3, {}, SHARED))
