"""FedLBFGS: its equations against dense matrices and by hand, its queries and bytes, and what it reaches."""

import numpy as np
import pytest

from fzoos import FedLBFGS, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fedlbfgs import two_loops
from fzoos.federation.client import Client
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory
from fzoos_experiments.tasks import Quadratic

T, LAMBDA, DELTA = 3, 1e-3, 0.15


def server(dim, **settings):
    return FedLBFGS(**settings).server(dim)


def walk(half, gradient, x, rounds):
    """x_0, ..., x_R and the states, with exact gradients."""
    states = [half.start(np.asarray(x, dtype=float))]
    for r in range(1, rounds + 1):
        states.append(half.step(states[-1], {"g": gradient(states[-1]["x"])}, r, seed=0))
    return [state["x"] for state in states], states


def dense(s, y):
    """B^{-1} of Eq. (4) and (5) as a matrix."""
    identity = np.eye(s.shape[1])
    inverse = s[-1] @ y[-1] / (y[-1] @ y[-1]) * identity
    for a, b in zip(s, y, strict=True):
        rho = 1 / (a @ b)
        inverse = (identity - rho * np.outer(a, b)) @ inverse @ (identity - rho * np.outer(b, a)) + rho * np.outer(a, a)
    return inverse


@pytest.mark.parametrize("pairs", [1, 5])
def test_two_loops_against_the_matrix(pairs):
    """The recursion gives what the matrix of the BFGS formula gives, which maps the newest y to its s."""
    rng = np.random.default_rng(pairs)
    root = rng.standard_normal((6, 6))
    s = rng.standard_normal((pairs, 6))
    y, g = s @ (root @ root.T + np.eye(6)), rng.standard_normal(6)
    assert two_loops(s, y, g) == pytest.approx(dense(s, y) @ g, rel=1e-9, abs=1e-9)
    assert two_loops(s, y, y[-1]) == pytest.approx(s[-1], rel=1e-9, abs=1e-9)


def test_the_first_steps_by_hand():
    """F = 2 (u_1 - 0.5)^2 + (u_2 - 0.5)^2 / 2 from (0.8, 0.9), H = diag(4, 1).

    g_1 = (1.2, 0.4): the first step is 0.15 sqrt(2) along -g_1. Then s.y = s.Hs, and the second step is B^{-1} of one
    pair times g_2, here in the closed form of the formula multiplied out.
    """
    hessian, x0 = np.array([4.0, 1.0]), np.array([0.8, 0.9])
    xs, _ = walk(server(2), lambda x: hessian * (x - 0.5), x0, 2)
    g1 = np.array([1.2, 0.4])
    s = -DELTA * np.sqrt(2) * g1 / np.sqrt(1.2**2 + 0.4**2)
    assert xs[1] == pytest.approx(x0 + s, abs=1e-15)

    g2, y = hessian * (x0 + s - 0.5), hessian * s
    sy, yy, sg, yg = (float(np.sum(a * b)) for a, b in ((s, y), (y, y), (s, g2), (y, g2)))
    gamma = sy / yy
    p = -(gamma * (g2 - y * sg / sy) + s * (sg / sy - gamma * (yg - yy * sg / sy) / sy))
    assert np.linalg.norm(p) < DELTA * np.sqrt(2)  # so that it is not shortened
    assert xs[2] == pytest.approx(x0 + s + p, abs=1e-14)


def test_memory():
    """Steps rest on the last m pairs: the dense formula with them gives the steps of six rounds, m = 2."""
    hessian, target = np.array([5.0, 1.0, 0.3, 2.0]), np.array([0.45, 0.55, 0.5, 0.4])
    xs, states = walk(server(4, memory=2, reach=10.0), lambda x: hessian * (x - target), np.full(4, 0.48), 6)
    assert states[-1]["points"].shape == states[-1]["gradients"].shape == (2, 4)
    for r in range(3, 6):
        s = np.diff(xs[r - 2 : r + 1], axis=0)
        expected = xs[r] - dense(s, s * hessian) @ (hessian * (xs[r] - target))
        assert xs[r + 1] == pytest.approx(np.clip(expected, 0, 1), abs=1e-9)


