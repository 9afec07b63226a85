"""F against rounds and queries on the quadratic task, all algorithms, three heterogeneities.

    python -m benchmarks.paper.quadratic [--seeds 5] [--rounds 20] [--jobs 2]

Writes results/quadratic.csv (every round of every run) and docs/figures/quadratic.png, and prints the tables of
README.md. d = 300, N = 5, T = 10; seeds 0 to 4. "FZooS" is FZooS.weights(), chosen on seeds 100 and 101.
"FZooS, paper's settings" uses the nearest 150 and 500 points, as the paper's authors did in their program, and FedProx
their gamma = 1 and orthonormal directions.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # runs are parallel instead
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import itertools
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.machine import describe
from fzoos import FedZO, FZooS, ScaffoldI, ScaffoldII, minimize
from fzoos.algorithms import Algorithm
from fzoos.experiments.figures import prox
from fzoos.runs.plots import Trial, plot_curves
from fzoos.tasks import Quadratic

HERE = Path(__file__).parent
HETEROGENEITIES = (0.5, 5.0, 50.0)
ALGORITHMS: dict[str, Algorithm] = {
    "FedZO": FedZO(),
    "FedProx": prox(),
    "ScaffoldI": ScaffoldI(),
    "ScaffoldII": ScaffoldII(),
    "FZooS, paper's settings": FZooS.paper(points=150, feature_points=500),
    "FZooS": FZooS.weights(),
}
Job = tuple[float, str, int, int]  # heterogeneity, algorithm, seed, rounds


def run(job: Job) -> Trial:
    heterogeneity, label, seed, rounds = job
    task = Quadratic(heterogeneity=heterogeneity, seed=seed)
    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=ALGORITHMS[label],
        rounds=rounds,
        vectorized=True,
        monitor=task.value,
        seed=seed,
    )
    return Trial(label, result, task.value(task.x0), task.minimum)


def write_csv(trials: dict[Job, Trial], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("heterogeneity", "algorithm", "seed", "round", "queries", "bytes_up", "bytes_down", "F"))
        for (heterogeneity, label, seed, _), trial in trials.items():
            writer.writerow((heterogeneity, label, seed, 0, 0, 0, 0, trial.start))
            for r in trial.result.history:
                writer.writerow((heterogeneity, label, seed, r.round, r.queries, r.bytes_up, r.bytes_down, r.monitor))


def print_tables(groups: dict[float, dict[str, list[Trial]]], rounds: int) -> None:
    """Mean and standard error of F after some rounds, and the queries made by then."""
    marks = [r for r in (5, 10, 20, 50) if r <= rounds]
    for heterogeneity, group in groups.items():
        start = np.mean([trial.start for trial in group["FZooS"]])
        print(f"\nC = {heterogeneity:g}, F_0 = {start:.2f}\n")
        print("| algorithm | " + " | ".join(f"F after {r} rounds | queries" for r in marks) + " |")
        print("| --- |" + " --- | --- |" * len(marks))
        for label, trials in group.items():
            values = np.stack([trial.values for trial in trials])
            mean = values.mean(axis=0)
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0 * mean
            cells = (f"{mean[r]:.3f} ± {error[r]:.3f} | {trials[0].queries[r]:,.0f}" for r in marks)
            print(f"| {label} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs: list[Job] = list(itertools.product(HETEROGENEITIES, ALGORITHMS, range(options.seeds), [options.rounds]))
    trials: dict[Job, Trial] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for job, trial in zip(jobs, pool.map(run, jobs), strict=True):
            trials[job] = trial
            print(f"\r{len(trials)} of {len(jobs)} runs", end="", flush=True)
    write_csv(trials, HERE / "results" / "quadratic.csv")
    groups = {
        heterogeneity: {
            label: [trials[heterogeneity, label, seed, options.rounds] for seed in range(options.seeds)]
            for label in ALGORITHMS
        }
        for heterogeneity in HETEROGENEITIES
    }
    print(f"\n\n# Quadratic, d = 300, N = 5, T = 10, {options.seeds} seeds\n# {describe()}")
    print_tables(groups, options.rounds)
    panels = {
        f"C = {heterogeneity:g}": {
            label: (group[0].queries, np.stack([trial.gap for trial in group])) for label, group in by_label.items()
        }
        for heterogeneity, by_label in groups.items()
    }
    plot_curves(panels, HERE.parents[1] / "docs" / "figures" / "quadratic.png")
    print("\nfigure: docs/figures/quadratic.png")


if __name__ == "__main__":
    main()
