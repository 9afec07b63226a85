"""The precision of messages: what arrays become, how many bytes they are, and that every engine gives the same run."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fault_jobs import CENTRES, TABLES, Box
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from wire import Wire

import fzoos
from fzoos.algorithms import ALGORITHMS
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import MessageError, decode, encode
from fzoos.messages.message import Message
from fzoos.messages.precision import PRECISIONS, read, rounded, size, write
from fzoos.messages.rounding import Rounding

COARSE = PRECISIONS[1:]
SEED = np.random.SeedSequence(7)

coarse = st.sampled_from(COARSE)
shapes = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12)
numbers = st.floats(-1e30, 1e30) | st.sampled_from([0.0, -0.0, 1.0, 5e-324, -5e-324, 1e-300, 2.0**-14, 65504.0])
some = arrays(np.float64, shapes, elements=numbers) | arrays(np.float64, shapes, elements=numbers, fill=st.just(3.7))


def rng(seed=0):
    return np.random.default_rng(seed)


def bits(array):
    return array.shape, array.dtype, (array + 0.0).tobytes()  # -0.0 is 0.0


# What numbers become


def test_float64_is_left_alone():
    """Nothing is rounded, copied or looked at."""
    array = np.array([0.1, np.nan])
    assert rounded(array, "float64") is array


@given(arrays(np.float64, shapes, elements=numbers))
def test_float32_is_numpys(array):
    """Every number becomes the float32 that NumPy makes of it."""
    assert np.array_equal(rounded(array, "float32"), array.astype(np.float32).astype(np.float64))


@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-20000, 20000)), st.integers(-900, 900))
def test_float16_is_numpys_with_a_scale(array, shift):
    """With a largest number between 2^14 and 2^15 there is nothing to scale: NumPy's float16; and an array that is 2^k
    times as large becomes 2^k times as much."""
    array[0] = 20000.0
    plain = array.astype(np.float16).astype(np.float64)
    assert np.array_equal(rounded(array, "float16"), plain)
    if np.all((array == 0) | (abs(array) > 1e-4)):  # neither then leaves float64's own range
        assert np.array_equal(rounded(np.ldexp(array, shift), "float16"), np.ldexp(plain, shift))


@given(some, coarse, st.integers(0, 5))
@example(np.array([1.0 - 2.0**-53, 2.0**-39, 3 * 2.0**-40]), "float16", 0)  # the largest is rounded up to a power of 2
@example(np.array([1.0, np.nextafter(1.0, 2.0), 1.0]), "stochastic", 0)  # no room for 256 levels
@example(np.array([0.0, 5e-324, 1e-323, 0.0]), "stochastic", 0)
def test_errors_are_bounded(array, precision, seed):
    """float32: half a unit in the 24th bit; float16: in the 11th, or 2^-39 of the largest number; stochastic: less than
    the distance of two levels, and exact at the ends. Below float64's or float32's smallest number: that."""
    found = rounded(array, precision, rng(seed))
    assert (found.shape, found.dtype) == (array.shape, np.float64)
    error, largest = abs(found - array), np.max(np.maximum(abs(array), abs(found)), initial=0.0)
    if precision == "float32":
        assert np.all(error <= np.maximum(2.0**-24 * abs(array), 2.0**-150))
    elif precision == "float16":
        assert np.all(error <= np.maximum(np.maximum(2.0**-11 * abs(array), 2.0**-39 * largest), 5e-324))
    elif array.size:
        low, top = array.min(), array.max()
        assert (found.min(), found.max()) == (low, top)
        assert np.all(error <= np.maximum((top - low) / 255, np.spacing(largest)) * (1 + 1e-9))
        assert len(np.unique(found)) <= 256


@given(some, coarse)
@example(np.array([1.0 - 2.0**-53, 2.0**-39, 3 * 2.0**-40]), "float16")
@example(np.array([1.0, np.nextafter(1.0, 2.0), np.nextafter(1.0, 3.0)]), "stochastic")
@example(np.array([-5e-324, 0.0, 1e-322]), "stochastic")
@example(np.array([-5e-324, 0.0, 1e-322]), "float16")
def test_rounding_again_changes_nothing(array, precision):
    """What is rounded is a fixed point, for whatever random numbers; so messages can be handed on without a codec."""
    once = rounded(array, precision, rng(1))
    for seed in range(3):
        assert bits(rounded(once, precision, rng(seed))) == bits(once)


@given(some, coarse)
@example(np.zeros((0, 4)), "stochastic")
@example(np.array(0.1), "stochastic")
@example(np.array([-0.0, 0.0, -0.0, 1.0]), "stochastic")
def test_there_and_back(array, precision):
    """A rounded array is written in as many bytes as are counted, and read bit for bit."""
    once = rounded(array, precision, rng(1))
    data = write(once, precision)
    assert len(data) == size(array.size, precision)
    back = read(data, precision, array.shape)
    assert bits(back) == bits(once)
    assert back.flags.writeable


def test_sizes():
    """By hand: 4 n; 2 + 2 n; 8 + 8 + n, but two numbers are not made longer than they are."""
    assert [size(n, "float64") for n in (0, 1, 300)] == [0, 8, 2400]
    assert [size(n, "float32") for n in (0, 1, 300)] == [0, 4, 1200]
    assert [size(n, "float16") for n in (0, 1, 300)] == [2, 4, 602]
    assert [size(n, "stochastic") for n in (0, 1, 2, 3, 300)] == [0, 8, 16, 19, 316]
    message = Message("update", 1, {"x": np.zeros(300), "g": np.zeros((2, 5))}, {"seed": 7}, "float16")
    assert message.nbytes == 602 + 22 + 8


def test_stochastic_is_right_on_average():
    """The mean over 4 000 draws is v within its standard error, which for levels a < v < a + h is
    sqrt((v - a) (a + h - v) / 4000); over 200 numbers the squares of the deviations in its units average to one."""
    count, array = 4000, rng(3).normal(0.0, 2.0, 200)
    generator = rng(4)
    mean = np.mean([rounded(array, "stochastic", generator) for _ in range(count)], axis=0)
    low, h = array.min(), (array.max() - array.min()) / 255
    part = (array - low) / h % 1.0
    inside = (part > 0.01) & (part < 0.99)
    z = (mean - array)[inside] / (h * np.sqrt(part * (1 - part) / count)[inside])
    assert inside.sum() > 150
    assert np.max(abs(z)) < 4.5
    assert abs(np.mean(z)) < 4 / math.sqrt(len(z))
    assert np.mean(z**2) == pytest.approx(1.0, abs=4 * math.sqrt(2 / len(z)))


NEAR = [
    0.0,
    5e-324,
    1e-300,
    2.0**-40,
    1e-9,
    0.5 - 2.0**-54,
    0.5,
    1 - 2.0**-11,
    1 - 2.0**-12,
    1 - 2.0**-25,
    1 - 2.0**-53,
]


@given(st.lists(st.sampled_from([*NEAR, 1.0]) | st.floats(0, 1), min_size=1, max_size=20), coarse, st.integers(0, 9))
def test_x_stays_in_the_cube(values, precision, seed):
    """Iterates at 0, at 1 and next to them are not pushed out, and those on the bounds stay on them."""
    array = np.array(values)
    found = rounded(array, precision, rng(seed))
    assert np.all(found >= 0.0)
    assert np.all(found <= 1.0)
    assert np.all(found[array == 0.0] == 0.0)
    assert np.all(found[array == 1.0] == 1.0)


# What cannot be


@pytest.mark.parametrize(("precision", "bad"), [("float32", np.nan), ("float16", np.inf), ("stochastic", -np.inf)])
def test_not_finite(precision, bad):
    """NaN and infinity are not rounded, and a message says which array has them."""
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        rounded(np.array([0.0, bad, 1.0]), precision, rng())
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        write(np.array([0.0, bad, 1.0]), precision)
    with pytest.raises(MessageError, match="array 'g' holds NaN or infinity"):
        Rounding(precision, SEED)(Message("payload", 1, {"g": np.array([0.0, bad, 1.0])}))


@pytest.mark.parametrize(
    ("precision", "array"),
    [("float32", [1.0, 1e39]), ("float16", [1.0, 1.7976931348623157e308]), ("stochastic", [-1e308, 0.0, 1e308])],
)
def test_too_large(precision, array):
    """What would become infinity is refused; half of it is not."""
    with pytest.raises(ValueError, match=f"holds numbers too large for {precision}"):
        rounded(np.array(array), precision, rng())
    assert np.all(np.isfinite(rounded(np.array(array) / 8, precision, rng())))


@pytest.mark.parametrize("precision", COARSE)
def test_not_rounded(precision):
    """A message that says it is rounded and is not would arrive as another one: it is not encoded."""
    message = Message("update", 1, {"x": np.array([0.0, 0.1, 1.0])}, {}, precision)
    with pytest.raises(ValueError, match=f"array 'x' has not been rounded to {precision}"):
        encode(message, "s1")
    assert decode(encode(Rounding(precision, SEED)(message), "s1"), "s1").precision == precision


def test_stochastic_needs_chance():
    """Without a seed or a generator there is none."""
    with pytest.raises(ValueError, match="needs a seed"):
        Rounding("stochastic")
    with pytest.raises(ValueError, match="needs a random generator"):
        rounded(np.zeros(3), "stochastic")


# Messages


def test_the_same_in_the_same_round():
    """Random numbers follow from party, round and name: x is the same to whoever gets it later, and another one in
    another round, from another party and under another name."""
    x = rng().uniform(size=40)
    rounding = Rounding("stochastic", SEED)
    first = rounding(Message("refresh", 2, {"x": x})).arrays["x"]
    again = rounding(Message("update", 2, {"w": np.ones(9), "x": x})).arrays["x"]
    assert np.array_equal(first, again)
    others = [
        rounding(Message("refresh", 3, {"x": x})).arrays["x"],
        Rounding("stochastic", SEED.spawn(1)[0])(Message("refresh", 2, {"x": x})).arrays["x"],
        rounding(Message("refresh", 2, {"y": x})).arrays["y"],
    ]
    assert all(not np.array_equal(first, other) for other in others)


# Whole runs


START = (0.5, -0.25, 0.125, 0.75, -0.5)
D = len(START)


def make(algorithm, precision, sites=("a", "b"), **changes):
    settings = {"x0": START, "bounds": (-1.0, 1.0), "rounds": 3, "retries": 0} | changes
    table = TABLES[algorithm]
    return Study("demo", sites=sites, algorithm=table, precision=precision, **settings)


class Counting(Wire):
    """Adds up the content of what really goes over the wire: all but the framing, and 8 bytes for each scalar."""

    down = up = 0

    def ask(self, client, data):
        reply = super().ask(client, data)
        self.down, self.up = self.down + self._content(data), self.up + self._content(reply)
        return reply

    def _content(self, data):
        framing = 8 + int.from_bytes(data[4:8], "little")
        return len(data) - framing + 8 * len(decode(data, self.study.id).scalars)


def minimized(study):
    return fzoos.minimize(
        [Box(CENTRES[i]) for i in range(len(study.sites))],
        study.start,
        bounds=study.bounds,
        algorithm=study.algorithm_settings,
        rounds=study.rounds,
        participation=study.participation,
        precision=study.precision,
        seed=study.seed,
    )


def same(one, two):
    """All that a run leaves, but for the time it took."""
    assert one.x.tobytes() == two.x.tobytes()
    for mine, yours in zip(one.history, two.history, strict=True):
        assert repr(replace(mine, seconds=0.0)) == repr(replace(yours, seconds=0.0))


@pytest.mark.parametrize(
    ("algorithm", "precision"), [(name, PRECISIONS[1 + i % 3]) for i, name in enumerate(ALGORITHMS)]
)
def test_every_algorithm_at_every_precision(folder, algorithm, precision):
    """Messages handed over as they are, and as bytes between sites that start anew for each of them, give the same run
    bit for bit; what is counted is what the codec writes; x is inside the box, and coarser is shorter."""
    study = make(algorithm, precision, sites=("a", "b", "c"), participation=2)
    with Counting(study, folder, restart=True) as wire:
        result = run_study(study, wire, folder / "result.db")
    assert result.status == "completed"
    assert (result.bytes_down, result.bytes_up) == (wire.down, wire.up)
    plain = minimized(study)
    same(result, plain)
    assert np.all(abs(result.x) <= 1.0)
    if precision != "float64":
        assert plain.bytes_up < minimized(replace(study, precision="float64")).bytes_up
