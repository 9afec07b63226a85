"""The metric against NumPy: its maps invert each other, and derivatives transform like those of a quadratic."""

import numpy as np
import pytest

from fzoos.surrogates.metric import IDENTITY, Metric


def quadratic(seed=0):
    """A Hessian with eigenvalues 1, 9, 400 and its metric."""
    vectors = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    hessian = vectors @ np.diag([1.0, 9.0, 400.0]) @ vectors.T
    return hessian, Metric.of(hessian)


def test_maps_invert_each_other():
    _, metric = quadratic()
    u = np.random.default_rng(1).standard_normal((5, 3))
    np.testing.assert_allclose(metric.inverse(metric.offsets(u)), u, atol=1e-12)
    np.testing.assert_allclose(metric.inverse_gradient(metric.gradient(u)), u, atol=1e-12)
    np.testing.assert_allclose(metric.inverse_hessian(metric.hessian(np.eye(3))), np.eye(3), atol=1e-12)


def test_curvature_is_the_same_in_all_directions():
    """The Hessian with respect to z is the smallest eigenvalue times the identity, so the longest axis has length 1."""
    hessian, metric = quadratic()
    np.testing.assert_allclose(metric.inverse_hessian(hessian), np.eye(3), atol=1e-10)
    np.testing.assert_allclose(metric.hessian(np.eye(3)), hessian, atol=1e-10)


def test_gradient_by_differences():
    """Of g(z) = f(u(z)), f(u) = u'Au / 2 + b'u with another A than that of the metric."""
    _, metric = quadratic()
    a, b, z, h = np.diag([3.0, 1.0, 2.0]), np.array([1.0, -1.0, 0.5]), np.array([0.3, -0.2, 0.1]), 1e-5

    def g(z):
        u = metric.inverse(z)
        return 0.5 * u @ a @ u + b @ u

    differences = [(g(z + h * e) - g(z - h * e)) / (2 * h) for e in np.eye(3)]
    gradient = a @ metric.inverse(z) + b
    np.testing.assert_allclose(metric.inverse_gradient(gradient), differences, atol=1e-8)
    np.testing.assert_allclose(metric.gradient(np.array(differences)), gradient, atol=1e-6)


@pytest.mark.parametrize("curvature", [np.zeros((2, 2)), np.eye(2), np.diag([1.0, 1.4])])
def test_round_or_unknown_curvature_gives_the_identity(curvature):
    assert Metric.of(curvature).is_identity


def test_small_curvature_counts_as_the_least():
    """Eigenvalues -16 and 0.01 with a least of 4: sizes 16 and 4, so z = (2 u_1, u_2)."""
    metric = Metric.of(np.diag([-16.0, 0.01]), least=4.0)
    lengths = [np.linalg.norm(metric.offsets(u)) for u in np.eye(2)]
    np.testing.assert_allclose(lengths, [2.0, 1.0])


def test_extent():
    """Half widths of the unit ball of z: 1 and 1/10."""
    np.testing.assert_allclose(Metric.of(np.diag([1.0, 100.0])).extent, [1.0, 0.1])
    assert IDENTITY.extent == 1.0


def test_state():
    _, metric = quadratic()
    found = Metric.restored(metric.state())
    assert np.array_equal(found.w, metric.w)
    assert np.array_equal(found.l, metric.l)
    assert Metric.restored(IDENTITY.state()).is_identity
