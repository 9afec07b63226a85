"""Problems with constraints whose optimum is known, in three parts.

========================  =============================================================================================
problem                   from
========================  =============================================================================================
HS76, HS43                W. Hock and K. Schittkowski, "Test Examples for Nonlinear Programming Codes", 1981
G6                        Z. Michalewicz and M. Schoenauer, "Evolutionary Algorithms for Constrained Parameter
                          Optimization Problems", 1996
pressure vessel           E. Sandgren, "Nonlinear Integer and Discrete Programming in Mechanical Design", 1990; here
                          thicknesses are continuous, and the volume is a share of what it must be, which is kind to a
                          penalty
========================  =============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Point = NDArray[np.float64]
Term = Callable[[Point], float]


@dataclass(frozen=True)
class Constrained:
    """min F(x) subject to c(x) <= 0 in a box, in three parts.

    Args:
        parts: three functions whose sum is F.
        constraints: for each part, the constraints of the client that has it.
        box: a (lower, upper) pair for each coordinate.
        optimum: x*.
        least: F*, as it is published.
    """

    parts: tuple[Term, Term, Term]
    constraints: tuple[tuple[Term, ...], tuple[Term, ...], tuple[Term, ...]]
    box: tuple[tuple[float, float], ...]
    optimum: tuple[float, ...]
    least: float

    def value(self, x: Point) -> float:
        """F(x)."""
        return float(sum(part(x) for part in self.parts))

    def violation(self, x: Point) -> float:
        """The largest constraint of anybody at x, or 0 where all are met."""
        return max(0.0, *(float(c(x)) for those in self.constraints for c in those))

    def gap(self, x: Point) -> float:
        """(F(x) - F*) / (1 + |F*|)."""
        return (self.value(x) - self.least) / (1.0 + abs(self.least))

    def start(self, seed: int) -> Point:
        """Uniform in the box."""
        lower, upper = np.array(self.box).T
        return np.array(np.random.default_rng(seed).uniform(lower, upper))

    def clients(self, count: int) -> list[tuple[Term, tuple[Term, ...]]]:
        """f_i and the constraints of each client; F is the mean of the f_i."""
        if count == 1:
            return [(self.value, tuple(c for those in self.constraints for c in those))]
        return [(_times(3.0, f), those) for f, those in zip(self.parts, self.constraints, strict=True)]


def _times(factor: float, f: Term) -> Term:
    return lambda x: factor * f(x)


PROBLEMS: dict[str, Constrained] = {
    "HS76": Constrained(
        (
            lambda x: x[0] ** 2 - x[0] * x[2] - x[0],
            lambda x: 0.5 * x[1] ** 2 - 3.0 * x[1] + x[2] * x[3],
            lambda x: x[2] ** 2 + 0.5 * x[3] ** 2 + x[2] - x[3],
        ),
        (
            (lambda x: x[0] + 2.0 * x[1] + x[2] + x[3] - 5.0,),
            (lambda x: 3.0 * x[0] + x[1] + 2.0 * x[2] - x[3] - 4.0,),
            (lambda x: 1.5 - x[1] - 4.0 * x[2],),
        ),
        ((0.0, 4.0),) * 4,
        (3 / 11, 23 / 11, 0.0, 6 / 11),
        -4.681818181818182,
    ),
    "HS43": Constrained(
        (
            lambda x: x[0] ** 2 - 5.0 * x[0] + x[1] ** 2 - 5.0 * x[1],
            lambda x: 2.0 * x[2] ** 2 - 21.0 * x[2],
            lambda x: x[3] ** 2 + 7.0 * x[3],
        ),
        (
            (lambda x: float(x @ x) + x[0] - x[1] + x[2] - x[3] - 8.0,),
            (lambda x: float(x @ x) + x[1] ** 2 + x[3] ** 2 - x[0] - x[3] - 10.0,),
            (lambda x: 2.0 * x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + 2.0 * x[0] - x[1] - x[3] - 5.0,),
        ),
        ((-5.0, 5.0),) * 4,
        (0.0, 1.0, 2.0, -1.0),
        -44.0,
    ),
    "Rosenbrock in the unit disk": Constrained(
        (
            lambda x: 60.0 * (x[1] - x[0] ** 2) ** 2,
            lambda x: 40.0 * (x[1] - x[0] ** 2) ** 2,
            lambda x: (1.0 - x[0]) ** 2,
        ),
        ((), (), (lambda x: float(x @ x) - 1.0,)),
        ((-2.0, 2.0),) * 2,
        (0.7864151541684, 0.6176983125233),
        0.0456748087195,
    ),
    "G6": Constrained(
        (
            lambda x: (x[0] - 10.0) ** 3,
            lambda x: 0.6 * (x[1] - 20.0) ** 3,
            lambda x: 0.4 * (x[1] - 20.0) ** 3,
        ),
        (
            (lambda x: 100.0 - (x[0] - 5.0) ** 2 - (x[1] - 5.0) ** 2,),
            (lambda x: (x[0] - 6.0) ** 2 + (x[1] - 5.0) ** 2 - 82.81,),
            (),
        ),
        ((13.0, 100.0), (0.0, 100.0)),
        (14.095, 0.8429607892154796),
        -6961.81387558,
    ),
    "pressure vessel": Constrained(
        (
            lambda x: 0.6224 * x[0] * x[2] * x[3],
            lambda x: 1.7781 * x[1] * x[2] ** 2,
            lambda x: 3.1661 * x[0] ** 2 * x[3] + 19.84 * x[0] ** 2 * x[2],
        ),
        (
            (lambda x: 0.0193 * x[2] - x[0],),
            (lambda x: 0.00954 * x[2] - x[1],),
            (lambda x: 1.0 - math.pi * (x[2] ** 2 * x[3] + 4.0 / 3.0 * x[2] ** 3) / 1_296_000.0,),
        ),
        ((0.0625, 6.1875), (0.0625, 6.1875), (10.0, 200.0), (10.0, 200.0)),
        (0.7781686413, 0.3846491626, 40.3196187241, 200.0),
        5885.332773,
    ),
}