def test_pairs_without_curvature_are_left_out():
    """F falls along a line (y = 0), and along a hill (s.y < 0): steps of Delta along -g."""
    slope = np.array([3.0, -4.0])
    xs, _ = walk(server(2, reach=0.05), lambda x: slope, [0.5, 0.5], 3)
    assert np.diff(xs, axis=0) == pytest.approx(np.tile(-0.05 * np.sqrt(2) * slope / 5, (3, 1)), abs=1e-15)
    xs, _ = walk(server(1, reach=0.05), lambda x: -(x - 0.5), [0.6], 3)
    assert np.ravel(xs) == pytest.approx([0.6, 0.65, 0.7, 0.75], abs=1e-15)


def test_delta_after_steps_too_far():
    """g before and after a step s: F rose where (before + after).s > 0. Delta is then half of the step, and doubles up
    to Delta_0 while F falls.

    By hand, d = 1, Delta_0 = 0.2, from 0.5. g = 1: x = 0.3. g = -4: (1 - 4)(-0.2) > 0, Delta = 0.1, the secant goes
    back by 4 * 0.2 / 5 = 0.16, of which 0.1 are left. g = -3, -3 - 4 < 0: Delta = 0.2, the pair (0.1, 1) is taken for a
    step of 0.3, cut to 0.2. g = -2: Delta stays 0.2.
    """
    gradients = iter([1.0, -4.0, -3.0, -2.0])
    xs, states = walk(server(1, reach=0.2, memory=1), lambda x: np.array([next(gradients)]), [0.5], 4)
    assert np.ravel([state["delta"] for state in states]) == pytest.approx([0.2, 0.2, 0.1, 0.2, 0.2], abs=1e-15)
    assert np.ravel(xs) == pytest.approx([0.5, 0.3, 0.4, 0.6, 0.8], abs=1e-15)


def test_active_bounds():
    """F = (5 (u_1 + 0.4)^2 + (u_2 - 0.5)^2 + (u_3 - 1.3)^2 + (u_1 - u_2)^2 / 2): at the bounds u_1 = 0 and u_3 = 1
    gradients point outwards. x stays there exactly, and the rest is minimised: u_2 = 1/3."""

    def gradient(u):
        return np.array([10 * (u[0] + 0.4) + u[0] - u[1], 2 * (u[1] - 0.5) - (u[0] - u[1]), 2 * (u[2] - 1.3)])

    xs, _ = walk(server(3), gradient, [0.0, 0.9, 1.0], 6)
    assert all(x[0] == 0.0 and x[2] == 1.0 for x in xs)
    assert np.linalg.norm(xs[1] - xs[0]) == pytest.approx(DELTA * np.sqrt(3))  # all of the length in what is free
    assert xs[2][1] < xs[1][1] < xs[0][1]
    assert xs[-1] == pytest.approx([0.0, 1 / 3, 1.0], abs=1e-6)


# The client half


def client(f, dim, *, on_failure="raise", **settings):
    algorithm = FedLBFGS(**settings)
    evaluator = Evaluator(f, Box.of((0, 1), dim), on_failure=on_failure)
    context = ClientContext(evaluator, Trajectory(dim), np.random.default_rng(0), dim, 1, algorithm.projected)
    return Client(algorithm.client(context))


def update(x, seed=1, **settings):
    return Message("update", 1, server(len(x), **settings).start(np.asarray(x, dtype=float)), {"seed": seed})


def test_the_gradient_of_a_client():
    """d + 1 queries, however large T is: x, and x with one coordinate moved by lambda either way. For a quadratic the
    difference is the slope halfway."""
    asked, weights, x = [], np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([0.2, 0.5, 0.5, 0.7, 0.3])
    reply = client(lambda u: asked.append(u) or float(weights @ u**2), 5).handle(update(x))
    moved = np.array(asked) - x
    assert len(asked) == 6
    assert np.array_equal(moved[0], np.zeros(5))
    signs = np.sign(moved.sum(axis=0))
    assert sorted(map(tuple, np.sign(moved[1:]))) == sorted(map(tuple, np.diag(signs)))  # in any order
    assert np.sum(moved, axis=0) == pytest.approx(LAMBDA * signs, abs=1e-15)
    assert set(signs) == {-1.0, 1.0}
    assert reply.arrays["g"] == pytest.approx(2 * weights * (x + signs * LAMBDA / 2), abs=1e-10)
    assert set(reply.arrays) == {"g"}
    assert reply.scalars["queries"] == 6


