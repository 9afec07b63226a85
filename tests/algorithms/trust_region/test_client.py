"""A client's trust region: Delta's rules by hand, what is minimised, and what it does where values fail."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.trust_region.client import RegionClient, RegionStatistics, delta_of
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.algorithms.trust_region.global_correction import GlobalCorrection
from fzoos.algorithms.trust_region.neighbours import Neighbours
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.from_gradients import GradientProcess
from fzoos.surrogates.region import RegionProcess

X = np.array([0.5, 0.5])
DELTA = 0.1


def bowl(u):
    return float(np.sum((u - np.array([0.35, 0.6])) ** 2) + 0.3 * u[0] * u[1])


def context(f, dim, projected=True):
    queried = []
    evaluator = Evaluator(lambda u: queried.append(u) or f(u), Box.of((0, 1), dim), on_failure="skip")
    return ClientContext(evaluator, Trajectory(dim), np.random.default_rng(0), dim, 2, projected), queried


def make(f=bowl, dim=2):
    """A client and the points that it asks."""
    made, queried = context(f, dim)
    return RegionClient(made), queried


def refresh(delta=DELTA, **more):
    """The request of the first exchange."""
    return Message("refresh", 0, {}, RegionControl(1, delta, **more).scalars())


def update(mean, delta=DELTA):
    """That of the second, with the averages of the first."""
    return Message("update", 0, mean, RegionControl(1, delta).scalars())


def numbers(reply):
    return RegionStatistics(*reply["region"])


def averaged(reply, gradient=None, delta=DELTA, failed=0.0):
    """What the server makes of it, as if this client were alone, but for what is changed."""
    mean = {"region": np.array(RegionStatistics(math.log(delta), failed=failed))}
    return mean | {"gradient": reply["gradient"] if gradient is None else np.array(gradient)}


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_what_is_asked(dim):
    """x and d orthonormal directions at the distance Delta sqrt(d); then two a round: x, and one at that distance."""
    x = np.full(dim, 0.5)
    client, queried = make(lambda u: float(u @ u), dim)
    reply = client.refresh(x, refresh())
    offsets = (np.array(queried) - x) / (DELTA * math.sqrt(dim))
    assert np.array_equal(offsets[0], np.zeros(dim))
    np.testing.assert_allclose(offsets[1:] @ offsets[1:].T, np.eye(dim), atol=1e-12)
    assert len(queried) == dim + 1
    before = len(queried)
    there = client.update(x, update(averaged(reply)))["x"]
    assert len(queried) == before
    client.refresh(there, refresh(0.05))
    assert np.array_equal(queried[before], there)
    assert np.linalg.norm(queried[before + 1] - there) == pytest.approx(0.05 * math.sqrt(dim))
    assert len(queried) == before + 2


def test_the_direction_of_which_least_is_known():
    """Each later query is along the largest axis of the gradient's posterior covariance, of the surrogate with the
    choice of the round before and all points so far."""
    x = np.full(3, 0.5)
    client, queried = make(lambda u: float(np.sum((u - 0.4) ** 2 * [1.0, 2.0, 3.0])), 3)
    for k in range(4):
        choice = None if client.process is None else client.process.choice
        centre = x + np.array([0.03 * k, 0.0, 0.01 * k])
        client.refresh(centre, refresh())
        if choice is not None:
            points = np.array(queried[:-1])
            values = np.sum((points - 0.4) ** 2 * [1.0, 2.0, 3.0], axis=1)
            widest = np.linalg.eigh(RegionProcess(points, values, centre, choice).grad_covariance(centre))[1][:, -1]
            way = (queried[-1] - centre) / np.linalg.norm(queried[-1] - centre)
            assert abs(way @ widest) == pytest.approx(1.0, abs=1e-6)


# Delta

STRAIGHT = [np.array([0.4, 0.5])]


def power(predicted=0.5, value=0.5, before=1.0, path=STRAIGHT, x=X, sigma=0.0, credible=True):
    client, _ = make()
    client._path, client.process = list(path), SimpleNamespace(sigma=sigma)
    client._neighbours = SimpleNamespace(credible=lambda x: credible)
    return client._power(x, DELTA, predicted, before, value)


@pytest.mark.parametrize(
    ("predicted", "value", "expected"),
    [
        (0.5, 0.5, 1.0),
        (0.5, 0.6, 1 - (0.1 / 0.9) / 0.2),
        (0.5, 0.7, 1 - (0.2 / 0.8) / 0.2),
        (0.5, 2.0, -1.0),  # 1.5 / 1.5: as wrong as can be
        (0.5, 1.5, -1.0),
        (1.0, 1.0, 1.0),  # nothing was promised and nothing happened
    ],
)
def test_delta_by_the_error(predicted, value, expected):
    """1 - e / 0.2 with e = |p - y| / (|p - before| + |y - before|), in [-1, 1]."""
    assert power(predicted, value) == pytest.approx(expected)


@pytest.mark.parametrize(("before", "expected"), [((0.4, 0.4), 0.0), ((0.39, 0.4), 0.398), ((0.41, 0.4), -0.398)])
def test_delta_by_the_turn(before, expected):
    """4 cos of the last two moves, by hand: (0.1, 0) after (0, 0.1) gives 0, after (+-0.01, 0.1) +-0.0995."""
    assert power(path=[np.array(before), STRAIGHT[0]]) == pytest.approx(expected, abs=1e-3)


def test_delta_by_the_length_of_the_move():
    """Only what was used doubles: half of Delta is enough, less leaves it, below a tenth halves it."""
    for move, expected in ((0.1, 1.0), (0.051, 1.0), (0.049, 0.0), (0.011, 0.0), (0.009, -1.0)):
        assert power(x=STRAIGHT[0] + [move, 0.0]) == expected
    assert power(value=0.7, x=STRAIGHT[0] + [0.049, 0.0]) == pytest.approx(-0.25)  # errors count all the same


def test_delta_and_noise():
    """sqrt2 sigma of the error is forgiven, and who would halve by differences below 2 sqrt2 sigma abstains."""
    assert power(value=0.6, sigma=0.1) == 1.0
    forgiven = (0.2 - math.sqrt(2) * 0.05) / 0.8
    assert power(value=0.7, sigma=0.05) == pytest.approx(1 - forgiven / 0.2)
    assert power(0.99, 1.3, sigma=0.05) == pytest.approx(-1.0)
    assert power(0.99, 1.3, sigma=0.12) == 0.0


def test_nothing_to_compare():
    """Without a prediction, or with a value that is not credible: Delta stays."""
    assert power(predicted=math.nan) == 0.0
    assert power(value=9.0, credible=False) == 0.0


def test_delta_of_the_clients():
    """Half of them double, half of them halve: it stays; and the first round compares nothing."""
    mean = {"region": np.mean([RegionStatistics(math.log(0.2)), RegionStatistics(math.log(0.05))], axis=0)}
    assert delta_of(mean) == pytest.approx(0.1)
    client, _ = make()
    assert numbers(client.refresh(X, refresh())).log_delta == math.log(DELTA)


# What is minimised


@pytest.mark.parametrize("gradient", [None, (1.0, -0.5), (-3.0, 0.2)])
def test_one_round_is_danes(gradient):
    """x_i is the least of mu_i + (g - g_i).(x - x_r) over the box and |x - x_r|_inf <= Delta, here on a grid."""
    client, _ = make()
    reply = client.refresh(X, refresh())
    mean = averaged(reply, gradient)
    found = client.update(X, update(mean))["x"]
    slope, process = mean["gradient"] - reply["gradient"], client.process

    def local(p):
        return process(p)[0] + slope @ (p - X)

    axis = np.linspace(-DELTA, DELTA, 41)
    least = min(local(X + np.array([a, b])) for a in axis for b in axis)
    assert local(found) <= least + 1e-9
    assert np.max(np.abs(found - X)) <= DELTA + 1e-12


def test_the_box():
    """In a corner with everything falling outwards x stays there exactly."""
    client, _ = make(lambda u: float(u[0] - u[1]))
    x = np.array([0.0, 1.0])
    reply = client.refresh(x, refresh())
    assert np.array_equal(client.update(x, update(averaged(reply)))["x"], x)


def test_one_client_has_no_excess():
    """N = 1: the averaged gradient is the own one, whatever came later; what is minimised is mu_i."""
    client, _ = make(lambda u: float(np.sin(3 * u[0]) + u[1] ** 2))
    x = X
    for _ in range(4):
        reply = client.refresh(x, refresh())
        start, x = x, client.update(x, update(averaged(reply)))["x"]
    correction = client._correction.process(client.process)
    for p in start + DELTA * np.random.default_rng(0).uniform(-1, 1, (5, 2)):
        assert abs(correction(p)[0] - correction(start)[0]) < 1e-6 * abs(
            client.process(p)[0] - client.process(start)[0]
        )
    axis = np.linspace(-DELTA, DELTA, 41)
    least = min(client.process(start + np.array([a, b]))[0] for a in axis for b in axis)
    assert client.process(x)[0] <= least + 1e-9


def test_excess_of_one_round():
    """(g - g_i).(x - x_r), exactly, and its slope."""
    correction, g, own = GlobalCorrection(2), np.array([3.0, 1.0]), np.array([1.0, 2.0])
    assert not correction.known
    correction.add(X, g, own)
    assert correction.known
    value, slope = correction.process(None)(X + np.array([0.1, 0.2]))
    assert value == pytest.approx(2.0 * 0.1 - 1.0 * 0.2)
    assert np.array_equal(slope, g - own)


def test_excess_of_several_rounds():
    """Gradients are g_s - grad mu_i(x_s) as mu_i is now; each counts the less the more the own one has changed since it
    was sent: ridges (changes^2 / d) / (newest^2 / d)."""
    correction, rng = GlobalCorrection(2), np.random.default_rng(0)
    centres, averages, now = rng.random((3, 2)), rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    sent = now + np.array([[0.0, 0.0], [0.3, 0.4], [0.0, 0.1]])
    for row in zip(centres, averages, sent, strict=True):
        correction.add(*row)
    gradients = {c.tobytes(): g for c, g in zip(centres, now, strict=True)}

    class Mine:
        choice = SimpleNamespace(length=0.7)

        def gradients(self, x):
            return np.array([gradients[row.tobytes()] for row in x])

    size = np.sum((averages[2] - now[2]) ** 2)
    expected = GradientProcess(centres, averages - now, 0.7, 1e-12 + np.array([0.0, 0.25, 0.01]) / size)
    found = correction.process(Mine())
    for p in rng.random((3, 2)):
        assert found(p)[0] == pytest.approx(expected(p)[0], rel=1e-6)
        np.testing.assert_allclose(found(p)[1], expected(p)[1], rtol=1e-6)


@pytest.mark.parametrize(("dim", "most"), [(2, 15), (100, 15), (150, 10), (400, 3), (5000, 3)])
def test_memory(dim, most):
    """15 rounds, less where 1500 numbers would not hold them, 3 at least; the oldest goes."""
    correction = GlobalCorrection(dim)
    for k in range(20):
        correction.add(np.full(dim, k), np.zeros(dim), np.zeros(dim))
    assert [row[0][0] for row in correction._rows] == list(range(20 - most, 20))


# Failures


def test_a_centre_that_failed_here():
    """Says so, and asks for half of Delta; g_i is still the surrogate's."""
    client, _ = make(lambda u: math.nan if u[0] > 0.55 else bowl(u))
    reply = client.refresh(X, refresh())
    client.update(X, update(averaged(reply)))
    there = client.refresh(X + np.array([0.1, 0.0]), refresh())
    assert numbers(there).failed == 1.0
    assert numbers(there).log_delta == pytest.approx(math.log(DELTA / 2))
    assert np.any(there["gradient"])


