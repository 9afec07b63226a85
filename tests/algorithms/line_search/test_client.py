"""A client's design and lines: what it asks, what it makes of it, and what it says where values fail."""

import math

import numpy as np
import pytest

from fzoos import FedLineSearch
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.line_search import client as client_module
from fzoos.algorithms.line_search import design as module
from fzoos.algorithms.line_search.client import LINE, DesignStatistics, LineSearchClient, halves, inward
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.design import SPREAD, Design
from fzoos.algorithms.line_search.directions import common_rows, design_rows
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.trend import Slope, fit_slope

D = 24
X = np.full(D, 0.5)
A, C = np.linspace(0.5, 2.0, D), np.linspace(-1.0, 1.0, D)


def function(u):
    return float(A @ (u - 0.4) ** 2 + C @ u)


def make(f=function, projected=True):
    """A client and the points that it asks."""
    queried = []
    evaluator = Evaluator(lambda u: queried.append(u) or f(u), Box.of((0, 1), D), on_failure="skip")
    context = ClientContext(evaluator, Trajectory(D), np.random.default_rng(0), D, 3, projected)
    return LineSearchClient(context), queried


def control(mode=Mode.SHARED, radius=0.02, **changes):
    return Control(**{"seed": 1, "mode": mode, "radius": radius, "step_size": 0.3, **changes})


def refresh(control, round=0):
    """The request of a round's first exchange."""
    return Message("refresh", round, {}, control.scalars())


def update(control, mean):
    """That of the second, with the averages of the first."""
    return Message("update", 0, mean, control.scalars())


def planned(control):
    """The queries of a round."""
    messages = [Message(kind, 1, {}, control.scalars()) for kind in ("refresh", "update")]
    return sum(FedLineSearch().cost(D, message, first=True) for message in messages)


def located(client, control):
    """Where a client that was at X in round 1 finds x in round 2."""
    client.locate(Message("refresh", 1, {"x": X}))
    return client.locate(refresh(control, 2))


def design_points(rows, x, length):
    """x, and distances of two lengths by turns, two on one side and two on the other."""
    distances = [(-1.0 if j // 2 % 2 == 0 else 1.0) * SPREAD ** (-0.5 if j % 2 else 0.5) for j in range(len(rows))]
    return np.vstack([x, x + length * np.array(distances)[:, None] * rows])


def fresh_of(points, values, x):
    """The gradients by the wide distances alone and by the narrow ones add up; of the curvature the mean."""
    parts = [fit_slope(points[part] - x, values[part], 1e-8) for part in (_every(points, 1), _every(points, 2))]
    return Slope(parts[0].gradient + parts[1].gradient, 0.5 * (parts[0].curvature + parts[1].curvature))


def _every(points, first):
    return [0, *range(first, len(points), 2)]


def numbers(reply):
    return DesignStatistics(*reply["statistics"])


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.SPLIT])
def test_what_is_asked(mode):
    """x, then its distances, H = h sqrt(d); split: x +- H along both parts of the own gradient as well; in all what was
    planned."""
    told = control(mode, client_index=1, participants=3, weight=0.2) if mode is Mode.SPLIT else control(mode)
    client, queried = make()
    reply = client.refresh(X, refresh(told))
    rows, length = design_rows(told, D)[0], 0.02 * math.sqrt(D)
    expected = design_points(rows, X, length)
    np.testing.assert_allclose(queried[: len(expected)], expected, atol=1e-15)
    if mode is Mode.SPLIT:
        slope = fresh_of(expected, np.array([function(p) for p in expected]), X).gradient
        units = [part / np.linalg.norm(part) for part in halves(rows, slope)]
        pairs = [X + sign * length * unit for unit in units for sign in (1.0, -1.0)]
        np.testing.assert_allclose(queried[len(expected) :], pairs, atol=1e-9)
    client.update(X, update(told, reply))
    assert len(queried) == planned(told)


def test_fresh_and_memory():
    """fresh is the surrogate of this design alone, memory that of the nearest 2 d + 1 points of both designs, values as
    differences to f(x)."""
    client, queried = make()
    client.refresh(X + 0.01, refresh(control(used=0)))
    client.refresh(X + 0.2, refresh(control(radius=0.001, basis=4)))
    before = len(queried)
    reply = client.refresh(X, refresh(control(used=12, ridge=1e-3)))
    points = np.array(queried)
    values = np.array([function(p) for p in points]) - function(X)
    fresh = fresh_of(points[before:], values[before:], X)
    np.testing.assert_allclose(reply["fresh"], fresh.gradient, rtol=1e-6, atol=1e-9)
    assert numbers(reply).curvature == pytest.approx(fresh.curvature, rel=1e-6)
    nearest = np.argsort(np.linalg.norm(points - X, axis=1))[: 2 * D + 1]
    assert len(nearest) == len(points) == 39  # all of them
    memory = fit_slope(points[nearest] - X, values[nearest], 1e-3).gradient
    np.testing.assert_allclose(reply["memory"], memory, rtol=1e-6, atol=1e-9)
    rows = common_rows(control(used=12), D)
    assert numbers(reply).common == pytest.approx(np.sum((rows @ fresh.gradient) ** 2))


