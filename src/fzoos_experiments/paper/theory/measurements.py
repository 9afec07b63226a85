"""Quantities of the paper's theory, measured in runs of FZooS.

=============  ==========================================================================================
symbol         meaning
=============  ==========================================================================================
f_i, F         a client's function and the mean of all; gradients are those in the unit cube
mu_i, mu_hat   posterior mean of client i's Gaussian process, and its approximation by M random features
Sigma          posterior covariance of the gradient, for standardised observations: kappa I without any
omega          d + 2 (sqrt(d) + 1) ln(1/delta), with delta = 0.1
v_i            the correction vector, grad mu_hat(x) - grad mu_hat_i(x)
Xi             gradient disparity, ||g_hat - grad F||^2
=============  ==========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import FedProx, FedZO, FZooS, ScaffoldI, ScaffoldII
from fzoos.algorithms.correction_lengths import (
    Constant,
    CorrectionLength,
    DistanceAware,
    Measured,
    Moment,
    Reciprocal,
    Theoretical,
)
from fzoos.algorithms.local_steps import GradientSteps
from fzoos.algorithms.optimizers import SGD, Adam, Optimizer
from fzoos.algorithms.query_designs import ActiveQueries
from fzoos.minimize import minimize
from fzoos.result import Result
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate
from fzoos.surrogates.kernels import Kernel
from fzoos_experiments.paper.observe import Estimate, observed
from fzoos_experiments.tasks.synthetic import Ackley, Levy, Quadratic, Synthetic

__all__ = [
    "DELTA",
    "EXACT",
    "OBSERVED",
    "Posterior",
    "Row",
    "convergence",
    "disparities",
    "features",
    "lengths",
    "optimal_length",
    "uncertainty",
]

Row = dict[str, str | float]

DELTA = 0.1
OBSERVED = FZooS(length=Measured())  # a to d: the paper's settings, but for a length that does not diverge at C = 50
KERNEL, NOISE = OBSERVED.kernel, OBSERVED.noise
EXACT = FZooS(  # e, d = 10: more points near x than the gradient needs
    initial=30,
    active=None,
    refresh=ActiveQueries(100, 20, 0.05),
    points=100,
    feature_points=200,
    length=Constant(1.0),
)


# Runs


def run(
    task: Synthetic,
    algorithm: GradientSteps,
    rounds: int,
    local_steps: int,
    seed: int = 0,
    optimizer: Optimizer = Adam(0.01),
    observer: Callable[[Estimate], None] | None = None,
) -> Result:
    """Run `minimize` with F - F* as the monitor."""
    algorithm = replace(algorithm, local_steps=local_steps, optimizer=optimizer)
    return minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm if observer is None else observed(algorithm, observer),
        rounds=rounds,
        vectorized=True,
        monitor=lambda x: task.value(x) - task.minimum,
        rng=seed,
    )


def true_gradients(task: Synthetic, x: FloatArray) -> FloatArray:
    """The gradients grad f_i of all clients at a point of the unit cube, in its coordinates, shape (N, d)."""
    low, high = task.bounds
    z = low + (high - low) * x
    return (high - low) * np.stack([task.client_gradient(i, z) for i in range(task.clients)])


@dataclass(frozen=True)
class Posterior:
    """The derived Gaussian process of eq. 6 at one point, by the textbook formulas, for standardised observations."""

    gradient: FloatArray  # grad mu(x), in the units of y
    covariance: FloatArray  # Sigma(x), shape (d, d)
    scale: float  # standard deviation of y: gradients in the units of y are this times the standardised ones
    amplitude: float  # maximum-likelihood estimate of the prior's standard deviation, in the units of y

    @classmethod
    def at(cls, x: FloatArray, points: FloatArray, y: FloatArray, kernel: Kernel = KERNEL) -> Posterior:
        """Condition the process on observations y at points of shape (n, d)."""
        offset = x - points
        squares = np.sum(points**2, axis=1)
        distances = np.maximum(squares[:, None] + squares - 2.0 * points @ points.T, 0.0)
        factor = scipy.linalg.cho_factor(kernel.kappa(distances) + NOISE * np.eye(len(y)))
        jacobian = 2.0 * kernel.dkappa(np.sum(offset**2, axis=1))[:, None] * offset  # of k(x, X)
        scale = float(np.std(y))
        alpha = scipy.linalg.cho_solve(factor, (y - np.mean(y)) / scale)
        covariance = -2.0 * kernel.dkappa0 * np.eye(len(x)) - jacobian.T @ scipy.linalg.cho_solve(factor, jacobian)
        amplitude = math.sqrt(float((y - np.mean(y)) @ alpha) * scale / len(y))
        return cls(scale * jacobian.T @ alpha, covariance, scale, amplitude)


def omega(dim: int) -> float:
    """The confidence parameter of Lemma C.1."""
    return dim + 2.0 * (math.sqrt(dim) + 1.0) * math.log(1.0 / DELTA)


# a. The surrogate's gradient


def uncertainty(quick: bool) -> list[Row]:
    """Measure error and uncertainty of the first client's surrogate at every local step of a run."""
    cases: list[tuple[Synthetic, int]] = [(task(dim=10), 3 if quick else 10) for task in (Quadratic, Levy, Ackley)]
    cases.append((Quadratic(dim=50 if quick else 300), 3 if quick else 10))
    rows: list[Row] = []
    for task, rounds in cases:
        seen: set[tuple[int, int]] = set()

        def observer(estimate: Estimate, task: Synthetic = task, seen: set[tuple[int, int]] = seen) -> None:
            if (estimate.round, estimate.step) in seen:
                return
            seen.add((estimate.round, estimate.step))  # the first client takes a step first
            trajectory = estimate.context.trajectory
            posterior = Posterior.at(estimate.x, trajectory.x, trajectory.y)
            error = float(np.sum((estimate.local - true_gradients(task, estimate.x)[0]) ** 2))
            largest = float(np.linalg.eigvalsh(posterior.covariance)[-1])
            rows.append(
                {
                    "function": task.name,
                    "d": task.dim,
                    "round": estimate.round,
                    "step": estimate.step,
                    "n": len(trajectory),
                    "norm": largest,
                    "trace": float(np.trace(posterior.covariance)),
                    "error": error / posterior.scale**2,
                    "error/bound": error / posterior.scale**2 / (omega(task.dim) * largest),
                    "error/bound, amplitude fitted": error / posterior.amplitude**2 / (omega(task.dim) * largest),
                }
            )

        run(task, OBSERVED, rounds, 10, observer=observer)
    return rows


