"""What a server may tell a client: every other number is refused before anything is queried."""

import math

import pytest

from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.messages.codec import MessageError

GOOD = {"seed": 7, "radius": 0.1}
LIMITS = {
    # least and most, and something just outside of each
    "seed": (0, 2**64, -1, 2**65),
    "radius": (1e-12, 1.0, 0.0, 1.0000001),
    "constrained": (0, 1, -1, 2),
    "weight": (1e-12, 1.0, 0.0, 1.0000001),
    "cut": (0, 2**40, -1, 2**40 + 1),
    "quiet": (0, 1, -1, 2),
    "history": (0, 2**10, -1, 2**10 + 1),
}
WHOLE = ("seed", "constrained", "cut", "quiet", "history")


def test_every_number_has_its_test():
    """A new number must get a range, here as well."""
    assert set(LIMITS) == set(RegionControl.names())


def test_ranges():
    """The ends of a range are in it, and what is beyond is a MessageError that names the number."""
    for name, (low, high, *beyond) in LIMITS.items():
        for value in (low, high):
            assert getattr(RegionControl.of(GOOD | {name: value}), name) == value
        for value in (*beyond, math.nan, math.inf, -math.inf):
            with pytest.raises(MessageError, match=f"scalar '{name}' must be in"):
                RegionControl.of(GOOD | {name: value})


def test_whole_numbers():
    """Counts are whole, whether they come as 1 or as 1.0."""
    for name in WHOLE:
        with pytest.raises(MessageError, match=f"scalar '{name}' must be a whole number, got 0.5"):
            RegionControl.of(GOOD | {name: 0.5})
        made = getattr(RegionControl.of(GOOD | {name: 1.0}), name)
        assert (made, type(made)) == (1, int)


@pytest.mark.parametrize("missing", GOOD)
def test_what_is_needed(missing):
    """Seed and radius have no usual value."""
    with pytest.raises(MessageError, match=r"a request must have seed, radius, .*; got"):
        RegionControl.of({name: value for name, value in GOOD.items() if name != missing})


def test_there_and_back():
    """What has its usual value does not travel; the rest comes back as it was, and strangers are refused."""
    assert RegionControl(7, 0.1).scalars() == GOOD
    full = RegionControl(7, 0.2, 1, 0.25, 9, 1, 15)
    assert set(full.scalars()) == set(RegionControl.names())
    assert RegionControl.of({name: float(value) for name, value in full.scalars().items()}) == full
    with pytest.raises(MessageError, match="scalar 'queries' is not expected"):
        RegionControl.of(GOOD | {"queries": 3})
