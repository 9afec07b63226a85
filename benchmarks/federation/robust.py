"""The effect of liars on each aggregate, and its cost without liars: F - F* on the quadratic task.

    python -m benchmarks.federation.robust [--algorithm auto] [--seeds 3] [--jobs 2]

Prints the table of docs/privacy.md. Five sites, d = 20, T = 5, R = 20, the task's own box. The liars see what the
honest sites send in the same exchange, which is more than a site can see, and agree with each other.

    x + 10 sigma     x is the honest mean plus ten of their standard deviations, in every coordinate
    opposite g       the payload (gradients, slopes, weights) has the other sign, x is honest
    a little         everything is the honest mean less 1.5 standard deviations: within the honest sites' spread
    back             x is where the round began, minus the honest mean's step, five times as long
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # runs are parallel instead
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.machine import describe
from fzoos.algorithms import find_algorithm
from fzoos.algorithms.local_steps import LocalSteps
from fzoos.engines.local import LocalEngine
from fzoos.federation.aggregate import AGGREGATES
from fzoos.federation.exchange import Outcome
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.message import Arrays, Message
from fzoos_experiments.tasks import Quadratic

SITES, DIM, STEPS, ROUNDS = 5, 20, 5, 20
Lie = Callable[
    [Arrays, list[Arrays], np.ndarray], dict[str, np.ndarray]
]  # own arrays, the honest ones', the server's x


def spread(honest: list[Arrays], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of what honest sites send."""
    values = np.stack([arrays[name] for arrays in honest])
    return values.mean(axis=0), values.std(axis=0)


def far_away(own: Arrays, honest: list[Arrays], x: np.ndarray) -> dict[str, np.ndarray]:
    if "x" not in own:
        return dict(own)
    mean, deviation = spread(honest, "x")
    return {**own, "x": mean + 10.0 * deviation}


def opposite(own: Arrays, honest: list[Arrays], x: np.ndarray) -> dict[str, np.ndarray]:
    return {name: array if name == "x" else -array for name, array in own.items()}


def a_little(own: Arrays, honest: list[Arrays], x: np.ndarray) -> dict[str, np.ndarray]:
    return {name: spread(honest, name)[0] - 1.5 * spread(honest, name)[1] for name in own}


def back(own: Arrays, honest: list[Arrays], x: np.ndarray) -> dict[str, np.ndarray]:
    return {**own, "x": x - 5.0 * (spread(honest, "x")[0] - x)} if "x" in own else dict(own)


ATTACKS: dict[str, tuple[int, Lie | None]] = {  # how many of the five lie, and how
    "nobody lies": (0, None),
    "one, x + 10 sigma": (1, far_away),
    "two, x + 10 sigma": (2, far_away),
    "one, opposite g": (1, opposite),
    "two, opposite g": (2, opposite),
    "one, a little": (1, a_little),
    "two, a little": (2, a_little),
    "one, back": (1, back),
    "two, back": (2, back),
}
HETEROGENEITIES = (0.5, 5.0, 50.0)  # C
Job = tuple[str, float, str, str, int]  # algorithm, C, attack, aggregate, seed


class Lying:
    """An engine whose last clients lie; what is out of range, an honest server would refuse, and is clipped."""

    def __init__(self, engine: LocalEngine, study: Study, liars: int, lie: Lie) -> None:
        self._engine, self._lie, self._honest = engine, lie, SITES - liars
        self._algorithm = study.algorithm_settings
        self._x = study.box.to_cube(study.start)

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        outcome = self._engine.exchange(requests, timeout)
        for request in requests.values():
            self._x = request.arrays.get("x", self._x)
        honest = [reply.arrays for i, reply in outcome.replies.items() if i < self._honest]
        replies = {
            i: reply
            if i < self._honest
            else replace(reply, arrays=self._within(requests[i], self._lie(reply.arrays, honest, self._x)))
            for i, reply in outcome.replies.items()
        }
        return replace(outcome, replies=replies)

    def _within(self, request: Message, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        parts = self._algorithm.server(DIM).reply_parts(request)
        ranges = {name: (part.low, part.high) for name, part in parts.items()} | {"x": (0.0, 1.0)}
        return {name: np.clip(array, *ranges[name]) for name, array in arrays.items()}


def run(job: Job) -> float:
    """F - F* at the end."""
    algorithm, heterogeneity, attack, aggregate, seed = job
    steps = {"local_steps": STEPS} if issubclass(find_algorithm(algorithm), LocalSteps) else {}
    liars, lie = ATTACKS[attack]
    task = Quadratic(dim=DIM, clients=SITES, heterogeneity=heterogeneity, seed=seed)
    study = Study(
        "robust",
        x0=task.x0.tolist(),
        bounds=np.asarray(task.bounds).tolist(),
        sites=tuple(f"site-{i}" for i in range(SITES)),
        rounds=ROUNDS,
        seed=seed,
        vectorized=True,
        algorithm={"name": algorithm} | steps,
        aggregate=aggregate,
    )
    engine = LocalEngine([study.client(i, objective) for i, objective in enumerate(task.objectives)])
    with tempfile.TemporaryDirectory() as folder:
        used = engine if lie is None else Lying(engine, study, liars, lie)
        result = run_study(study, used, Path(folder) / "result.db")
    if result.status not in ("completed", "converged"):
        raise RuntimeError(f"{job}: {result.message}")
    return float(task.value(result.x) - task.minimum)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start = time.perf_counter()
    jobs: list[Job] = [
        (options.algorithm, heterogeneity, attack, aggregate, seed)
        for heterogeneity, attack, aggregate, seed in itertools.product(
            HETEROGENEITIES, ATTACKS, AGGREGATES, range(options.seeds)
        )
        if attack == "nobody lies" or heterogeneity == 5.0
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = dict(zip(jobs, pool.map(run, jobs), strict=True))
    print(f"# {options.algorithm}, {options.seeds} seeds, {time.perf_counter() - start:.0f} s\n# {describe()}\n")
    print(f"| C | attack | {' | '.join(AGGREGATES)} |\n| --- | --- |{' --- |' * len(AGGREGATES)}")
    for heterogeneity, attack in itertools.product(HETEROGENEITIES, ATTACKS):
        cells = [
            [found.get((options.algorithm, heterogeneity, attack, how, seed)) for seed in range(options.seeds)]
            for how in AGGREGATES
        ]
        values = [[value for value in cell if value is not None] for cell in cells]
        if values[0]:
            print(f"| {heterogeneity:g} | {attack} | {' | '.join(f'{np.mean(cell):.4f}' for cell in values)} |")


if __name__ == "__main__":
    main()
