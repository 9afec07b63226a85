"""Methods that see F itself, as if all clients' data were in one place; one value of F costs N queries.

All but SciPy's need `pip install -e ".[bench]"`. TuRBO is not among them: its only package is a fork that needs
NumPy 1, under a licence for non-commercial use.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize

from benchmarks.beyond.fair.race import Instance
from fzoos._util.arrays import FloatArray


class Spent(Exception):
    """The budget of values is spent."""


class Pooled:
    """F, the mean of the clients' functions, for a number of evaluations.

    Args:
        instance: the problem.
        most: the number of values of F; then `Spent` is raised.
        vectorized: whether the clients' functions take batches.
    """

    def __init__(self, instance: Instance, most: int, vectorized: bool) -> None:
        self._instance, self.most, self._vectorized = instance, most, vectorized
        self._seen: list[tuple[float, float]] = []  # the returned value, F - F*

    def __call__(self, x: FloatArray) -> float:
        if len(self._seen) >= self.most:
            raise Spent
        x = np.clip(np.asarray(x, float), 0.0, 1.0)
        points = x[None] if self._vectorized else x
        value = float(np.mean([np.squeeze(f(points)) for f in self._instance.objectives]))
        self._seen.append((value, float(self._instance.gap(x))))
        return value

    @property
    def best(self) -> float:
        """F - F* where the least value was seen."""
        return min(self._seen)[1]


Method = Callable[[Pooled, FloatArray, int], object]  # F, x_0, seed


def _scipy(method: Literal["L-BFGS-B", "Powell"], **options: float) -> Method:
    # The least tolerances, so that it is the budget that ends a run.
    tolerances = {"ftol": 1e-16, "gtol": 1e-12} if method == "L-BFGS-B" else {"ftol": 1e-12, "xtol": 1e-12}
    chosen: Any = tolerances | options

    def run(f: Pooled, x0: FloatArray, seed: int) -> object:
        return minimize(f, x0, method=method, bounds=[(0.0, 1.0)] * len(x0), options=chosen)

    return run


def _bobyqa(f: Pooled, x0: FloatArray, seed: int) -> object:
    import nlopt

    search = nlopt.opt(nlopt.LN_BOBYQA, len(x0))
    search.set_lower_bounds(0.0)
    search.set_upper_bounds(1.0)
    search.set_min_objective(lambda x, _: f(x))
    search.set_initial_step(0.1)
    search.set_maxeval(f.most)
    with contextlib.suppress(nlopt.RoundoffLimited):
        search.optimize(x0)
    return search


def _ngopt(f: Pooled, x0: FloatArray, seed: int) -> object:
    import nevergrad
    from nevergrad.optimization import metamodel

    # nevergrad 1.0.12 makes a number of an array with one element by float(), which NumPy 2.4 refuses.
    metamodel.float = lambda value: np.asarray(value).item()
    where = nevergrad.p.Array(init=x0).set_bounds(0.0, 1.0)
    where.random_state.seed(seed)
    return nevergrad.optimizers.NGOpt(parametrization=where, budget=f.most, num_workers=1).minimize(f)


def _cma(sigma: float) -> Method:
    def run(f: Pooled, x0: FloatArray, seed: int) -> object:
        import cma

        search = cma.CMAEvolutionStrategy(x0, sigma, {"bounds": [0.0, 1.0], "seed": seed, "verbose": -9})
        while not search.stop():
            points = search.ask()
            search.tell(points, [f(x) for x in points])
        return search

    return run


METHODS: dict[str, Method] = {
    "L-BFGS-B (SciPy)": _scipy("L-BFGS-B"),
    "L-BFGS-B (SciPy), difference 0.01": _scipy("L-BFGS-B", eps=0.01),
    "Powell (SciPy)": _scipy("Powell"),
    "BOBYQA (NLopt), first step 0.1": _bobyqa,
    "NGOpt (nevergrad)": _ngopt,
    "CMA-ES (cma), sigma_0 = 0.3": _cma(0.3),
    "CMA-ES (cma), sigma_0 = 0.1": _cma(0.1),
}
"""By the label in the tables."""


def solve(method: Method, instance: Instance, most: int, seed: int, vectorized: bool) -> float:
    """F - F* where a method saw the least of `most` values of F."""
    pooled = Pooled(instance, most, vectorized)
    with warnings.catch_warnings(), contextlib.suppress(Spent):
        warnings.simplefilter("ignore")  # packages' own, of rounding and of versions
        method(pooled, np.array(instance.x0), seed)
    return pooled.best
