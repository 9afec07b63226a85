"""Beyond the paper: rounds, queries and bytes to a target, on the quadratic; and F reached on Ackley and Levy.

    python benchmarks/beyond.py [--seeds 5] [--others | --ablation]

d = 300, N = 5, T = 10, Adam(0.01). Settings were chosen on seed 101 of the quadratic; the seeds here are 0, 1, 2, ...
"exact" is the same loop fed the true gradient of F: nothing can be faster with these steps.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from machine import describe

from fzoos import (
    ActiveQueries,
    Adam,
    Constant,
    FedZO,
    FZooS,
    InitialDesign,
    Reciprocal,
    ScaffoldII,
    minimize,
)
from fzoos.algorithms import Algorithm
from fzoos.result import Record
from fzoos.tasks import Ackley, Levy, Quadratic

TARGETS = {0.5: ("F - F* <= 0.05", 0.05), 5.0: ("F - F* <= 0.05", 0.05), 50.0: ("F <= 1.0", 1.025)}
ALGORITHMS: dict[str, Algorithm] = {
    "FedZO": FedZO(),
    "SCAFFOLD-II": ScaffoldII(),
    "FZooS, paper's settings": FZooS.paper(points=150, feature_points=500),
    "FZooS": FZooS(),
    "FZooS.frugal": FZooS.frugal(),
}


def run(task: Any, algorithm: Algorithm, rounds: int, target: float | None = None) -> tuple[list[float], list[Record]]:
    """F - F* after each round, and the records; a run ends at the target."""
    records: list[Record] = []

    def callback(record: Record) -> bool:
        records.append(record)
        return target is not None and record.monitor is not None and record.monitor - task.minimum <= target

    minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm,
        rounds=rounds,
        vectorized=True,
        monitor=task.value,
        callback=callback,
        seed=task.seed,
    )
    return [float(r.monitor or 0.0) - task.minimum for r in records], records


def exact(task: Any, target: float) -> int:
    """Rounds of ten Adam steps with the true gradient; all clients would do the same."""
    width = 2.0 * task.half_width
    x, adam = (task.x0 + task.half_width) / width, Adam(0.01)
    for r in range(1, 51):
        state = adam.init(len(x))
        for _ in range(10):
            state, step = adam.step(state, task.gradient(width * x - task.half_width) * width)
            x = np.clip(x - step, 0.0, 1.0)
        if task.value(width * x - task.half_width) - task.minimum <= target:
            return r
    return 50


def spread(values: list[float]) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):,.1f} ± {error:.1f}" if max(values) < 100 else f"{np.mean(values):,.0f} ± {error:,.0f}"


def quadratic(seeds: int) -> None:
    print("\n| C | target | algorithm | reached by | rounds | queries | bytes per client and round |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for c, (words, target) in TARGETS.items():
        tasks = [Quadratic(300, 5, c, seed) for seed in range(seeds)]
        fastest = spread([exact(task, target) for task in tasks])
        print(f"| {c:g} | {words} | exact gradient | {seeds} of {seeds} | {fastest} | | |")
        for label, algorithm in ALGORITHMS.items():
            found = [run(task, algorithm, 30, target) for task in tasks]
            good = [records for gaps, records in found if gaps[-1] <= target]
            last = [records[-1] for _, records in found]
            size = np.mean([(r.bytes_up + r.bytes_down) / r.round / 5 for r in last])
            rounds, queries = "–", "–"
            if good:
                rounds, queries = (spread([getattr(r[-1], name) for r in good]) for name in ("round", "queries"))
            share = f"{len(good)} of {seeds}"
            print(f"| {c:g} | {words} | {label} | {share} | {rounds} | {queries} | {size:,.0f} |", flush=True)


def others(seeds: int) -> None:
    print("\n| task | C | algorithm | F - F* at x0 | after 8 rounds | queries |\n| --- | --- | --- | --- | --- | --- |")
    for kind, c in ((Ackley, 0.5), (Ackley, 5.0), (Levy, 0.5), (Levy, 5.0)):
        tasks = [kind(300, 5, c, seed) for seed in range(seeds)]
        start = np.mean([task.value(task.x0) - task.minimum for task in tasks])
        for label, algorithm in ALGORITHMS.items():
            found = [run(task, algorithm, 8) for task in tasks]
            gaps = [gap[-1] for gap, _ in found]
            error = np.std(gaps, ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
            queries = found[0][1][-1].queries
            cells = f"{start:.3g} | {np.mean(gaps):.3g} ± {error:.2g} | {queries:,}"
            print(f"| {kind.name} | {c:g} | {label} | {cells} |", flush=True)


ABLATION: dict[str, Algorithm] = {
    "FZooS.frugal": FZooS.frugal(),
    "weights in place of the gradient": FZooS.frugal(sends="weights"),
    "correction length 1": FZooS.frugal(length=Constant(1.0)),
    "correction length 1/t": FZooS.frugal(length=Reciprocal()),
    "no correction in the first round": FZooS.frugal(early=False),
    "most uncertain of 240 candidates": FZooS.frugal(refresh=ActiveQueries(240, 60)),
    "uniform initial design": FZooS.frugal(initial=InitialDesign(301, 0.01)),
}


def ablation(seeds: int) -> None:
    print("\n| without one change | C | F - F* after 3 rounds | after 6 | queries after 6 |")
    print("| --- | --- | --- | --- | --- |")
    for label, algorithm in ABLATION.items():
        for c in TARGETS:
            found = [run(Quadratic(300, 5, c, seed), algorithm, 6) for seed in range(seeds)]
            three, six = (np.mean([gaps[k] for gaps, _ in found]) for k in (2, 5))
            print(f"| {label} | {c:g} | {three:.3f} | {six:.3f} | {found[0][1][-1].queries:,} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--ablation", action="store_true")
    arguments = parser.parse_args()
    print(describe())
    if arguments.ablation:
        ablation(arguments.seeds)
    elif arguments.others:
        others(arguments.seeds)
    else:
        quadratic(arguments.seeds)


if __name__ == "__main__":
    main()