def test_what_only_one_client_asked():
    """After a split star, memory of a shared one leaves out what this client queried alone: it is that of the shared
    star, of both x and of the lines. A split one takes all of its points."""
    for mode in (Mode.SHARED, Mode.SPLIT):
        told = {"client_index": 1, "participants": 2, "weight": 1.0}
        split = control(Mode.SPLIT, **told)
        client, queried = make()
        client.update(X + 0.05, update(split, client.refresh(X + 0.05, refresh(split))))
        alone = 16 + len(design_rows(split, D)[0]) - 16 + 4
        shared, last = (
            len(queried) - 2 * len(LINE),
            control(mode, basis=3, ridge=1e-3, **(told if mode is Mode.SPLIT else {})),
        )
        assert shared == 1 + alone
        before = len(queried)
        reply = client.refresh(X, refresh(last))
        end = len(queried) - (4 if mode is Mode.SPLIT else 0)
        points = np.array(queried[:end])
        kept = [k for k in range(end) if mode is Mode.SPLIT or k in (0, *range(shared, before)) or k >= before]
        nearest = np.argsort(np.linalg.norm(points[kept] - X, axis=1), kind="stable")[: 2 * D + 1]
        used = points[kept][nearest]
        values = np.array([function(p) for p in used]) - function(X)
        np.testing.assert_allclose(reply["memory"], fit_slope(used - X, values, 1e-3).gradient, rtol=1e-5, atol=1e-8)


def test_a_dealt_direction_counts_one_over_omega():
    """Three clients with weights 1/2, 1/3, 1/6: in the weighted mean of what they send the common part is their mean,
    and each own direction has the slope that its client found, once."""
    qualities, parts = (1 / 2, 1 / 3, 1 / 6), []
    average, expected = np.zeros(D), np.zeros(D)
    for client_index, weight in enumerate(qualities):
        told = control(Mode.SPLIT, client_index=client_index, participants=3, weight=weight)
        client, queried = make(lambda u, client_index=client_index: function(u) + client_index * u[client_index])
        average += weight * client.refresh(X, refresh(told))["fresh"]
        rows, common = design_rows(told, D)
        points = np.array(queried[:-4])
        values = np.array([function(p) + client_index * p[client_index] for p in points])
        slope = fresh_of(points, values, X).gradient
        expected += weight * (rows[:common] @ slope) @ rows[:common] + (rows[common:] @ slope) @ rows[common:]
        parts.append(np.linalg.norm(rows[common:] @ slope))
    assert min(parts) > 0.1
    np.testing.assert_allclose(average, expected, rtol=1e-6, atol=1e-8)


def test_the_numbers_of_a_dealt_design():
    """Of wide and narrow points: the pair's difference times its prediction, the prediction's square, and the mean
    square of the slopes."""
    told = control(Mode.SPLIT, client_index=0, participants=2, weight=0.5)
    client, queried = make()
    found = numbers(client.refresh(X, refresh(told)))
    points, rows = np.array(queried[:-4]), design_rows(told, D)[0]
    slope = fresh_of(points, np.array([function(p) for p in points]), X).gradient
    for k, name in enumerate(("wide", "narrow")):
        shown = function(queried[-4 + 2 * k]) - function(queried[-3 + 2 * k])
        part = rows[k::2] @ slope
        predicted = 2 * 0.02 * math.sqrt(D) * np.linalg.norm(part)
        assert getattr(found, f"{name}_seen") == pytest.approx(shown * predicted, rel=1e-6)
        assert getattr(found, f"{name}_predicted") == pytest.approx(predicted**2, rel=1e-6)
        assert getattr(found, f"{name}_square") == pytest.approx(np.mean(part**2), rel=1e-6)


