"""The surrogate of a trust region: posterior, evidence and outliers against computations that share no formula."""

import itertools
import math

import numpy as np
import pytest
import sympy
from scipy.stats import multivariate_normal

from fzoos.surrogates.region import Choice, Polynomial, RegionProcess

NONE, BOWL, QUADRATIC = Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0), Polynomial(200.0, 100.0, 100.0, 101.0)
CENTRE = np.array([0.5, 0.4])
AT = np.array([0.45, 0.62])
LENGTHS, RIDGES = (0.3, 0.3 * 10**0.5, 3.0, 3 * 10**0.5, 30.0), (1e-13, *(10.0**-k for k in (8, 6, 5, 4, 3, 2, 1, 0)))


def data(n=9, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.random((n, dim))
    return points, np.sin(3 * points).sum(axis=1) + points[:, 0] * points[:, -1] + 2.0


def rho2(points, centre=CENTRE):
    return np.mean(np.sum((points - centre) ** 2, axis=1))


U = sympy.symbols("u:2 v:2")


def kernel_of(choice, scale):
    """k(u, v) of the module's head, as an expression: everything below is conditioning on derivatives of it."""
    b, u, v = choice.polynomial, U[:2], U[2:]
    s = (u[0] * v[0] + u[1] * v[1]) / scale
    gap = (u[0] - v[0]) ** 2 + (u[1] - v[1]) ** 2
    bowl = (u[0] ** 2 + u[1] ** 2) * (v[0] ** 2 + v[1] ** 2) / scale**2
    return sympy.exp(-gap / (2 * choice.length**2)) + b.linear * s + b.square * s**2 + b.bowl * bowl


def exact(points, values, choice):
    """mu, grad mu and the posterior covariance of the gradient at AT, dense, with derivatives by sympy."""
    k = kernel_of(choice, rho2(points))
    value = sympy.lambdify(U, k)
    slopes = [sympy.lambdify(U, sympy.diff(k, U[i])) for i in range(2)]
    bends = [[sympy.lambdify(U, sympy.diff(k, U[i], U[2 + j])) for j in range(2)] for i in range(2)]
    u, at = points - CENTRE, AT - CENTRE
    matrix = np.array([[value(*a, *b) for b in u] for a in u]) + choice.ridge * choice.polynomial.unit * np.eye(len(u))
    inverse = np.linalg.inv(matrix)
    mean = inverse.sum(axis=0) @ values / inverse.sum()
    to_value = np.array([value(*at, *b) for b in u])
    to_slope = np.array([[slope(*at, *b) for b in u] for slope in slopes])
    prior = np.array([[bends[i][j](*at, *at) for j in range(2)] for i in range(2)])
    unit = float(bends[0][0](0.0, 0.0, 0.0, 0.0))
    mu = mean + to_value @ inverse @ (values - mean)
    return mu, to_slope @ inverse @ (values - mean), (prior - to_slope @ inverse @ to_slope.T) / unit


@pytest.mark.parametrize("polynomial", [NONE, BOWL, QUADRATIC], ids=("none", "bowl", "quadratic"))
def test_posterior(polynomial):
    """Mean, its gradient and the gradient's covariance, away from the centre, for every kernel there is."""
    points, values = data()
    choice = Choice(0.8, polynomial, 1e-1)
    process = RegionProcess(points, values, CENTRE, choice)
    mu, slope, unknown = exact(points, values, choice)
    assert process(AT)[0] == pytest.approx(mu, rel=1e-8)
    np.testing.assert_allclose(process(AT)[1], slope, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(process.grad_covariance(AT), unknown, rtol=1e-6, atol=1e-9)
    assert process.choice == choice


@pytest.mark.parametrize("polynomial", [NONE, BOWL, QUADRATIC], ids=("none", "bowl", "quadratic"))
def test_second_derivatives_of_the_mean(polynomial):
    """By sympy from the kernel's expression: sum_j alpha_j d^2 k / du^2, alpha from the dense matrix."""
    points, values = data()
    choice = Choice(0.8, polynomial, 1e-4)
    k, u, at = kernel_of(choice, rho2(points)), points - CENTRE, AT - CENTRE
    value = sympy.lambdify(U, k)
    bends = [[sympy.lambdify(U, sympy.diff(k, U[i], U[j])) for j in range(2)] for i in range(2)]
    inverse = np.linalg.inv(
        np.array([[value(*a, *b) for b in u] for a in u]) + choice.ridge * polynomial.unit * np.eye(len(u))
    )
    alpha = inverse @ (values - inverse.sum(axis=0) @ values / inverse.sum())
    expected = [[sum(a * bend(*at, *b) for a, b in zip(alpha, u, strict=True)) for bend in row] for row in bends]
    process = RegionProcess(points, values, CENTRE, choice)
    mean, slope, bend = process.curved(AT)
    np.testing.assert_allclose(bend, expected, rtol=1e-6, atol=1e-8)
    assert mean == process(AT)[0]
    np.testing.assert_array_equal(slope, process(AT)[1])


@pytest.mark.parametrize("polynomial", [NONE, BOWL, QUADRATIC], ids=("none", "bowl", "quadratic"))
def test_gradients_at_many_points(polynomial):
    points, values = data(30, 4)
    process, at = RegionProcess(points, values, points[0], Choice(0.8, polynomial, 1e-6)), points[3:9] + 0.02
    each = np.array([process(x)[1] for x in at])
    np.testing.assert_allclose(process.gradients(at), each, atol=1e-9 * np.max(np.abs(each)))


def test_rounding():
    """What values near the centre differ by beyond a cubic through them, or up to a thousand times as much."""
    points, values = data(40, 3)
    process, steps = RegionProcess(points, values, points[0]), np.linspace(-1.0, 1.0, 200)
    line = np.array([process(points[0] + 1e-4 * step)[0] for step in steps])
    error = np.std(line - np.polyval(np.polyfit(steps, line, 3), steps))
    assert error < process.rounding < 1e3 * error


def log_likelihood(points, values, choice):
    """Of the values under N(m, a^2 K), largest over m and a: SciPy's density at the closed form of both."""
    u, scale, b = points - CENTRE, rho2(points), choice.polynomial
    s = u @ u.T / scale
    squares = np.sum((points[:, None] - points) ** 2, axis=-1)
    k = np.exp(-squares / (2 * choice.length**2)) + b.linear * s + b.square * s**2
    k = k + b.bowl * np.outer(np.diag(s), np.diag(s)) + choice.ridge * b.unit * np.eye(len(u))
    whitened = np.linalg.solve(np.linalg.cholesky(k), np.column_stack([np.ones(len(u)), values]))
    mean = np.linalg.lstsq(whitened[:, :1], whitened[:, 1])[0][0]
    amplitude = np.mean((whitened[:, 1] - mean * whitened[:, 0]) ** 2)
    return multivariate_normal(np.full(len(u), mean), amplitude * k, allow_singular=True).logpdf(values)


@pytest.mark.parametrize(
    ("function", "noise"), [("ripple", 0.0), ("ripple", 0.3), ("bowl", 0.05), ("quadratic", 0.02), ("slope", 0.5)]
)
def test_the_choice_has_maximum_evidence(function, noise):
    """The evidence of all 135 choices by brute force; those of the smallest ridge are left to the arithmetic.

    Ties within 1e-4 may go either way.
    """
    points = np.random.default_rng(1).random((14, 2))
    u = points - CENTRE
    values = {
        "ripple": np.sin(9 * points[:, 0]) + np.cos(7 * points[:, 1]),
        "bowl": np.sum(u**2, axis=1) + u[:, 0],
        "quadratic": u[:, 0] ** 2 - 3 * u[:, 1] ** 2 + u[:, 0] * u[:, 1],
        "slope": u @ [3.0, 1.0],
    }[function]
    values = values + noise * np.random.default_rng(2).standard_normal(14)
    found = RegionProcess(points, values, CENTRE).choice
    rho = math.sqrt(rho2(points))
    tried = [Choice(rho * length, b, r) for length, b, r in itertools.product(LENGTHS, (NONE, BOWL, QUADRATIC), RIDGES)]
    best = max(log_likelihood(points, values, choice) for choice in tried if choice.ridge > 1e-9)
    assert any(np.allclose(found.length, c.length) and found[1:] == c[1:] for c in tried)
    if found.ridge > 1e-9:
        assert log_likelihood(points, values, found) == pytest.approx(best, abs=1e-4)
    else:
        assert function == "ripple"
        assert noise == 0.0


def test_a_bowl_from_few_points():
    """d + 1 points in d = 20: what their values have in common is a bowl. Where the slope's coordinates have mean zero
    both are found: at the minimum most of the slope is gone (a plane would keep all of it)."""
    dim = 20
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, dim)))[0]
    x = np.full(dim, 0.5)
    minimum = x + 0.1 * np.tile([1.0, -1.0], 10) @ rows
    points = np.vstack([x, x + 0.1 * math.sqrt(dim) * rows])
    process = RegionProcess(points, 7 * np.sum((points - minimum) ** 2, axis=1) - 3, x)
    assert process.choice.polynomial == BOWL
    value, gradient = process(minimum)
    assert value == pytest.approx(-3.0, abs=0.14)  # a tenth of the fall, 7 * 20 * 0.1^2
    assert np.linalg.norm(gradient) < 0.25 * np.linalg.norm(process(x)[1])


@pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0.0), (-3.0, 5.0), (1e-3, 1e3)])
def test_units(scale, shift):
    """y -> a y + c: the same choice and covariance, mean and gradient a times as large."""
    points, values = data()
    plain, scaled = RegionProcess(points, values, CENTRE), RegionProcess(points, scale * values + shift, CENTRE)
    assert plain.choice == scaled.choice
    # shifting by 1e3 costs 1e-13 / 1e-3 of the digits, and -y has other rounding
    assert scaled(AT)[0] - shift == pytest.approx(scale * plain(AT)[0], rel=1e-5)
    np.testing.assert_allclose(scaled(AT)[1], scale * plain(AT)[1], rtol=1e-4)
    np.testing.assert_array_equal(scaled.grad_covariance(AT), plain.grad_covariance(AT))


def test_sigma():
    """A slope with noise of 0.1 at 200 points: the evidence has it within a quarter (the ridges are a decade apart);
    none without."""
    rng = np.random.default_rng(0)
    points = rng.random((200, 2))
    values = points @ [1.0, 2.0]
    assert RegionProcess(points, values + 0.1 * rng.standard_normal(200), CENTRE).sigma == pytest.approx(0.1, rel=0.25)
    assert RegionProcess(points[:30], values[:30], CENTRE).sigma < 1e-3


