"""What a server may tell a client: every other number is refused before anything is queried."""

import math

import pytest

from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.messages.codec import MessageError

GOOD = {"seed": 7, "mode": 1, "radius": 0.1}
LIMITS = {
    # least and most, and something just outside of each
    "seed": (0, 2**64, -1, 2**65),
    "radius": (1e-12, 1.0, 0.0, 1.0000001),
    "ridge": (0.0, 1e12, -1e-300, 1.1e12),
    "step_size": (0.0, 1e12, -1e-300, 1.1e12),
    "basis": (0, 2**40, -1, 2**40 + 1),
    "used": (0, 2**40, -1, 2**40 + 1),
    "size": (0, 2**40, -1, 2**40 + 1),
    "probe": (0, 2**40, -1, 2**40 + 1),
    "line": (0, 2, -1, 3),
    "length": (0.0, 1e12, -1e-300, 1.1e12),
    "participants": (1, 2**40, 0, 2**40 + 1),
    "weight": (1e-12, 1.0, 0.0, 1.0000001),
    "mode": (1, 2, 0, 3),
    "cut": (0, 2**40, -1, 2**40 + 1),
}
WHOLE = ("seed", "basis", "used", "size", "probe", "line", "client_index", "participants", "cut")


def test_every_number_has_its_test():
    """A new number must get a range, here as well."""
    assert {*LIMITS, "client_index"} == set(Control.names())


def test_ranges():
    """The ends of a range are in it; what is beyond, NaN or infinite is a MessageError that names the number."""
    for name, (low, high, *beyond) in LIMITS.items():
        for value in (low, high):
            assert getattr(Control.of(GOOD | {name: value}), name) == value
        for value in (*beyond, math.nan, math.inf, -math.inf):
            with pytest.raises(MessageError, match=f"scalar '{name}' must be in"):
                Control.of(GOOD | {name: value})


def test_whole_numbers():
    """Counts are whole, whether they come as 1 or as 1.0."""
    for name in WHOLE:
        with pytest.raises(MessageError, match=f"scalar '{name}' must be a whole number, got 1.5"):
            Control.of(GOOD | {"participants": 5} | {name: 1.5})
        made = getattr(Control.of(GOOD | {"participants": 5.0} | {name: 2.0}), name)
        assert (made, type(made)) == (2, int)


def test_modes():
    """There are two of them."""
    assert [Control.of(GOOD | {"mode": mode}).mode for mode in (1.0, 2.0)] == [Mode.SHARED, Mode.SPLIT]
    with pytest.raises(MessageError, match=r"scalar 'mode' must be a whole number, got 1\.5"):
        Control.of(GOOD | {"mode": 1.5})


def test_turns():
    """A client is one of the participants, counted from 0."""
    assert Control.of(GOOD | {"client_index": 2, "participants": 3}).client_index == 2
    for client_index in (3, 1000):
        with pytest.raises(MessageError, match=f"client {client_index:g} of 3 participants"):
            Control.of(GOOD | {"client_index": client_index, "participants": 3})
    with pytest.raises(MessageError, match="scalar 'client_index' must be in"):
        Control.of(GOOD | {"client_index": -1, "participants": 3})
    with pytest.raises(MessageError, match="client 1 of 1"):
        Control.of(GOOD | {"client_index": 1})


@pytest.mark.parametrize("missing", GOOD)
def test_what_is_needed(missing):
    """Seed, mode and radius have no usual value."""
    with pytest.raises(MessageError, match=r"a request must have seed, mode, radius, .*; got"):
        Control.of({name: value for name, value in GOOD.items() if name != missing})


def test_there_and_back():
    """What has its usual value does not travel; the rest comes back as it was, and strangers are refused."""
    assert Control(7, Mode.SHARED, 0.1).scalars() == {"seed": 7, "mode": Mode.SHARED, "radius": 0.1}
    full = Control(7, Mode.SPLIT, 0.2, 1e-3, 0.7, 5, 8, 40, 16, 2, 0.3, 9, 1, 4, 0.25)
    assert set(full.scalars()) == set(Control.names())
    assert Control.of({name: float(value) for name, value in full.scalars().items()}) == full
    with pytest.raises(MessageError, match="scalar 'queries' is not expected"):
        Control.of(GOOD | {"queries": 3})