# b. The random features' gradient


def features(quick: bool) -> list[Row]:
    """Measure the squared distance between the features' and the exact surrogate's gradients at the end of a run."""
    counts = (100, 300, 1_000, 3_000) if quick else (100, 300, 1_000, 3_000, 10_000, 30_000)
    rows: list[Row] = []
    for dim in (20,) if quick else (20, 300):
        last: list[Estimate] = []
        run(Quadratic(dim=dim), OBSERVED, 3, 10, observer=last.append)
        trajectory, x = last[-1].context.trajectory, last[-1].x
        for n in (50, len(trajectory)):
            nearest = trajectory.nearest(x, n)
            points, y = trajectory.x[nearest], trajectory.y[nearest]
            exact = Posterior.at(x, points, y)
            for count in counts:
                for seed in range(4):
                    phi = FourierFeatures(seed, count, dim, KERNEL)
                    w = FourierSurrogate(phi, NOISE).weights(np.arange(n), points, y)
                    error = float(np.sum((phi.grad(x, w) - exact.gradient) ** 2))
                    rows.append(
                        {
                            "d": dim,
                            "n": n,
                            "M": count,
                            "seed": seed,
                            "error": error / exact.scale**2,
                            "relative": error / float(np.sum(exact.gradient**2)),
                        }
                    )
    return rows


# c. The correction length


def optimal_length(local: FloatArray, vectors: FloatArray, target: FloatArray) -> float:
    """gamma*, the minimizer of sum_i ||local_i + gamma v_i - target_i||^2 (Prop. 1, one for all clients), (N, d) each.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.paper.theory.measurements import optimal_length
        >>> optimal_length(np.array([[0.0, 0.0]]), np.array([[2.0, 0.0]]), np.array([[1.0, 3.0]]))
        0.5
    """
    return float(np.sum((target - local) * vectors) / np.sum(vectors**2))


@dataclass(frozen=True)
class _Step:
    """The quantities of one client at one local step."""

    local: FloatArray  # grad mu_i(x)
    vector: FloatArray  # v_i
    measured: float  # gamma_t of the run
    target: FloatArray  # grad F(x)
    heterogeneity: float  # G at x, in the units of the standardised observations
    explained: float  # trace Sigma(x) / (kappa d); only at the first step of a round
    moment: Moment


def _steps(task: Quadratic, rounds: tuple[int, ...], local_steps: int, seed: int) -> dict[tuple[int, int], list[_Step]]:
    """The quantities of all clients at each local step of some rounds of FZooS with the whole trajectories."""
    found: dict[tuple[int, int], list[_Step]] = {}

    def observer(estimate: Estimate) -> None:
        if estimate.round not in rounds or estimate.correction is None:
            return
        context, x, t = estimate.context, estimate.x, estimate.step
        points, y = context.trajectory.x, context.trajectory.y
        own = true_gradients(task, x)
        target = np.mean(own, axis=0)
        spread = float(np.mean(np.sum((own - target) ** 2, axis=1)) / np.var(y))
        explained = float(np.trace(Posterior.at(x, points, y).covariance)) / task.dim if t == 1 else math.nan
        iota = float(np.mean(np.sum((points - x) ** 2, axis=1)))
        moment = Moment(
            t, estimate.round, local_steps, task.clients, task.dim, KERNEL, NOISE, len(y), lambda: iota, lambda: 0.0
        )
        gamma, vector = estimate.correction
        step = _Step(estimate.local, vector, gamma, target, spread, explained, moment)
        found.setdefault((estimate.round, t), []).append(step)

    run(task, OBSERVED, max(rounds), local_steps, seed, observer=observer)
    return found


