"""What the queries at the local iterates, and the projection to the box, do: FZooS on all tasks at a reduced size.

    python -m benchmarks.paper.iterates [--folder benchmarks/paper/results/iterates] [--jobs 2]

Makes the runs that are not in the folder yet, and prints a table. Attacks: CIFAR-10 with the quick models, P = 0.5,
four images, at most 30 rounds; metrics: precision on 20 000 rows of Covertype, P = 0.3, 10 rounds, two seeds;
quadratic: d = 300, 20 rounds, two seeds. Nearest 150 and 500 points, as the authors' program.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fzoos import FZooS
from fzoos_experiments.paper.ablations import WithoutIterates
from fzoos_experiments.paper.run import Run
from fzoos_experiments.paper.runner import execute
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import TaskSpec

FOLDER = Path(__file__).parent / "results" / "iterates"
ALGORITHMS = {
    "yes": FZooS(points=150, feature_points=500),
    "no": WithoutIterates(points=150, feature_points=500),
    "yes, not projected": FZooS(points=150, feature_points=500, projected=False),
    "no, not projected": WithoutIterates(points=150, feature_points=500, projected=False),
}
SEEDS, IMAGES = range(2), range(4)


def tasks() -> dict[str, list[tuple[TaskSpec, int, int, int]]]:
    """Label to the task, rounds, seed and image of each repetition."""
    found = {}
    for c in (0.5, 5.0, 50.0):
        spec = [TaskSpec.of("quadratic", heterogeneity=c, dim=300, seed=seed) for seed in SEEDS]
        found[f"quadratic, C = {c:g}: F − F*"] = [(task, 20, seed, -1) for seed, task in enumerate(spec)]
    metric = {"metric": "precision", "portion": 0.3, "device": "cpu", "samples": 20_000}
    found["precision, P = 0.3: 100 F"] = [(TaskSpec.of("metric", **metric, seed=seed), 10, seed, -1) for seed in SEEDS]
    attack = {"dataset": "cifar10", "portion": 0.5, "seed": 0, "device": "cpu", "images": len(IMAGES), "quick": True}
    found["CIFAR-10, P = 0.5: rounds to success"] = [(TaskSpec.of("attack", **attack), 30, 0, i) for i in IMAGES]
    return found


def result(label: str, rows: list[dict[str, float]]) -> float:
    """What is compared: F at the end, or how many rounds an attack took."""
    if "success" in label:
        return rows[-1]["round"] if rows[-1]["margin"] < 0 else np.inf
    return 100.0 * rows[-1]["F"] if "100" in label else rows[-1]["F"] - (-0.025 + 0.1 / 300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    runs = {
        (label, name): [Run(task, algorithm, rounds, seed, image=image) for task, rounds, seed, image in repetitions]
        for label, repetitions in tasks().items()
        for name, algorithm in ALGORITHMS.items()
    }
    execute([run for group in runs.values() for run in group], options.folder, options.jobs)
    store = Store(options.folder)
    print("| task | iterates queried | median | lowest | highest | queries |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for (label, name), group in runs.items():
        stored = [store.load(run) or [] for run in group]
        values = [result(label, rows) for rows in stored]
        queries = np.median([rows[-1]["queries"] for rows in stored])
        numbers = " | ".join("–" if np.isinf(v) else f"{v:.3g}" for v in (np.median(values), min(values), max(values)))
        print(f"| {label} | {name} | {numbers} | {queries:,.0f} |")


if __name__ == "__main__":
    main()
