"""Adam and SGD against PyTorch's (SPEC: "Adam, restarted each round")."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fzoos import SGD, Adam


def gradients(steps: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    scales = np.logspace(-6, 6, dim)  # eps matters for the smallest
    g = rng.standard_normal((steps, dim)) * scales
    g[:, 0] = 0.0  # a coordinate that never moves
    return g


def ours(optimizer, gradients: np.ndarray) -> np.ndarray:
    x, path = np.full(gradients.shape[1], 0.5), []
    state = optimizer.init(gradients.shape[1])
    for g in gradients:
        state, step = optimizer.step(state, g)
        x = x - step
        path.append(x)
    return np.array(path)


def theirs(make, gradients: np.ndarray) -> np.ndarray:
    x = torch.full((gradients.shape[1],), 0.5, dtype=torch.float64, requires_grad=True)
    optimizer, path = make([x]), []
    for g in gradients:
        x.grad = torch.as_tensor(g.copy())
        optimizer.step()
        path.append(x.detach().numpy().copy())
    return np.array(path)


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({}, {"lr": 0.01}),
        (
            {"learning_rate": 0.3, "beta1": 0.5, "beta2": 0.8, "eps": 1e-3},
            {"lr": 0.3, "betas": (0.5, 0.8), "eps": 1e-3},
        ),
        ({"beta1": 0.0, "beta2": 0.0}, {"lr": 0.01, "betas": (0.0, 0.0)}),
    ],
)
def test_adam(settings, reference):
    g = gradients(20, 7)
    expected = theirs(lambda x: torch.optim.Adam(x, **reference), g)
    np.testing.assert_allclose(ours(Adam(**settings), g), expected, rtol=1e-12, atol=1e-13)


def test_sgd():
    g = gradients(20, 7)
    expected = theirs(lambda x: torch.optim.SGD(x, lr=0.2), g)
    np.testing.assert_allclose(ours(SGD(0.2), g), expected, rtol=1e-12, atol=1e-12)


def test_a_step_leaves_the_old_state_alone():
    # DESIGN: state is a plain record, so that a run can be resumed from it: a step from the same state is the same.
    adam = Adam(0.1)
    first = adam.step(adam.init(2), np.array([1.0, -2.0]))[0]
    again = [adam.step(first, np.array([0.5, 0.5]))[1] for _ in range(2)]
    np.testing.assert_array_equal(*again)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Adam(0.0), ValueError, "learning_rate must be positive"),
        (lambda: Adam("fast"), TypeError, "learning_rate must be a number, got 'fast'"),
        (lambda: Adam(beta1=1.0), ValueError, "beta1 must be below 1"),
        (lambda: Adam(beta2=1.5), ValueError, "beta2"),
        (lambda: Adam(eps=0.0), ValueError, "eps"),
        (lambda: SGD(np.inf), ValueError, "learning_rate"),
    ],
)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