def test_lines():
    """Three places on each of two lines, -fresh and -memory of the averages, and pairs along both parts of fresh:
    differences to f(x), in this order."""
    client, queried = make()
    client.refresh(X, refresh(control()))
    before, rng = len(queried), np.random.default_rng(1)
    mean = {
        "fresh": rng.standard_normal(D),
        "memory": rng.standard_normal(D),
        "statistics": np.array(DesignStatistics()),
    }
    reply = client.update(X, update(control(), mean))
    unit = {name: mean[name] / np.linalg.norm(mean[name]) for name in ("fresh", "memory")}
    places = [X - 0.3 * t * unit[name] for name in ("fresh", "memory") for t in LINE]
    length = 0.02 * math.sqrt(D)
    parts = [part / np.linalg.norm(part) for part in halves(common_rows(control(), D), mean["fresh"])]
    pairs = [X + sign * length * part for part in parts for sign in (1.0, -1.0)]
    expected = np.clip(places, 0, 1)
    np.testing.assert_allclose(queried[before:], [*expected, *pairs], atol=1e-14)
    np.testing.assert_allclose(reply["lines"], [function(p) - function(X) for p in expected], atol=1e-12)
    seen = [function(pairs[k]) - function(pairs[k + 1]) for k in (0, 2)]
    assert reply["pair"] == pytest.approx(seen, abs=1e-12)
    assert np.array_equal(reply["failed"], np.zeros(2 * len(LINE)))


def test_rebuilt():
    """x + length v, v the line that the client itself walked along; bit for bit what was queried there, and clipped."""
    client, queried = make()
    reply = client.refresh(X, refresh(control()))
    before = len(queried)
    client.update(X, update(control(), reply))
    for line, k in ((1, 2), (2, len(LINE) + 2)):
        there = located(client, control(line=line, length=0.3 * LINE[2]))
        assert np.array_equal(there, queried[before + k])
    assert np.array_equal(located(client, control(line=0)), X)
    far = located(client, control(line=1, length=100.0))
    assert far.min() == 0.0
    assert far.max() == 1.0


def test_a_line_that_there_was_not():
    """In the first round no server may speak of a line."""
    client, _ = make()
    with pytest.raises(MessageError, match="there was no line 1"):
        located(client, control(line=1, length=0.1))


def test_who_missed_the_design():
    """Asks x first, and answers like the others; from then on it can work x out."""
    client, queried = make()
    mean = {"fresh": A, "memory": C, "statistics": np.array(DesignStatistics())}
    reply = client.update(X, update(control(), {"x": X, **mean}))
    assert np.array_equal(queried[0], X)
    assert len(queried) == 1 + 2 * len(LINE) + 4
    other, _ = make()
    other.refresh(X, refresh(control()))
    assert np.array_equal(other.update(X, update(control(), mean))["lines"], reply["lines"])
    told = control(line=2, length=0.1)
    assert np.array_equal(located(other, told), located(client, told))


def test_failures_on_the_lines():
    """Places without a value are marked, their difference is 0, and a pair with one of them shows nothing."""
    reply, unit = {}, A / np.linalg.norm(A)
    client, _ = make(lambda u: math.nan if (X - u) @ unit > 0.1 else function(u))
    client.refresh(X, refresh(control()))
    mean = {"fresh": A, "memory": -A, "statistics": np.array(DesignStatistics())}
    reply = client.update(X, update(control(radius=0.1), mean))  # the places are 0.09, 0.3, 0.9; H = 0.49
    assert reply["failed"].tolist() == [0, 1, 1, 0, 0, 0]
    assert np.array_equal(reply["lines"][1:3], np.zeros(2))
    assert reply["lines"][0] != 0.0
    assert reply["pair"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.SPLIT])
def test_no_value_at_x(mode):
    """From the beginning: zeros, no complaint, no say in the lines, and as many queries as planned. After it had
    one: it says that another x failed, but not where the last round began as well, nor then anywhere until it works."""
    broken = [True]
    client, queried = make(lambda u: math.nan if broken[0] else function(u))
    told = control(mode, participants=2, weight=0.5) if mode is Mode.SPLIT else control(mode)
    reply = client.refresh(X, refresh(told))
    assert not np.any(reply["fresh"])
    assert not np.any(reply["memory"])
    assert numbers(reply).failed == 0.0
    answer = client.update(X, update(told, reply))
    assert not np.any(answer["failed"])
    assert not np.any(answer["lines"])
    assert len(queried) == planned(told)
    broken[0] = False
    assert numbers(client.refresh(X, refresh(told))).failed == 0.0
    broken[0] = True
    said = [numbers(client.refresh(x, refresh(told))).failed for x in (X + 0.01, X, X, X + 0.01)]
    assert said == [1.0, 1.0, 0.0, 0.0]
    broken[0] = False
    assert numbers(client.refresh(X, refresh(told))).failed == 0.0
    broken[0] = True
    assert numbers(client.refresh(X + 0.01, refresh(told))).failed == 1.0