def _scale(quick: bool) -> tuple[int, tuple[int, ...], range]:
    """Return d, the observed rounds, and the seeds."""
    return (30, (2, 3), range(1)) if quick else (300, (2, 10), range(3))


@lru_cache
def lengths(quick: bool) -> list[Row]:
    """Measure gamma*, the lengths that FZooS offers, and their disparities, all at the iterates of one run.

    Cor. 1 and Cor. 2 get the most favourable constants: the true G at x, epsilon = 0, and a rho for which
    rho^{(r-1) T} is the true remaining share of the prior trace at x_{r-1}.
    """
    dim, rounds, seeds = _scale(quick)
    rows: list[Row] = []
    for c, seed in ((c, seed) for c in (0.5, 5.0, 50.0) for seed in seeds):
        steps = _steps(Quadratic(dim=dim, heterogeneity=c, seed=seed), rounds, 10, seed)
        for (r, t), clients in steps.items():
            local, vectors, target = (
                np.stack([getattr(client, name) for client in clients]) for name in ("local", "vector", "target")
            )
            rho = float(np.mean([client.explained for client in steps[r, 1]])) ** (1.0 / ((r - 1) * 10))

            def mean(length: Callable[[float], CorrectionLength], clients: list[_Step] = clients) -> float:
                return float(np.mean([length(client.heterogeneity)(client.moment) for client in clients]))

            gammas = {
                "γ*": optimal_length(local, vectors, target),
                "1/t": mean(lambda _: Reciprocal()),
                "Cor. 1": mean(lambda g, rho=rho: Theoretical(g, rho, delta=DELTA)),  # type: ignore[misc]
                "Cor. 2": mean(lambda g: DistanceAware(g, delta=DELTA)),
                "Measured": float(np.mean([client.measured for client in clients])),
                "γ = 1": 1.0,
                "γ = 0": 0.0,
            }
            for name, gamma in gammas.items():
                disparity = np.sum((local + gamma * vectors - target) ** 2) / np.sum(target**2)
                place = {"C": c, "seed": seed, "round": r, "step": t}
                rows.append({**place, "length": name, "gamma": gamma, "disparity": float(disparity)})
    return rows


# d. The gradient disparity


def disparities(quick: bool) -> list[Row]:
    """Measure Xi over ||grad F||^2 at each local step, for FZooS with each length and for the other algorithms."""
    dim, rounds, seeds = _scale(quick)
    rows: list[Row] = [
        {"algorithm": f"FZooS, {row['length']}", **{k: row[k] for k in ("C", "seed", "round", "step", "disparity")}}
        for row in lengths(quick)
    ]
    others: tuple[GradientSteps, ...] = (FedZO(), FedProx(), ScaffoldI(), ScaffoldII())
    for c, seed, algorithm in ((c, seed, a) for c in (0.5, 5.0, 50.0) for seed in seeds for a in others):
        task = Quadratic(dim=dim, heterogeneity=c, seed=seed)
        found: dict[tuple[int, int], list[tuple[float, float]]] = {}

        def observer(estimate: Estimate, task: Synthetic = task, found: Any = found) -> None:
            if estimate.round in rounds:
                target = np.mean(true_gradients(task, estimate.x), axis=0)
                squares = float(np.sum((estimate.gradient - target) ** 2)), float(np.sum(target**2))
                found.setdefault((estimate.round, estimate.step), []).append(squares)

        run(task, algorithm, max(rounds), 10, seed, observer=observer)
        for (r, t), squares in found.items():
            disparity, norm = np.sum(squares, axis=0)
            place = {"C": c, "seed": seed, "round": r, "step": t}
            rows.append({"algorithm": algorithm.label, **place, "disparity": float(disparity / norm)})
    return rows


# e. Convergence


def convergence(quick: bool) -> list[Row]:
    """F - F* after each round with SGD and nearly exact grad mu_i, compared with gradient descent and Thm. 2.

    The quadratic's Hessian in the cube is beta I with beta = 80 / d, so that alpha = beta. eta = 1 / (200 beta), the
    largest rate that the theorem allows for T = 20.
    """
    dim = 10
    beta = 80.0 / dim
    eta = 1.0 / (200.0 * beta)
    rounds = 6 if quick else 15
    rows: list[Row] = []
    for c in (5.0,) if quick else (5.0, 50.0):
        for name, length in (("γ = 1", Constant(1.0)), ("1/t", Reciprocal())):
            for local_steps in (5, 10, 20):
                task = Quadratic(dim=dim, heterogeneity=c)
                result = run(task, replace(EXACT, length=length), rounds, local_steps, optimizer=SGD(eta))
                gaps = [
                    task.value(task.x0) - task.minimum,
                    *(float(record.monitor or 0.0) for record in result.history),
                ]
                for r, gap in enumerate(gaps):
                    rows.append(
                        {
                            "C": c,
                            "length": name,
                            "T": local_steps,
                            "round": r,
                            "gap": gap,
                            "gradient descent": gaps[0] * (1.0 - eta * beta) ** (2 * local_steps * r),
                            "Thm. 2": gaps[0] * math.exp(-beta * eta * local_steps * r / 4.0),
                        }
                    )
    return rows
