"""The array operations that differ between NumPy and PyTorch."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch
from scipy.spatial.distance import cdist

from fzoos._util import arrays
from fzoos._util.arrays import cos_in_place, invert_lower, namespace, sin, squared_distances, to_device, to_numpy
from fzoos._util.buffer import Buffer
from fzoos._util.panels import panels, row_squares

EPS = np.finfo(float).eps


def test_the_same_lines_run_on_numpy_and_torch(device):
    # DESIGN "Arrays": written once against the array API, float64 by default.
    x = to_device(np.array([1.0, 2.0]), device)
    assert isinstance(x, np.ndarray if device is None else torch.Tensor)
    assert "float64" in str(x.dtype)
    back = to_numpy(namespace(x).sum(x * x))
    assert isinstance(np.asarray(back), np.ndarray)
    assert back == 5.0


def test_squared_distances_against_scipy(device):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 5)), rng.standard_normal((4, 5))
    s = to_numpy(squared_distances(to_device(x, device), to_device(y, device)))
    np.testing.assert_allclose(s, cdist(x, y, "sqeuclidean"), rtol=1e-13)


def test_squared_distances_keep_their_digits_far_from_the_origin(device):
    # SPEC "How uncertain": "centring matters: without it the cancellation eats the digits". The points are 0.9 + k/2^40
    # in 300 coordinates: |x|^2 is about 243, so an uncentred product has an absolute error of 1e-14 or more, while the
    # distances are below 300 * (100/2^40)^2 = 2.5e-18. The steps k/2^40 are exact, so the distances are known exactly.
    rng = np.random.default_rng(1)
    k = rng.integers(0, 100, (6, 300))
    base = round(0.9 * 2**40)  # a multiple of the step: every coordinate is a float exactly
    x = (base + k) / 2**40
    exact = np.array([[sum((int(a) - int(b)) ** 2 for a, b in zip(p, q, strict=True)) for q in k] for p in k]) / 2.0**80
    s = to_numpy(squared_distances(to_device(x, device), to_device(x, device)))
    # What remains is the rounding of the mean, at most half an ulp of 0.9 beside steps of 2^-40.
    np.testing.assert_allclose(s, exact, atol=1e-3 * exact.max())
    assert np.all(s >= 0.0)


def test_squared_distances_are_never_negative(device):
    # Rounding makes some distances of a point to itself negative, and Matern-5/2 takes their square root.
    x = to_device(np.random.default_rng(2).uniform(size=(60, 40)), device)
    s = to_numpy(squared_distances(x, x))
    assert s.min() == 0.0
    np.testing.assert_allclose(np.diag(s), 0.0, atol=1e-13)


@pytest.mark.parametrize("fast", [True, False])
def test_cos_and_sin_against_mpmath(fast, monkeypatch):
    # The tangent form has its poles at odd multiples of pi: test those, their neighbours, and large angles.
    monkeypatch.setattr(arrays, "_FAST_TAN", fast)
    poles = np.array([k * math.pi for k in (-3, -1, 1, 3, 5, 101)])
    x = np.concatenate([poles, np.nextafter(poles, 1e9), np.nextafter(poles, -1e9), poles + 1e-8, [0.0, 1e-300, -0.0]])
    x = np.concatenate([x, np.random.default_rng(0).uniform(-200, 200, 500)])
    for ours, theirs in ((cos_in_place, mpmath.cos), (sin, mpmath.sin)):
        expected = np.array([float(theirs(mpmath.mpf(float(v)))) for v in x])
        np.testing.assert_allclose(ours(x.copy()), expected, rtol=0, atol=4 * EPS)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("amplitude", [1.0, 0.25])
def test_cos_in_place_of_any_layout(fast, amplitude, monkeypatch):
    monkeypatch.setattr(arrays, "_FAST_TAN", fast)
    whole = np.random.default_rng(0).uniform(-9, 9, (150, 130))  # more than one block of the tangent form
    for view in (np.s_[:, :], np.s_[::2, ::3], np.s_[:0]):
        for x in (whole.copy()[view], whole.copy().T[view]):
            before = x.copy()
            assert cos_in_place(x, amplitude) is x
            np.testing.assert_allclose(x, amplitude * np.cos(before), atol=4 * EPS)


def test_invert_lower(device):
    rng = np.random.default_rng(2)
    for n in (1, 6, 33, 200):  # below and above the size at which the matrix is halved
        factor = np.tril(rng.standard_normal((n, n))) / np.sqrt(n) + 4 * np.eye(n)
        inverse = to_numpy(invert_lower(to_device(factor, device)))
        np.testing.assert_allclose(inverse, scipy.linalg.solve_triangular(factor, np.eye(n), lower=True), atol=1e-14)
        np.testing.assert_array_equal(np.triu(inverse, 1), 0.0)


def test_square_buffer_grows_at_its_corner(device):
    buffer = Buffer(to_device(np.empty(0), device))
    expected = np.zeros((0, 0))
    for step, rows in enumerate([1, 14, 1, 1, 40, 0, 3], start=1):  # the storage: 1, 30, 114 rows
        expected = np.pad(expected, (0, rows))
        n = len(expected) - rows
        matrix = buffer.grow(rows)
        np.testing.assert_array_equal(to_numpy(matrix), expected)
        matrix[n:, :] = step
        expected[n:, :] = step
        assert buffer.rows == len(expected)
    np.testing.assert_array_equal(to_numpy(buffer.array), expected)


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (37, 100_000), (1000, 700), (9, 4096)])
def test_panels_cover_all_rows_once_and_squares_are_those_of_the_whole(shape):
    x = np.random.default_rng(1).standard_normal(shape)
    covered = [row for part in panels(*shape) for row in range(part.start, part.stop)]
    assert covered == list(range(shape[0]))
    assert np.array_equal(row_squares(x), np.sum(x * x, axis=1))
    assert np.array_equal(row_squares(x[::2]), np.sum(x[::2] * x[::2], axis=1))