def test_somebody_failed():
    """Then nothing is queried: all places are said to have failed, and there is no line to go along."""
    client, queried = make()
    client.refresh(X, refresh(control()))
    before = len(queried)
    mean = {"fresh": A, "memory": A, "statistics": np.array(DesignStatistics(failed=0.2))}
    reply = client.update(X, update(control(), mean))
    assert len(queried) == before
    assert np.array_equal(reply["failed"], np.ones(2 * len(LINE)))
    with pytest.raises(MessageError, match="there was no line 1"):
        located(client, control(line=1, length=0.1))


def test_outliers_are_not_used():
    """A value that is off by 1e6 changes neither this gradient beyond its direction nor any later one: both are
    those of a client that had no value there."""
    first, second = control(), control(used=12, basis=0)

    def spoilt(value):
        count = [0]

        def f(u):
            count[0] += 1
            return value if count[0] == 4 else function(u)

        client, _ = make(f)
        return client.refresh(X, refresh(first)), client.refresh(X, refresh(second))

    for off, failed in zip(spoilt(1e6), spoilt(math.nan), strict=True):
        np.testing.assert_allclose(off["fresh"], failed["fresh"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(off["memory"], failed["memory"], rtol=1e-9, atol=1e-12)
        assert np.linalg.norm(off["memory"]) < 10.0


def test_inward():
    """Of length 1, without what leaves the box at once; zeros where nothing is left; no size is too large or small."""
    x, line = np.array([0.0, 1.0, 0.5, 0.0]), np.array([-3.0, 4.0, 3.0, 4.0])
    assert inward(line, x, True) == pytest.approx([0.0, 0.0, 0.6, 0.8])
    assert inward(line, x, False) == pytest.approx(line / np.sqrt(50))
    assert inward(-line, x, True) == pytest.approx(np.array([3.0, -4.0, -3.0, 0.0]) / np.sqrt(34))
    assert np.array_equal(inward(np.array([-1.0, 1.0]), np.array([0.0, 1.0]), True), np.zeros(2))
    for size in (1e-300, 1e300):
        assert inward(size * np.array([3.0, 4.0]), np.full(2, 0.5), True) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("together", [512, 6, 3])
@pytest.mark.parametrize("failed", [(), (1,), (3, 4, 8, 17)])
def test_parts_of_a_star_are_those_of_the_plain_formula(monkeypatch, together, failed):
    """Points near a face, some clipped, some without a value: the same numbers as by lists of rows, part by part."""
    monkeypatch.setattr(module, "MOST_POINTS", together)
    rng = np.random.default_rng(8)
    x, rows = rng.uniform(0.0, 0.2, D), np.linalg.qr(rng.standard_normal((D, D)))[0]
    found = Design(x, 0.3, rows, lambda points, out: np.clip(points, 0.0, 1.0, out=out))
    points = np.clip(design_points(rows, x, 0.3), 0.0, 1.0)
    assert np.array_equal(found.points, points)
    values, good = rng.standard_normal(D + 1), ~np.isin(np.arange(D + 1), failed)
    count = 2 * math.ceil((D + 1) / (2 * together))
    parts = [[0, *(j for j in range(1, D + 1) if good[j] and (j - 1) % count == k)] for k in range(count)]
    slopes = [fit_slope(points[part] - x, values[part], 1e-8) for part in parts]
    slope = found.slope(values, good)
    np.testing.assert_allclose(slope.gradient, sum(s.gradient for s in slopes), rtol=1e-12, atol=1e-12)
    assert slope.curvature == pytest.approx(np.mean([s.curvature for s in slopes]), rel=1e-12)


def test_memory_of_many_dimensions_is_exact_for_a_bowl():
    """Two designs at two places, each with half of the directions: together they give the gradient at the second."""
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    curvature, minimum, first, second = 1.7, *rng.uniform(size=(3, 8))

    def shown(x, directions):
        gradient = curvature * (x - minimum)
        return Slope((directions @ gradient) @ directions, curvature)

    memory = client_module._CarriedGradient().updated(first, shown(first, basis[:4]), basis[:4], Mode.SHARED)
    memory = memory.updated(second, shown(second, basis[4:]), basis[4:], Mode.SHARED)
    np.testing.assert_allclose(memory.gradient, curvature * (second - minimum), rtol=1e-12)
    anew = memory.updated(second, shown(second, basis[:4]), basis[:4], Mode.SPLIT)
    np.testing.assert_allclose(anew.gradient, shown(second, basis[:4]).gradient)