@pytest.mark.parametrize("everywhere", [True, False])
def test_an_objective_that_has_broken(everywhere):
    """Three rounds bring no value: the fourth asks the last good centre again. If there is none either, the site has no
    say (Delta as it is, no complaint) until it has a value; if there is one, its centres go on failing."""
    fails = []
    client, queried = make(lambda u: math.nan if fails and (everywhere or np.any(u != X)) else bowl(u))
    reply = client.refresh(X, refresh())
    client.update(X, update(averaged(reply)))
    first = len(queried)
    fails.append(True)
    there = [numbers(client.refresh(X + 0.01 * k, refresh())) for k in range(1, 6)]
    at_x = [k // 2 + 1 for k, u in enumerate(queried[first:]) if np.array_equal(u, X)]
    assert at_x == ([4, 5] if everywhere else [4])
    say = 0.0 if everywhere else 1.0
    assert [n.failed for n in there] == [1.0, 1.0, 1.0, say, say]
    assert there[3].log_delta == pytest.approx(math.log(DELTA) - say * math.log(2.0))
    fails.clear()
    assert numbers(client.refresh(X, refresh())).failed == 0.0
    fails.append(True)
    assert numbers(client.refresh(X + 0.01, refresh())).failed == 1.0


@pytest.mark.parametrize("own", [True, False])
def test_a_centre_that_somebody_rejects(own):
    """x_i is within Delta of the last centre that everybody accepted; the one that failed leaves no gradient behind."""
    client, _ = make(lambda u: math.nan if own and u[0] > 0.59 else bowl(u))
    reply = client.refresh(X, refresh())
    client.update(X, update(averaged(reply)))
    bad = X + np.array([0.1, 0.1])
    reply = client.refresh(bad, refresh())
    assert numbers(reply).failed == own
    x = client.update(bad, update(averaged(reply, delta=0.03, failed=0.2)))["x"]
    assert np.max(np.abs(x - X)) <= 0.03 + 1e-12
    assert len(client._path) == 1
    assert [row[0].tolist() for row in client._correction._rows] == [X.tolist()]


def test_no_value_at_all():
    """It has no say: a gradient of zeros, Delta as it is, no complaint, and x_i = x."""
    client, queried = make(lambda u: math.nan)
    for _ in range(2):
        reply = client.refresh(X, refresh())
        assert not np.any(reply["gradient"])
        assert numbers(reply) == RegionStatistics(math.log(DELTA))
        assert np.array_equal(client.update(X, update(averaged(reply, (1.0, 1.0))))["x"], X)
    assert len(queried) == 3 + 2


def neighbours(limit=0.6):
    """Points of a grid, of which those to the right failed."""
    made, queried = context(lambda u: math.nan if u[0] > limit else bowl(u), 2)
    points = Neighbours(made)
    for a in np.linspace(0.2, 0.8, 6):
        for b in (0.3, 0.5, 0.7):
            points.query(np.array([a, b]))
    return points, queried


def test_the_fence():
    """0 where values came, 100 (h - 1/4)^2 with its own gradient where they fail; none as long as nothing failed."""
    points, _ = neighbours()
    assert points.failure_penalty(np.array([0.2, 0.5]))[0] < 0.1
    assert points.failure_penalty(np.array([0.8, 0.5]))[0] == pytest.approx(100 * 0.75**2, rel=0.05)
    at, h = np.array([0.66, 0.52]), 1e-6
    ends = [(points.failure_penalty(at + h * e), points.failure_penalty(at - h * e)) for e in np.eye(2)]
    value, slope, bend = points.failure_penalty(at)
    differences = [(one[0] - other[0]) / (2 * h) for one, other in ends]
    assert max(np.abs(differences)) > 1.0
    np.testing.assert_allclose(slope, differences, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(bend, [(one[1] - other[1]) / (2 * h) for one, other in ends], rtol=1e-3, atol=0.1)
    assert value > 0.0
    free, _ = neighbours(limit=2.0)
    value, slope, _ = free.failure_penalty(at)
    assert value == 0.0
    assert not np.any(slope)


def test_aside_stays_further_inside_the_box():
    """Where both sides are allowed the one is queried that is clipped less."""
    made, queried = context(bowl, 2)
    points = Neighbours(made)
    points.query_offsets(np.array([0.05, 0.5]), np.array([[-0.2, 0.0]]))
    points.query_offsets(np.array([0.95, 0.5]), np.array([[0.2, 0.0]]))
    assert queried[0] == pytest.approx([0.25, 0.5])
    assert queried[1] == pytest.approx([0.75, 0.5])


def test_an_outlier_later():
    """A value at a centre that is off by 1e6: Delta stays, and the gradient hardly changes."""
    spoil = [False]
    client, _ = make(lambda u: bowl(u) + 1e6 * spoil[0])
    x = X
    for _ in range(6):
        reply = client.refresh(x, refresh(0.05))
        x = client.update(x, update(averaged(reply, delta=0.05), 0.05))["x"]
    truth = np.array([2 * (x[0] - 0.35) + 0.3 * x[1], 2 * (x[1] - 0.6) + 0.3 * x[0]])
    spoil[0] = True
    client._neighbours.query(x)
    spoil[0] = False
    x = x + 0.02
    truth = np.array([2 * (x[0] - 0.35) + 0.3 * x[1], 2 * (x[1] - 0.6) + 0.3 * x[0]])
    reply = client.refresh(x, refresh(0.05))
    np.testing.assert_allclose(reply["gradient"], truth, atol=0.02)


def test_a_gradient_without_queries():
    """Quiet: nothing is queried, Delta stays, and the gradient is that of the surrogate of earlier points."""
    client, queried = make()
    client.refresh(X, refresh())
    before, there = len(queried), np.array([0.52, 0.47])
    reply = client.refresh(there, refresh(quiet=1))
    assert len(queried) == before
    assert numbers(reply).log_delta == math.log(DELTA)
    points, values = np.array(queried), np.array([bowl(u) for u in queried])
    assert np.array_equal(reply["gradient"], RegionProcess(points, values, there)(there)[1])


def test_averaged_gradients_are_corrected():
    """Rounds 3 and 5 were taken part in, and 1: the history of rounds 2 to 5 replaces the first two, and 1 goes."""
    correction = GlobalCorrection(2)
    for s in (1, 3, 5):
        correction.add(np.full(2, float(s)), np.zeros(2), np.full(2, 10.0 * s), s)
    correction.correct(np.array([[2.0, 2.0], [3.0, 3.0], [4.0, 4.0], [5.0, 5.0]]), 6)
    found = [[float(part[0]) for part in row] for row in correction._rows]
    assert found == [[3.0, 3.0, 30.0], [5.0, 5.0, 50.0]]
