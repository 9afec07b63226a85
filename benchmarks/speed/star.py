"""A round of `Auto()` in more than 50 dimensions, and what it cannot do without: rows of `benchmarks.speed.default`.

Times are CPU seconds per client and round, less those of the objective itself (it measures them): its cosines are not
ours. The floor is what has to be computed and what has to be moved, m arms of d numbers, q queries in all, a star in p
parts, n points of memory of which k are new, each at a rate that is measured between the rounds of the same run:

    directions   two cosine transforms of each row that was made, in cache (once for all clients where they share them)
    points       16 q d bytes: a direction is read, a point of the user's box is written; at the rate of a copy
    star         distances m^2 d / p, Cholesky factors m^3 / 3 p^2 operations, at the rate of a product of 1000 x 1000;
                 m^2 / 2 p exponentials
    sums         passes over the m d numbers, at the rate of a product of such a matrix and a vector: gradient (1), what
                 all clients asked (1), wide and narrow part (2); beyond 1 024 dimensions a memory that is a vector (2)
    memory       up to 1 024 dimensions: distances to the new points 2 n k d - k^2 d and a factor n^3 / 3 operations,
                 n k - k^2 / 2 exponentials, two passes over n d numbers: distances from x, gradient

A small matrix does not reach those rates: the same calls of BLAS, LAPACK and NumPy alone, at the sizes of the round,
are the second floor. What neither counts is Python: messages, their checks, and the calls themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from fzoos import Auto, Stop, minimize
from fzoos._util.arrays import FloatArray
from fzoos.algorithms.line_search import directions
from fzoos.algorithms.line_search.client import looks_back
from fzoos.algorithms.line_search.scales import QUERIES
from fzoos.algorithms.line_search.star_points import TOGETHER

N = 2
EARLY, LATE = 20, 200
_CACHE = 2**15  # numbers


class Round(NamedTuple):
    """Of one round, per client: CPU seconds without the objective's, those of the objective, queries, rows made."""

    own: float
    objective: float
    queries: float
    rows: float
    points: float  # asked before it


class Rates(NamedTuple):
    """Seconds for one of each."""

    operation: float
    transformed: float  # number, in two transforms
    copied: float  # number
    summed: float  # number, in a product of a matrix and a vector
    exponential: float


def measured(dim: int, last: int) -> tuple[list[Round], Rates]:
    """A run on bowls with ripples, whose clients differ, and the rates between its rounds."""
    rng = np.random.default_rng(5)
    centres, scales = rng.uniform(0.3, 0.7, (N, dim)), rng.uniform(0.5, 2.0, (N, dim))
    asked, inside, rows = [0], [0.0], [0]

    def site(k: int) -> Callable[[FloatArray], FloatArray]:
        def f(x: FloatArray) -> FloatArray:
            started = time.process_time()
            gap = x - centres[k]
            values: FloatArray = np.mean(scales[k] * gap**2 + 0.02 * np.cos(9.0 * gap), axis=1)
            asked[0] += len(x)
            inside[0] += time.process_time() - started
            return values

        return f

    transform = directions._transform

    def counted(made: FloatArray, *given: object) -> None:
        rows[0] += len(made)
        transform(made, *given)  # type: ignore[arg-type]

    found: list[Round] = []
    rates: list[Rates] = []
    begun = [(time.process_time(), 0.0, 0, 0)]

    def note(_: object) -> None:
        now, last = (time.process_time(), inside[0], asked[0], rows[0]), begun[0]
        spent, objective, queries, made = ((b - a) / N for a, b in zip(last, now, strict=True))
        found.append(Round(spent - objective, objective, queries, made, last[2] / N))
        if len(found) > 2:
            rates.append(_rates(dim, max(8, int(queries) - QUERIES)))
        begun[0] = (time.process_time(), *now[1:])

    directions._transform = counted  # type: ignore[assignment]
    try:
        solve([site(k) for k in range(N)], dim, last, note)
    finally:
        directions._transform = transform
    return found, Rates(*(float(np.median(column)) for column in zip(*rates, strict=True)))


def solve(sites: list[Callable[[FloatArray], FloatArray]], dim: int, last: int, note: Callable[[object], None]) -> None:
    """The run whose rounds are measured."""
    minimize(
        sites,
        np.full(dim, 0.1),
        bounds=(0, 1),
        algorithm=Auto(),
        rounds=last,
        stop=Stop(tolerance=0.0),
        vectorized=True,
        callback=note,
        seed=0,
    )


