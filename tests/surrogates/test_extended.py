"""A surrogate that takes more points: everything it says, against dense matrices of all points at once."""

import numpy as np
import pytest

from fzoos.surrogates.region import Choice, Polynomial, RegionProcess

NONE, BOWL, QUADRATIC = Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0), Polynomial(200.0, 100.0, 100.0, 101.0)
CENTRE, AT, FIRST = np.array([0.5, 0.4]), np.array([0.45, 0.62]), 9


def data(n=14):
    points = np.random.default_rng(0).random((n, 2))
    return points, np.sin(3 * points).sum(axis=1) + points[:, 0] * points[:, 1] + 2.0


def dense(points, choice):
    """k(u, v) as the head of `region` has it, with rho of the first points: those that the scale was chosen with."""
    scale, b = np.mean(np.sum((points[:FIRST] - CENTRE) ** 2, axis=1)), choice.polynomial

    def kernel(u, v):
        s, gap = u @ v / scale, u - v
        return (
            np.exp(-gap @ gap / (2 * choice.length**2))
            + b.linear * s
            + b.square * s**2
            + b.bowl * (u @ u) * (v @ v) / scale**2
        )

    u = points - CENTRE
    matrix = np.array([[kernel(p, q) for q in u] for p in u]) + choice.ridge * b.unit * np.eye(len(u))
    return matrix, lambda x: np.array([kernel(x - CENTRE, q) for q in u])


@pytest.mark.parametrize("polynomial", [NONE, BOWL, QUADRATIC], ids=("none", "bowl", "quadratic"))
@pytest.mark.parametrize("parts", [(5,), (1, 1, 3)], ids=str)
def test_the_posterior_is_that_of_all_points(polynomial, parts):
    """Mean, amplitude, its gradient by differences, its bend, what is left unknown, and the diagonal of K^-1."""
    (points, values), choice = data(), Choice(0.8, polynomial, 1e-3)
    process = RegionProcess(points[:FIRST], values[:FIRST], CENTRE, choice)
    process.outliers()  # which makes the diagonal that grows
    before, count = process, FIRST
    alone = before(AT)[0]
    for part in parts:
        process = process.extended(points[count : count + part], values[count : count + part])
        count += part
    matrix, row = dense(points, choice)
    inverse = np.linalg.inv(matrix)
    mean = inverse.sum(axis=0) @ values / inverse.sum()
    alpha = inverse @ (values - mean)

    def mu(x):
        return mean + row(x) @ alpha

    h, axes = 1e-5, np.eye(2)
    slope = np.array([(mu(AT + h * e) - mu(AT - h * e)) / (2 * h) for e in axes])
    assert process(AT)[0] == pytest.approx(mu(AT), rel=1e-9)
    np.testing.assert_allclose(process(AT)[1], slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(process.gradients(AT[None])[0], process(AT)[1], rtol=1e-9)
    bend = [(process(AT + h * e)[1] - process(AT - h * e)[1]) / (2 * h) for e in axes]
    np.testing.assert_allclose(process.curved(AT)[2], bend, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(process._inverse_diagonal(), inverse.diagonal(), rtol=1e-7)
    sigma = np.sqrt((values - mean) @ alpha / 14 * choice.ridge * polynomial.unit)
    assert process.sigma == pytest.approx(sigma, rel=1e-7)
    to_slope = np.array([(row(AT + h * e) - row(AT - h * e)) / (2 * h) for e in axes])
    fresh = RegionProcess(points[:FIRST], values[:FIRST], CENTRE, choice)
    few, _ = dense(points[:FIRST], choice)
    unit = 1.0 / choice.length**2 + polynomial.linear / process.rho2
    gained = to_slope @ inverse @ to_slope.T - to_slope[:, :FIRST] @ np.linalg.inv(few) @ to_slope[:, :FIRST].T
    np.testing.assert_allclose(
        fresh.grad_covariance(AT) - process.grad_covariance(AT), gained / unit, rtol=1e-3, atol=1e-6
    )
    assert before(AT)[0] == alone
    assert process.choice == choice


def test_values_that_contradict_it():
    """Three standard deviations of what it expects there, which is more where it knows less."""
    points, values = data()
    choice = Choice(0.8, NONE, 1e-3)
    process = RegionProcess(points[:13], values[:13], CENTRE, choice)
    matrix, row = dense(points[:13], choice)
    inverse = np.linalg.inv(matrix)
    mean = inverse.sum(axis=0) @ values[:13] / inverse.sum()
    amplitude = (values[:13] - mean) @ inverse @ (values[:13] - mean) / 13
    near = row(points[13])
    expected = mean + near @ inverse @ (values[:13] - mean)
    deviation = np.sqrt(amplitude * (1.0 + choice.ridge - near @ inverse @ near))
    assert process.extended(points[13:], np.array([expected + 2.9 * deviation])) is not None
    assert process.extended(points[13:], np.array([expected + 3.1 * deviation])) is None
    assert process.extended(points[13:], np.array([expected - 3.1 * deviation])) is None


def test_an_outlier():
    """Found before and after points are added, as it is with all of them at once."""
    points, values = data(40)
    values += 0.1 * np.random.default_rng(1).standard_normal(40)
    values[25] += 3.0
    whole = RegionProcess(points, values, CENTRE, Choice(0.8, BOWL, 1e-3))
    part = RegionProcess(points[:38], values[:38], CENTRE, Choice(0.8, BOWL, 1e-3))
    assert part.outliers() == whole.outliers() == [25]
    assert part.extended(points[38:], values[38:]).outliers() == [25]