@pytest.mark.parametrize("x", [0.0, 0.9996])
def test_differences_at_the_border(x):
    """Nearer than lambda to a bound all differences point inwards; a linear function has its slopes whatever they
    do."""
    asked, slopes = [], np.linspace(-2, 3, 8)
    reply = client(lambda u: asked.append(u) or float(slopes @ u), 8).handle(update(np.full(8, x)))
    inwards = 1.0 if x < 0.5 else -1.0
    assert np.sum(np.array(asked) - x, axis=0) == pytest.approx(np.full(8, inwards * LAMBDA), abs=1e-15)
    assert reply.arrays["g"] == pytest.approx(slopes, abs=1e-9)


def test_failed_queries():
    """A slope whose query failed is the last one that was known, 0 before; where x itself failed, all are."""
    bad = {"all": False, "second": True}

    def failing(u):
        return float("nan") if bad["all"] or (bad["second"] and u[1] != 0.5) else float(u @ [1.0, 2.0, 3.0])

    made = client(failing, 3, on_failure="skip")
    assert made.handle(update(np.full(3, 0.5))).arrays["g"] == pytest.approx([1.0, 0.0, 3.0], abs=1e-9)
    bad["second"] = False
    assert made.handle(update(np.full(3, 0.5))).arrays["g"] == pytest.approx([1.0, 2.0, 3.0], abs=1e-9)
    bad["all"] = True
    reply = made.handle(update(np.full(3, 0.5)))
    assert reply.arrays["g"] == pytest.approx([1.0, 2.0, 3.0], abs=1e-9)
    assert reply.scalars["queries"] == 3 * 4


def test_numbers_that_lead_nowhere():
    """A message may hold any number: s.y / y.y = 1e260 times g = 1e100 is no step, and ends with a word."""
    half, x = server(2, memory=1), np.full(2, 0.5)
    state = half.start(x) | {"points": np.array([[-1e100, 0.5]]), "gradients": np.array([[-1e-160, 1e100]])}
    with pytest.raises(MessageError, match="the numbers of the last round lead to no point"):
        half.step(state, {"g": np.array([0.0, 1e100])}, 1, 0)


# Runs


def test_the_quadratic():
    """d = 300, 5 clients: two gradients, 3 010 queries, end within lambda / 2 of the minimum in each coordinate, where
    F - F* = 400 (lambda / 2)^2 / 10 = 1e-5, however much the clients differ."""
    task, values = Quadratic(heterogeneity=50.0, seed=3), []
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=FedLBFGS(),
        rounds=3,
        vectorized=True,
        monitor=lambda x: values.append(task.value(x) - task.minimum) or 0.0,
        seed=3,
    )
    assert [record.queries for record in result.history] == [1505, 3010, 4515]
    assert values[0] > 0.1
    assert values[1] < 2e-5
    assert values[2] == pytest.approx(400 * (LAMBDA / 2) ** 2 / 10, rel=0.01)
    assert result.bytes_up == 3 * 5 * 8 * (300 + 1)
    assert result.bytes_down == 5 * 8 * (21 * 300 + 2) + 2 * 5 * 8 * (300 + 1)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"memory": 0}, r"memory \(m\) must be at least 1, got 0"),
        ({"difference": 0.0}, r"difference \(lambda\) must be positive, got 0.0"),
        ({"difference": 0.6}, r"difference \(lambda\) must be a finite number in \[0, 0.5\], got 0.6"),
        ({"reach": -1.0}, r"reach \(Delta_0\) must be positive, got -1.0"),
    ],
)
def test_settings(settings, reason):
    """What cannot be is refused by name."""
    with pytest.raises(ValueError, match=reason):
        FedLBFGS(**settings)
