"""F against rounds and queries on the quadratic task, all algorithms, three heterogeneities.

    python benchmarks/quadratic.py [--seeds 5] [--rounds 20] [--jobs 2]

Writes results/quadratic.csv (every round of every run) and docs/figures/quadratic.png, and prints the tables of the
README beside this file. d = 300, N = 5, T = 10; seeds 0 to 4. The defaults of FZooS were chosen on seeds 100 and 101.
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
from machine import describe

from fzoos import FedProx, FedZO, FZooS, ScaffoldI, ScaffoldII, minimize
from fzoos.algorithms import Algorithm
from fzoos.report import plot_curves
from fzoos.tasks import Quadratic

HERE = Path(__file__).parent
HETEROGENEITIES = (0.5, 5.0, 50.0)
ALGORITHMS: dict[str, Algorithm] = {
    "FedZO": FedZO(),
    "FedProx": FedProx(),
    "SCAFFOLD-I": ScaffoldI(),
    "SCAFFOLD-II": ScaffoldII(),
    "FZooS, paper's settings": FZooS.paper(points=150, feature_points=500),
    "FZooS": FZooS(),
}
Row = tuple[str, float, int, int, int, float, float]
COLUMNS = ("algorithm", "heterogeneity", "seed", "round", "queries", "megabytes", "F")


def curve(job: tuple[str, float, int, int]) -> list[Row]:
    """All rounds of one run, round 0 included."""
    label, heterogeneity, seed, rounds = job
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
    rows: list[Row] = [(label, heterogeneity, seed, 0, 0, 0.0, task.value(task.x0))]
    for r in result.history:
        assert r.monitor is not None
        rows.append((label, heterogeneity, seed, r.round, r.queries, (r.bytes_up + r.bytes_down) / 1e6, r.monitor))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs = list(itertools.product(ALGORITHMS, HETEROGENEITIES, range(options.seeds), [options.rounds]))
    rows: list[Row] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done, curve_rows in enumerate(pool.map(curve, jobs), start=1):
            rows.extend(curve_rows)
            print(f"\r{done} of {len(jobs)} runs", end="", flush=True)
    print()
    (HERE / "results").mkdir(exist_ok=True)
    with open(HERE / "results" / "quadratic.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
    report(rows, options.rounds, options.seeds)


def report(rows: list[Row], rounds: int, seeds: int) -> None:
    """Print mean and standard error of F after some rounds, and draw the figure."""
    print(f"# Quadratic, d = 300, N = 5, T = 10, {seeds} seeds\n# {describe()}")
    values = {(label, c, r): [] for label in ALGORITHMS for c in HETEROGENEITIES for r in range(rounds + 1)}
    queries: dict[tuple[str, float, int], int] = {}
    for label, c, _, r, asked, _, f in rows:
        values[label, c, r].append(f)
        queries[label, c, r] = asked
    marks = [r for r in (5, 10, 20, 50) if r <= rounds]
    for c in HETEROGENEITIES:
        start = np.mean(values["FZooS", c, 0])
        print(f"\nC = {c:g}, F_0 = {start:.2f}\n")
        print("| algorithm | " + " | ".join(f"F after {r} rounds | queries" for r in marks) + " |")
        print("| --- |" + " --- | --- |" * len(marks))
        for label in ALGORITHMS:
            cells = []
            for r in marks:
                f = np.array(values[label, c, r])
                error = f.std(ddof=1) / np.sqrt(len(f)) if len(f) > 1 else 0.0
                cells.append(f"{f.mean():.3f} ± {error:.3f} | {queries[label, c, r]:,}")
            print(f"| {label} | " + " | ".join(cells) + " |")
    # figure
    minimum = Quadratic().minimum
    panels = {
        f"C = {c:g}": {
            label: (
                np.array([queries[label, c, r] for r in range(rounds + 1)]),
                np.array([values[label, c, r] for r in range(rounds + 1)]).T - minimum,
            )
            for label in ALGORITHMS
        }
        for c in HETEROGENEITIES
    }
    target = HERE.parent / "docs" / "figures" / "quadratic.png"
    plot_curves(panels, target)
    print(f"\nfigure: {target.relative_to(HERE.parent)}")


if __name__ == "__main__":
    main()