def _rates(dim: int, arms: int) -> Rates:
    """As the machine is just now: each is measured once in every round, and the median counts."""
    arms = min(arms, max(8, 2**23 // dim))
    square, panel = _SQUARE, np.ones((max(8, _CACHE // dim // 8 * 8), dim))
    matrix, other = np.ones((arms, dim)), np.empty((arms, dim))
    vector, exponents = np.ones(arms), np.full(_CACHE, -0.1)

    def transforms() -> None:
        for _ in range(2):
            scipy.fft.dct(panel, norm="ortho", overwrite_x=True)

    np.copyto(other, matrix)  # its pages are there
    return Rates(
        _seconds(lambda: square @ square) / (2 * len(square) ** 3),
        _seconds(transforms) / panel.size,
        _seconds(lambda: np.copyto(other, matrix)) / matrix.size,
        _seconds(lambda: vector @ matrix) / matrix.size,
        _seconds(lambda: np.exp(exponents)) / exponents.size,
    )


_SQUARE = np.random.default_rng(0).standard_normal((1000, 1000))


def _seconds(work: Callable[[], object]) -> float:
    work()
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / 1e9


def parts_of(arms: float) -> int:
    """Parts of a star."""
    return 2 * math.ceil((1 + arms) / (2 * TOGETHER))


def floor(dim: int, seen: Round, rates: Rates) -> float:
    """Seconds by the formula above."""
    arms = seen.queries - QUERIES
    parts = parts_of(arms)
    operations = arms**2 * dim / parts + arms**3 / (3 * parts**2)
    exponentials, passes = arms**2 / (2 * parts), 4 * arms * dim
    if looks_back(dim):
        new = seen.queries
        points = min(2 * dim + 1, seen.points + new)
        new = min(new, points)
        operations += (2 * points * new - new**2) * dim + points**3 / 3
        exponentials += points * new - new**2 / 2
        passes += 2 * points * dim
    else:
        passes += 2 * arms * dim
    return (
        operations * rates.operation
        + seen.rows * dim * rates.transformed
        + seen.queries * dim * rates.copied
        + passes * rates.summed
        + exponentials * rates.exponential
    )


def calls(dim: int, seen: Round, repeats: int = 5) -> float:
    """Seconds of the calls alone, at their sizes: transforms, a copy, products, exponentials, factors, passes."""
    rng, arms = np.random.default_rng(0), int(seen.queries) - QUERIES
    rows = max(1, int(seen.rows))
    star = rng.standard_normal((arms, dim))
    sizes = [(arms // parts_of(arms) + 1, arms // parts_of(arms) + 1)] * parts_of(arms)
    if looks_back(dim):
        points = int(min(2 * dim + 1, seen.points + seen.queries))
        sizes.append((points, min(points, int(seen.queries))))
    blocks = [(rng.standard_normal((n, dim)), k, np.eye(n, order="F") + 0.1, rng.random(n)) for n, k in sizes]
    other = np.empty((int(seen.queries), dim))

    def once() -> None:
        scipy.fft.dct(scipy.fft.dct(star[:rows], norm="ortho"), norm="ortho")
        np.copyto(other[:arms], star)
        for block, new, kernel, vector in blocks:
            block @ block.T if new == len(block) else block @ block[:new].T
            np.exp(kernel[:new])
            factor = scipy.linalg.lapack.dpotrf(kernel, lower=1, clean=0)[0]
            scipy.linalg.lapack.dpotrs(factor, kernel[:, :3], lower=1)
            vector @ block
        for _ in range(3 if looks_back(dim) else 5):
            star @ star[0]

    once()
    times = []
    for _ in range(repeats):
        started = time.process_time_ns()
        once()
        times.append(time.process_time_ns() - started)
    return float(np.median(times)) / 1e9


def row(dim: int) -> str:
    """A row of the table: the median of some rounds, each with the floor of its own number of queries."""
    last = LATE if dim <= 300 else 25 if looks_back(dim) else 12 if dim <= 5_000 else 5
    rounds, rates = measured(dim, last)
    middle = rounds[EARLY - 5 : EARLY + 5] if last > EARLY else rounds[last // 2 :]
    seen = sorted(middle, key=lambda r: r.own / floor(dim, r, rates))[len(middle) // 2]
    least, alone = floor(dim, seen, rates), calls(dim, seen)
    late = float(np.mean([r.own for r in rounds[-12:]])) / float(np.median([r.own for r in middle]))
    return (
        f"| {dim:,} | {seen.queries:.0f} | {seen.own * 1e3:.1f} | {seen.own * 1e3 / seen.queries:.2f} | "
        f"{least * 1e3:.1f} | {seen.own / least:.1f} | {alone * 1e3:.1f} | {seen.own / alone:.1f} | "
        f"{f'{late:.2f}' if last == LATE else ''} |"
    )
