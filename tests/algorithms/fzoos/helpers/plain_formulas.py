"""The formulas of Gaussian processes and Fourier features, once more, in plain NumPy."""

import numpy as np
from spied_federation import NOISE, D, M

from fzoos import Matern52


def kernel_and_slope(kernel, s):
    """kappa(s) and 2 kappa'(s) for SPEC's two kernels."""
    length = kernel.length_scale
    if isinstance(kernel, Matern52):
        a = np.sqrt(5 * s) / length
        return (1 + a + a**2 / 3) * np.exp(-a), -5 / (3 * length**2) * (1 + a) * np.exp(-a)
    k = np.exp(-s / (2 * length**2))
    return k, -k / length**2


def gram(kernel, x):
    s = np.sum((x[:, None, :] - x[None, :, :]) ** 2, axis=2)
    return kernel_and_slope(kernel, s)[0] + NOISE * np.eye(len(x))


def gp_gradient(kernel, x, y, at):
    """grad mu(x) = sum_j alpha_j grad_x k(x, x_j), y standardised and undone."""
    alpha = np.linalg.solve(gram(kernel, x), (y - y.mean()) / y.std())
    slope = kernel_and_slope(kernel, np.sum((at - x) ** 2, axis=1))[1]
    return y.std() * ((alpha * slope) @ (at - x))


def gp_trace(kernel, x, at):
    """The trace of grad grad' k(x, x) - J^T (K + sigma^2 I)^{-1} J, with J written out."""
    jacobian = kernel_and_slope(kernel, np.sum((at - x) ** 2, axis=1))[1][:, None] * (at - x)
    prior = -kernel_and_slope(kernel, np.zeros(1))[1][0] * D
    return prior - np.trace(jacobian.T @ np.linalg.solve(gram(kernel, x), jacobian)), prior


def feature_weights(features, x, y):
    """w = scale Phi (Phi^T Phi + sigma^2 I)^{-1} y, Phi of shape (M, n)."""
    phi = np.sqrt(2 / M) * np.cos(features.frequencies @ x.T + features.phases[:, None])
    return y.std() * phi @ np.linalg.solve(phi.T @ phi + NOISE * np.eye(len(x)), (y - y.mean()) / y.std())


def feature_gradient(features, w, at):
    """grad phi(x)^T w."""
    return -np.sqrt(2 / M) * features.frequencies.T @ (np.sin(features.frequencies @ at + features.phases) * w)


def nearest(x, y, at, count):
    if count is None:
        return x, y
    index = np.argsort(np.sum((x - at) ** 2, axis=1))[:count]
    return x[index], y[index]