def misfit(points, values, choice, without):
    """(y - m)^T K^-1 (y - m) of the points that are left, about the mean m that all of them gave, by refitting."""
    left = [k for k in range(len(points)) if k not in without]
    u, scale, b = points - CENTRE, rho2(points), choice.polynomial
    s = u @ u.T / scale
    k = np.exp(-np.sum((points[:, None] - points) ** 2, axis=-1) / (2 * choice.length**2))
    k = k + b.linear * s + b.square * s**2 + b.bowl * np.outer(np.diag(s), np.diag(s))
    k = k + choice.ridge * b.unit * np.eye(len(u))
    inverse = np.linalg.inv(k)
    rest = (values - inverse.sum(axis=0) @ values / inverse.sum())[left]
    return rest @ np.linalg.solve(k[np.ix_(left, left)], rest)


def by_refitting(points, values, choice):
    """The rule of `outliers`, with a new fit for every point that might leave."""
    out, found, whole = [], [], misfit(points, values, choice, [])
    for k in (1, 2, 3):
        left = {j: misfit(points, values, choice, [*out, j]) for j in range(len(points)) if j not in out}
        out.append(min(left, key=left.get))
        found = list(out) if left[out[-1]] / whole < 0.1**k else found
    return found


@pytest.mark.parametrize("sizes", [(), (1.0,), (1.0, -3.0), (1.0, -3.0, 9.0), (0.2,)])
@pytest.mark.parametrize("seed", range(2))
def test_outliers(sizes, seed):
    """The points without which refitting leaves less than 10^-k of the misfit; the largest planted one comes first."""
    rng = np.random.default_rng(seed)
    points = rng.random((25, 2))
    values = np.sum((points - 0.3) ** 2, axis=1) + 0.02 * rng.standard_normal(25)
    wrong = [4, 11, 0][: len(sizes)]
    values[wrong] += sizes
    choice = Choice(1.0, QUADRATIC, 1e-3)
    found = RegionProcess(points, values, CENTRE, choice).outliers()
    assert found == by_refitting(points, values, choice)
    assert sizes != () or found == []
    assert len(found) <= 3
    if len(sizes) == 3:
        assert found[0] == 0
        assert set(found) <= {0, 4, 11}


def test_no_outliers_in_noise():
    """Normal noise, constants and two points: nobody is accused."""
    rng = np.random.default_rng(5)
    points = rng.random((30, 2))
    for values in (rng.standard_normal(30), points @ [1.0, 2.0], points @ [1.0, 2.0] + 0.1 * rng.standard_normal(30)):
        assert RegionProcess(points, values, CENTRE).outliers() == []


def test_without_information():
    """Constant values, one point, and points that are all the same: a mean that is theirs, and no slope."""
    points, _ = data()
    for p, y in ((points, np.full(9, 3.0)), (points[:1], np.array([3.0])), (points[[0] * 4], np.full(4, 3.0))):
        value, slope = RegionProcess(p, y, CENTRE)(AT)
        assert value == pytest.approx(3.0)
        np.testing.assert_allclose(slope, 0.0, atol=1e-12)


def test_plain():
    """For labels: no polynomial, a ridge of 1e-8, and the labels come back."""
    points, labels = data()[0], np.array([0.0, 0, 0, 0, 1, 0, 0, 0, 1])
    process = RegionProcess(points, labels, CENTRE, plain=True)
    assert process.choice[1:] == (NONE, 1e-8)
    np.testing.assert_allclose([process(p)[0] for p in points], labels, atol=1e-3)
