"""F against time where one of five sites is ten times slower: waiting for it, dropping it, or asynchronous rounds.

    python -m benchmarks.federation.asynchronous [--seeds 5] [--jobs 2] [--figure FILE.svg]

Prints the table of docs/engines.md. The clock is simulated: a query takes 1 at the fast sites and 10 at the slow one, a
message and its answer 0.1; arithmetic takes no time. So it is the same on every machine, and nobody waits. Servers,
clients and messages are those of a study.

    waiting         an exchange takes as long as the slowest site
    dropping        an exchange ends when four have answered, and averages are over those; a late answer is thrown away,
                    and a site that is still busy gets no request
    asynchronous    `enough = 4`

The quadratic task, d = 20, C = 5: the optimum of the four fast sites is not that of all five.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # runs are parallel instead
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import heapq
import itertools
import math
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.federation.privacy import SMALL_FZOOS
from benchmarks.machine import describe
from fzoos.federation.asynchronous import AsynchronousServer
from fzoos.federation.client import Client
from fzoos.federation.exchange import Dropouts, Gathering, Outcome, Undelivered
from fzoos.federation.server import Server
from fzoos.federation.study import Study
from fzoos.messages.message import Message
from fzoos_experiments.tasks import Quadratic

SITES, ENOUGH, DIM, STEPS, SLOW, LATENCY = 5, 4, 20, 5, 10.0, 0.1
ALGORITHMS: dict[str, dict[str, Any]] = {
    "FedTrustRegion": {"name": "fedtrustregion"},
    "FZooS": SMALL_FZOOS | {"local_steps": STEPS},
    "FedZO": {"name": "fedzo", "local_steps": STEPS},
    "ScaffoldI": {"name": "scaffoldi", "local_steps": STEPS},
    "ScaffoldII": {"name": "scaffoldii", "local_steps": STEPS},
}
ROUNDS = {"waiting": 300, "dropping": 300, "asynchronous": 900}  # by then FedTrustRegion is at its optimum
WAYS = ("waiting", "dropping", "asynchronous")
TIMES = (500.0, 1000.0, 2000.0, 5000.0)
Job = tuple[str, str, int]  # algorithm, way, seed
Curve = list[tuple[float, float]]  # time, F - F*


class Simulated:
    """An engine with a clock of its own: an answer takes as long as its queries do.

    Args:
        clients: the clients.
        seconds: what a query takes at each of them.
        dropping: whether an exchange ends when enough have answered; otherwise it waits for all.
    """

    def __init__(self, clients: list[Client], seconds: list[float], dropping: bool) -> None:
        self.now = 0.0
        self._clients, self._seconds, self._dropping = clients, seconds, dropping
        self._under_way: list[tuple[float, int, Message]] = []  # a heap: when the answer comes, of whom, what

    def _send(self, requests: Mapping[int, Message]) -> None:
        for i, request in requests.items():
            before = self._clients[i].queries
            reply = self._clients[i].handle(request)
            took = self._seconds[i] * (self._clients[i].queries - before) + LATENCY
            heapq.heappush(self._under_way, (self.now + took, i, reply))

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        self._send(requests)
        outcome, gathering = Outcome(), Gathering(requests, enough, lambda: self.now)
        while (left := gathering.left(outcome, [i for _, i, _ in self._under_way])) > 0.0:
            if self._under_way[0][0] > self.now + left:
                self.now += left
                break
            self.now, i, reply = heapq.heappop(self._under_way)
            outcome.replies[i] = reply
        return outcome

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        if not self._dropping:
            self._send(requests)
            self.now = max(end for end, _, _ in self._under_way)
            replies, self._under_way = {i: reply for _, i, reply in self._under_way}, []
            return Outcome(replies)
        busy = {i for end, i, _ in self._under_way if end > self.now}
        self._under_way = [entry for entry in self._under_way if entry[1] in busy]  # what came between is thrown away
        heapq.heapify(self._under_way)
        idle = {i: request for i, request in requests.items() if i not in busy}
        outcome = self.gather(idle, timeout, ENOUGH)
        for i in requests.keys() - outcome.replies.keys():
            outcome.failures[i] = Undelivered("busy") if i in busy else TimeoutError("late")
        for i in outcome.replies.keys() - idle.keys():
            del outcome.replies[i]
        return outcome


def run(job: Job) -> Curve:
    """F - F* after each round, and when that was."""
    algorithm, way, seed = job
    task = Quadratic(dim=DIM, clients=SITES, heterogeneity=5.0, seed=seed)
    study = Study(
        "asynchronous",
        x0=task.x0.tolist(),
        bounds=np.asarray(task.bounds).tolist(),
        sites=tuple(f"site-{i}" for i in range(SITES)),
        seed=seed,
        vectorized=True,
        algorithm=ALGORITHMS[algorithm],
    )
    clients = [study.client(i, objective) for i, objective in enumerate(task.objectives)]
    engine = Simulated(clients, [1.0] * (SITES - 1) + [SLOW], dropping=way == "dropping")
    settings: dict[str, Any] = {
        "weights": study.omega,
        "participants": SITES,
        "shared_seed": study.seeds.shared,
        "rng": np.random.default_rng(study.seeds.server),
        "dropouts": Dropouts(1),
    }
    x, made = study.box.to_cube(study.start), study.algorithm_settings
    server = (
        AsynchronousServer(engine, made, x, enough=ENOUGH, **settings)
        if way == "asynchronous"
        else Server(engine, made, x, **settings)
    )
    gaps = [(0.0, float(task.value(study.start) - task.minimum))]
    while engine.now < TIMES[-1] and gaps[-1][1] > 1e-10 and server.round < ROUNDS[way]:
        server.run(server.plan())
        gaps.append((engine.now, float(task.value(study.box.from_cube(server.x)) - task.minimum)))
    return gaps


def at(curve: Curve, when: float) -> float:
    """F - F* at a time."""
    return [value for moment, value in curve if moment <= when][-1]


def draw(found: Mapping[Job, Curve], algorithms: list[str], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(algorithms), figsize=(3.2 * len(algorithms), 3.0), sharey=True)
    times = np.geomspace(20.0, TIMES[-1], 200)
    for axis, algorithm in zip(np.atleast_1d(axes), algorithms, strict=True):
        for way in dict.fromkeys(how for name, how, _ in found if name == algorithm):
            curves = [curve for (name, how, _), curve in found.items() if (name, how) == (algorithm, way)]
            values = [math.exp(np.mean([math.log(max(at(c, t), 1e-12)) for c in curves])) for t in times]
            axis.loglog(times, values, label=way)
        axis.set_title(algorithm)
        axis.set_xlabel("time, in queries of a fast site")
        axis.grid(alpha=0.3)
    np.atleast_1d(axes)[0].set_ylabel("F - F*")
    np.atleast_1d(axes)[0].legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--algorithms", nargs="*", default=list(ALGORITHMS))
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    jobs: list[Job] = list(itertools.product(options.algorithms, WAYS, range(options.seeds)))
    with ProcessPoolExecutor(options.jobs) as pool:
        found = dict(zip(jobs, pool.map(run, jobs), strict=True))
    print(f"# {options.seeds} seeds, geometric means of F - F*, {time.perf_counter() - start:.0f} s\n# {describe()}\n")
    print(f"| algorithm | | {' | '.join(f't = {t:,.0f}' for t in TIMES)} |\n| --- | --- |{' ---: |' * len(TIMES)}")
    for algorithm, way in dict.fromkeys(job[:2] for job in jobs):
        logs = [
            [math.log(max(at(found[algorithm, way, seed], t), 1e-12)) for seed in range(options.seeds)] for t in TIMES
        ]
        print(f"| {algorithm} | {way} | {' | '.join(f'{math.exp(np.mean(cell)):.2g}' for cell in logs)} |")
    if options.figure is not None:
        draw(found, options.algorithms, options.figure)


if __name__ == "__main__":
    main()
