"""SPEC "One loop, five algorithms": every number here is derived by hand, in the comments.

The two clients hold, on the unit interval, f_1(x) = x^2/2 and f_2(x) = 3 x^2/2 - 1.2 x. With one direction u = +1 and
lambda = 0.2 the finite difference of a quadratic with curvature a and slope s(x) is exactly s(x) + a lambda / 2:

    FD_1(x) = x + 0.1,    FD_2(x) = 3 x - 1.2 + 0.3 = 3 x - 0.9

so a plain gradient step with eta = 0.1 maps  x -> 0.9 x - 0.01  at client 1 and  x -> 0.7 x + 0.09  at client 2.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fzoos import SGD, FedProx, FedZO, FiniteDifferences, FZooS, ScaffoldI, ScaffoldII, minimize
from fzoos.surrogates.kernels import SquaredExponential


@dataclass(frozen=True)
class AlongTheAxes(FiniteDifferences):
    """Directions e_1, e_2, ... instead of random ones."""

    def draw(self, dim, rng):
        return np.eye(self.count, dim)


ALONG = AlongTheAxes(count=1, step=0.2)


def f_1(x):
    return 0.5 * x[0] ** 2


def f_2(x):
    return 1.5 * x[0] ** 2 - 1.2 * x[0]


def path(algorithm, rounds, **changes):
    """x_1, ..., x_R from x_0 = 0.6 with T = 2 and eta = 0.1."""
    xs = []
    settings = {"seed": 0} | changes
    minimize(
        [f_1, f_2],
        [0.6],
        bounds=(0, 1),
        algorithm=replace(algorithm, local_steps=2, optimizer=SGD(0.1)),
        rounds=rounds,
        monitor=lambda x: xs.append(x[0]) or 0.0,
        **settings,
    )
    return xs


def test_fedzo():
    """g_hat = FD(x).

    Round 1 from 0.6:    client 1: 0.53,   0.467;     client 2: 0.51,   0.447;    mean 0.457
    Round 2 from 0.457:  client 1: 0.4013, 0.35117;   client 2: 0.4099, 0.37693;  mean 0.36405
    """
    assert path(FedZO(differences=ALONG), 2) == pytest.approx([0.457, 0.36405], abs=1e-13)


def test_fedzo_weighted():
    """x_r = sum_i omega_i x_i with omega = (1/4, 3/4).

    Round 1: (0.467 + 3 * 0.447) / 4 = 0.452
    Round 2 from 0.452:  client 1: 0.3968, 0.34712;  client 2: 0.4064, 0.37448;  (0.34712 + 3 * 0.37448) / 4 = 0.36764
    """
    assert path(FedZO(differences=ALONG), 2, weights=[1, 3]) == pytest.approx([0.452, 0.36764], abs=1e-13)


def test_fedprox():
    """g_hat = FD(x) + 0.5 (x - x_{r-1}); the first step of a round is FedZO's, since x = x_{r-1} there.

    Round 1 from 0.6.  client 1: 0.53, then 0.53 - 0.1 (0.63 - 0.5 * 0.07) = 0.4705
                       client 2: 0.51, then 0.51 - 0.1 (0.63 - 0.5 * 0.09) = 0.4515;                  mean 0.461
    Round 2 from 0.461. client 1: 0.4049, then 0.4049 - 0.1 (0.5049 - 0.5 * 0.0561) = 0.357215
                        client 2: 0.4127, then 0.4127 - 0.1 (0.3381 - 0.5 * 0.0483) = 0.381305;       mean 0.36926
    """
    assert path(FedProx(gamma=0.5, differences=ALONG), 2) == pytest.approx([0.461, 0.36926], abs=1e-13)


def test_scaffold_1():
    """g_hat = FD_i(x) + (mean_j FD_j(x_{r-1}) - FD_i(x_{r-1})), no correction in round 1.

    Round 1: FedZO's, 0.457.
    Round 2: FD(0.457) = (0.557, 0.471), mean 0.514, corrections (-0.043, +0.043):
             client 1: x -> 0.9 x - 0.0057: 0.4056, 0.35934;  client 2: x -> 0.7 x + 0.0857: 0.4056, 0.36962;
             mean 0.36448
    Round 3: FD(0.36448) = (0.46448, 0.19344), mean 0.32896, corrections (-0.13552, +0.13552):
             client 1: x -> 0.9 x + 0.003552: 0.331584, 0.3019776;
             client 2: x -> 0.7 x + 0.076448: 0.331584, 0.3085568;
             mean 0.3052672
    """
    assert path(ScaffoldI(differences=ALONG), 3) == pytest.approx([0.457, 0.36448, 0.3052672], abs=1e-13)


def test_scaffold_2():
    """g_hat = FD_i(x) + (mean_j c_j - c_i), c_i the mean of the client's FD in round r-1.

    Round 1: FedZO's. FD_1 at 0.6, 0.53: 0.7, 0.63, c_1 = 0.665;  FD_2 at 0.6, 0.51: 0.9, 0.63, c_2 = 0.765;  c = 0.715
    Round 2 from 0.457, corrections (+0.05, -0.05):
             client 1: x -> 0.9 x - 0.015: 0.3963, 0.34167;  client 2: x -> 0.7 x + 0.095: 0.4149, 0.38543;
             mean 0.36355.  c_1 = (0.557 + 0.4963) / 2 = 0.52665,  c_2 = (0.471 + 0.3447) / 2 = 0.40785,  c = 0.46725
    Round 3 from 0.36355, corrections (-0.0594, +0.0594):
             client 1: x -> 0.9 x - 0.00406: 0.323135, 0.2867615;  client 2: x -> 0.7 x + 0.08406: 0.338545, 0.3210415;
             mean 0.3039015
    """
    assert path(ScaffoldII(differences=ALONG), 3) == pytest.approx([0.457, 0.36355, 0.3039015], abs=1e-13)


def test_scaffold_2_weighted():
    """omega = (1/4, 3/4) in the average of x and of c.

    Round 1: 0.452;  c = (0.665 + 3 * 0.765) / 4 = 0.74, corrections (+0.075, -0.025).
    Round 2: client 1: x -> 0.9 x - 0.0175: 0.3893, 0.33287;  client 2: x -> 0.7 x + 0.0925: 0.4089, 0.37873;
             (0.33287 + 3 * 0.37873) / 4 = 0.367265
    """
    assert path(ScaffoldII(differences=ALONG), 2, weights=[1, 3]) == pytest.approx([0.452, 0.367265], abs=1e-13)


def test_iterates_are_projected_step_by_step():
    """x is clipped to the box after every local step, not only at the end.

    f(x) = 3 x from 0.3 with eta = 0.1: client steps 0.3 -> 0 -> 0; clipping at the end gives 0 as well, so the second
    client, f(x) = -3 (x - 0.2)^2 with FD(x) = -6 (x - 0.2) - 0.6, is the witness. Its map is x -> 1.6 x - 0.06:
    0.3 -> 0.42 -> 0.612 -> 0.9192 -> 1.41072, clipped to 1. The mean is 0.5; without projection client 1 is at -0.9.
    """
    settings = {"bounds": (0, 1), "rounds": 1}
    algorithm = FedZO(local_steps=4, optimizer=SGD(0.1), differences=ALONG)
    sites = [lambda x: 3 * x[0], lambda x: -3 * (x[0] - 0.2) ** 2]
    projected = minimize(sites, [0.3], algorithm=algorithm, **settings)
    free = minimize(sites, [0.3], algorithm=replace(algorithm, projected=False), **settings)
    assert projected.x[0] == pytest.approx(0.5, abs=1e-13)
    assert free.x[0] == pytest.approx((-0.9 + 1.41072) / 2, abs=1e-12)


def test_fzoos_with_two_observations():
    """The surrogate gradient of two observations in one dimension, in closed form.

    Two values, standardised, are +1 and -1 with scale (y_1 - y_2) / 2 (signed). With k = exp(-(x_1 - x_2)^2 / 2) and
    (K + sigma^2 I) = [[1 + sigma^2, k], [k, 1 + sigma^2]], the vector (1, -1) is an eigenvector with eigenvalue
    1 + sigma^2 - k, so alpha = (1, -1) / (1 + sigma^2 - k) and

        grad mu(x) = -(y_1 - y_2) / (2 (1 + sigma^2 - k)) * [ b(x - x_1) - b(x - x_2) ],    b(z) = z e^{-z^2/2}

    In round 1 there is no correction; the points are x_0 and the one of the initial design, and the new iterate is
    queried afterwards: x = x_0 - eta mean_i grad mu_i.
    """
    asked = {0: [], 1: []}
    noise = 1e-5

    def recorded(i, f):
        return lambda x: (asked[i].append(x[0]), f(x))[1]

    result = minimize(
        [recorded(0, f_1), recorded(1, f_2)],
        [0.6],
        bounds=(0, 1),
        algorithm=FZooS(
            local_steps=1,
            optimizer=SGD(0.1),
            kernel=SquaredExponential(1.0),
            noise=noise,
            initial=1,
            active=None,
            refresh=None,
            features=8,
        ),
        rounds=1,
        seed=3,
    )

    def gradient(i, f, x):
        a, b, _ = asked[i]
        k = np.exp(-((a - b) ** 2) / 2)
        bump = (x - a) * np.exp(-((x - a) ** 2) / 2) - (x - b) * np.exp(-((x - b) ** 2) / 2)
        return -(f([a]) - f([b])) / (2 * (1 + noise - k)) * bump

    expected = 0.6 - 0.1 * (gradient(0, f_1, 0.6) + gradient(1, f_2, 0.6)) / 2
    assert [len(points) for points in asked.values()] == [3, 3]
    assert asked[0][0] == asked[1][0] == 0.6
    assert asked[0][2] == pytest.approx(0.6 - 0.1 * gradient(0, f_1, 0.6), abs=1e-12)
    assert result.x[0] == pytest.approx(expected, abs=1e-12)
    assert abs(expected - 0.6) > 1e-3
