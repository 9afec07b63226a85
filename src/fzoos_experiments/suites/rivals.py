"""The rivals of a suite: algorithms of the library, and pooled methods, which evaluate F itself.

For a pooled method, which works as if all data were in one place, a value of F costs one query of each client. It ends
when it converges or when the budget is spent; the ranges of `bounds` are scaled to [0, 1].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import Bounds, minimize

from fzoos._util.arrays import FloatArray
from fzoos.algorithms import Algorithm, find_algorithm
from fzoos_experiments.suites.problem import SuiteProblem

__all__ = ["POOLED", "Pooled", "find_rival"]

_FIRST_STEP = 0.1  # of BOBYQA, COBYQA and CMA-ES, in units of the cube


class _Spent(Exception):
    """The budget of queries is spent."""


class Pooled:
    """The average of the clients' functions over the unit cube, counted.

    Args:
        problem: the problem.
        budget: the number of queries of all clients.
    """

    def __init__(self, problem: SuiteProblem, budget: int) -> None:
        self._problem, self._clients = problem, len(problem.objectives)
        self._lower, self._range = problem.bounds[:, 0], problem.bounds[:, 1] - problem.bounds[:, 0]
        self.left = budget // self._clients
        self.start = (problem.x0 - self._lower) / self._range
        self.queries, self._lowest = 0, np.inf
        self.trace = [(0, problem.value(problem.x0))]

    def __call__(self, u: FloatArray, *_: Any) -> float:
        """Evaluate the average with the clients' noise; a new lowest average adds F without noise to the trace."""
        if not self.left:
            raise _Spent
        self.left -= 1
        self.queries += self._clients
        x = self._lower + np.clip(np.asarray(u, float), 0.0, 1.0) * self._range
        average = float(np.mean([f(x) for f in self._problem.objectives]))
        if average < self._lowest:
            self._lowest = average
            self.trace.append((self.queries, self._problem.value(x)))
        return average

    def run(self, method: PooledMethod, seed: int) -> list[tuple[int, float]]:
        """Run a method and return (queries, F) at x0 and at each point with a new lowest average."""
        with warnings.catch_warnings(), suppress(_Spent):
            warnings.simplefilter("ignore")  # of the packages: rounding, experimental features
            method(self, seed)
        return self.trace


PooledMethod = Callable[[Pooled, int], object]


def _scipy(method: Literal["L-BFGS-B", "Nelder-Mead", "COBYQA"], **options: Any) -> PooledMethod:
    def run(f: Pooled, seed: int) -> object:
        limits: Any = options | {"maxiter": f.left, "maxfev" if method != "L-BFGS-B" else "maxfun": f.left}
        return minimize(f, f.start, method=method, bounds=Bounds(np.zeros(len(f.start)), 1.0), options=limits)

    return run


def _bobyqa(f: Pooled, seed: int) -> object:
    nlopt = _package("nlopt")
    search = nlopt.opt(nlopt.LN_BOBYQA, len(f.start))
    search.set_lower_bounds(0.0)
    search.set_upper_bounds(1.0)
    search.set_min_objective(f)
    search.set_initial_step(_FIRST_STEP)
    search.set_xtol_rel(1e-14)
    search.set_maxeval(f.left)
    with suppress(nlopt.RoundoffLimited):
        search.optimize(f.start)
    return search


def _cma(f: Pooled, seed: int) -> object:
    """CMA-ES with restarts and growing populations (IPOP)."""
    cma = _package("cma")
    options = {"bounds": [0.0, 1.0], "seed": seed + 1, "verbose": -9, "maxfevals": f.left}
    return cma.fmin2(f, f.start, _FIRST_STEP, options, restarts=9, incpopsize=2)


def _optuna(sampler: str, **settings: Any) -> PooledMethod:
    def run(f: Pooled, seed: int) -> object:
        optuna = _package("optuna")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=seed, **settings))
        study.enqueue_trial({f"u{j}": value for j, value in enumerate(f.start)})

        def objective(trial: Any) -> float:
            return f(np.array([trial.suggest_float(f"u{j}", 0.0, 1.0) for j in range(len(f.start))]))

        return study.optimize(objective, n_trials=f.left)

    return run


def _package(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise ImportError(f"this rival needs {name}: pip install 'fzoos[suites]'") from None


POOLED: dict[str, PooledMethod] = {
    "bobyqa": _bobyqa,
    "cma-es": _cma,
    "l-bfgs-b": _scipy("L-BFGS-B", ftol=1e-15, gtol=1e-12),
    "nelder-mead": _scipy("Nelder-Mead", adaptive=True, xatol=1e-12, fatol=1e-14),
    "cobyqa": _scipy("COBYQA", initial_tr_radius=_FIRST_STEP, final_tr_radius=1e-12),
    "optuna-tpe": _optuna("TPESampler"),
    "optuna-cma-es": _optuna("CmaEsSampler"),
}
"""The pooled methods: NLopt's BOBYQA, CMA-ES with restarts (cma), three methods of SciPy and two samplers of Optuna."""


def find_rival(name: str) -> Algorithm | PooledMethod:
    """Find the settings of an algorithm of the library, or a pooled method.

    Args:
        name: one of `POOLED`, or an algorithm's name; `NAME@RATE` sets the learning rate of its optimizer.

    Example:
        >>> from fzoos_experiments.suites.rivals import find_rival
        >>> find_rival("fedzo@0.05").optimizer.learning_rate
        0.05
    """
    if name in POOLED:
        return POOLED[name]
    label, _, rate = name.partition("@")
    algorithm = find_algorithm(label)()
    if not rate:
        return algorithm
    optimizer = getattr(algorithm, "optimizer", None)
    if optimizer is None:
        raise ValueError(f"{label} has no learning rate: {name!r} must not have an @")
    changed: Any = {"optimizer": replace(optimizer, learning_rate=float(rate))}
    return replace(algorithm, **changed)
