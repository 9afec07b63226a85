"""The state of objects without pickle: what is shared stays shared, and nothing but data is read."""

import json
from collections import deque
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from fzoos._util.object_state import ObjectState, StateError

PACKAGES = ["fzoos", __name__.partition(".")[0]]


class Kind(IntEnum):
    FIRST = 1


class Pair(NamedTuple):
    left: object
    right: object


class Part:
    def __init__(self, whole):
        self.whole = whole

    def method(self, x):
        return self, x


class Whole:
    not_state = ("given",)

    def __init__(self, given=None):
        self.given = given
        self.rng = np.random.default_rng(1)
        self.function = lambda x: x + 1
        self.numbers = [1.0]
        self.same = self.numbers
        self.part = Part(self)


def state_of(whole):
    return ObjectState(whole, PACKAGES)


def moved(old, **given):
    """A new object that gets the state of an old one, by way of text."""
    taken, new = old.take(), Whole(**given)
    state = state_of(new)
    state.replace(json.loads(json.dumps(taken.nodes)), taken.arrays)
    return new, state


def changed(change):
    old = Whole(given="old")
    state = state_of(old)
    change(old)
    return old, moved(state, given="new")[0]


def test_values():
    """Bit for bit, with their types."""
    values = [None, True, 2**200, -0.0, 1e-310, np.inf, "ä", b"\x00\xff", (1, (2.5,)), range(2, 9, 3), Kind.FIRST]
    values += [Pair(1, np.float32(0.1)), np.float64(0.3), np.int64(-4), {1, 5}, deque([1, 2]), {(1, 2): [3], "k": None}]

    def change(whole):
        whole.values = values

    _, new = changed(change)
    assert repr(new.values) == repr(values)
    assert [type(value) for value in new.values] == [type(value) for value in values]


def test_what_is_shared():
    """Lists, parts, circles and views stay one object; what was made with the new one is kept."""

    def change(whole):
        storage = np.arange(12.0).reshape(3, 4)
        whole.storage, whole.row, whole.corner = storage, storage[1], storage[1:, ::-2]
        whole.turned = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        whole.more = Part(whole)
        whole.again = [whole.more]
        whole.numbers.append(2.0)

    old, new = changed(change)
    assert new.same is new.numbers == [1.0, 2.0]
    assert new.part.whole is new
    assert new.more.whole is new
    assert new.again[0] is new.more
    assert new.corner.tolist() == old.corner.tolist()
    assert new.corner.strides == old.corner.strides
    new.storage[1] = 7.0
    assert new.row.tolist() == [7.0] * 4
    assert new.corner[0].tolist() == [7.0] * 2
    assert new.turned.flags.f_contiguous
    assert new.turned.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_it_can_be_moved_again():
    """And does not grow on the way."""
    old = Whole()
    state = state_of(old)
    old.storage = np.arange(12.0).reshape(3, 4)
    old.row, old.turned = old.storage[1], np.ones((3, 2)).T.copy(order="F")
    sizes = set()
    for _ in range(4):
        new, state = moved(state)
        taken = state.take()
        sizes.add((len(taken.nodes), sum(array.nbytes for array in taken.arrays)))
    assert len(sizes) == 1
    assert new.row.base is not None
    assert new.turned.flags.f_contiguous


def test_what_is_given_stays():
    """Attributes in `not_state`, and functions that have no name to be found by."""
    old, new = changed(lambda whole: None)
    assert new.given == "new"
    assert new.function is not old.function
    assert new.function(1) == 2


def test_functions_of_objects():
    def change(whole):
        whole.call = partial(whole.part.method, x=[5])

    _, new = changed(change)
    assert new.call() == (new.part, [5])


def test_generators():
    def change(whole):
        whole.rng.standard_normal(3)
        whole.legacy = np.random.RandomState(3)
        whole.legacy.standard_normal(1)
        whole.other = np.random.Generator(np.random.MT19937(4))
        whole.other.random(2)

    old, new = changed(change)
    assert new.rng is not old.rng
    assert new.rng.random() == old.rng.random()
    assert new.other.random() == old.other.random()
    assert new.legacy.standard_normal() == old.legacy.standard_normal()


@pytest.mark.parametrize(
    "thing",
    [lambda: 1, object(), np.array([object()]), open, json.JSONDecoder(), frozenset([1])],
    ids=lambda x: type(x).__name__,
)
def test_what_cannot_be_kept(thing):
    """Said, and not guessed at."""
    whole = Whole()
    state = state_of(whole)
    whole.thing = thing
    with pytest.raises(StateError):
        state.take()


@pytest.mark.parametrize(
    "node",
    [
        [None, "object", "os:_wrap_close", {}],
        [None, "object", "json:JSONDecoder", {}],
        [None, "object", "fzoos._util.object_state:_name", {}],
        [None, "list", [["named", "os:system"]]],
        [None, "list", [["_class__", 1]]],
        [None, "generator", "default_rng", {}],
        ["/nowhere", "list", []],
        [None, "list", [["node", 99]]],
        [None, "array", 9, [0], True],
        ["/rng", "list", []],
    ],
    ids=repr,
)
def test_what_cannot_be_read(node):
    """A state that was made up: classes of other packages are not made, and functions not called."""
    state = state_of(Whole()).take()
    nodes = json.loads(json.dumps(state.nodes))
    nodes[0][-1]["more"] = ["node", len(nodes)]
    with pytest.raises(StateError):
        state_of(Whole()).replace([*nodes, node], state.arrays)
