"""What noise costs: F on the quadratic task for several noise multipliers, with the epsilon that they give.

    python -m benchmarks.federation.privacy [--seeds 3] [--jobs 2]

Prints the table of docs/privacy.md. C = 5, T = 4, R = 20, Adam with learning rate 0.025, clip 0.1, delta 1e-5; x0 is 10
in each coordinate. The box is [-4, 16]^d and not the task's own, whose centre is next to the minimum, so that what
noise does by itself is not taken for progress. "Noise alone" is the same study with objectives that are constant. The
weights w of FZooS are clipped to 30, the gradients of FedTrustRegion to 5.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # runs are parallel instead
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import itertools
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from fzoos.engines.local import LocalEngine
from fzoos.federation.privacy import Privacy
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.runs.store import Store
from fzoos_experiments.tasks import Quadratic

NOISES = (0.0, 1.0, 2.0, 4.0, 8.0)  # z; 0: no privacy
SMALL_FZOOS = {  # small, since the task is
    "name": "fzoos",
    "features": 200,
    "points": 60,
    "feature_points": 60,
    "initial": 20,
    "active": {"candidates": 10, "picks": 2, "radius": 0.05},
    "refresh": {"candidates": 20, "picks": 10},
}
CASES: dict[str, tuple[int, int, dict[str, Any], float]] = {  # d, N, algorithm, clip of the payload
    "FedZO, d = 10, 20 sites": (10, 20, {"name": "fedzo"}, 1.0),
    "FedZO, d = 10, 100 sites": (10, 100, {"name": "fedzo"}, 1.0),
    "FedZO, d = 300, 5 sites": (300, 5, {"name": "fedzo"}, 1.0),
    "FedTrustRegion, d = 10, 20 sites": (10, 20, {"name": "fedtrustregion"}, 5.0),
    "FZooS, d = 10, 20 sites": (10, 20, SMALL_FZOOS, 30.0),
}
Job = tuple[str, float, int, bool]  # case, z, seed, whether the objectives are the task's


def constant(x: np.ndarray) -> np.ndarray:
    return np.zeros(len(x))


def run(job: Job) -> tuple[float, float]:
    """F at the end, and epsilon."""
    case, noise, seed, informed = job
    dim, sites, algorithm, clip_payload = CASES[case]
    settings: dict[str, Any] = algorithm if informed else {"name": "fedzo"}
    if settings["name"] != "fedtrustregion":
        steps = 4 if informed else 1
        settings = settings | {"local_steps": steps, "optimizer": {"name": "adam", "learning_rate": 0.025}}
    task = Quadratic(dim=dim, clients=sites, heterogeneity=5.0, seed=seed)
    study = Study(
        "quadratic",
        x0=10.0,
        dim=dim,
        bounds=(-4.0, 16.0),
        sites=tuple(f"site-{i}" for i in range(sites)),
        rounds=20,
        seed=seed,
        vectorized=True,
        algorithm=settings,
        privacy={"clip": 0.1, "noise": noise, "clip_payload": clip_payload} if noise else None,
    )
    objectives = task.objectives if informed else [constant] * sites
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.db"
        # Clients without a journal: only the noise matters here.
        engine = LocalEngine([study.client(i, objective) for i, objective in enumerate(objectives)])
        result = run_study(study, engine, path)
        with Store(path) as store:
            epsilon = store.extra(store.last or 0).get("epsilon", float("inf"))
    return task.value(result.x), epsilon


def cell(values: list[float]) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.2f} ± {error:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    start = time.perf_counter()
    jobs: list[Job] = [
        job for job in itertools.product(CASES, NOISES, range(options.seeds), (True, False)) if job[1] or job[3]
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = dict(zip(jobs, pool.map(run, jobs), strict=True))
    print(f"# {options.seeds} seeds, {time.perf_counter() - start:.0f} s\n# {describe()}\n")
    print("| | z | epsilon | weaker epsilon | F | F of noise alone |\n| --- | --- | --- | --- | --- | --- |")
    for case, noise in itertools.product(CASES, NOISES):
        runs = [found[case, noise, seed, True] for seed in range(options.seeds)]
        values, epsilon = cell([value for value, _ in runs]), runs[0][1]
        if not noise:
            print(f"| {case} | none | ∞ | ∞ | {values} | |")
            continue
        releases = {"FedTrustRegion": 60, "FZooS": 39}.get(case.partition(",")[0], 20)  # arrays of a site in all rounds
        weaker = Privacy(0.1, 2.0 * noise).epsilon(releases)  # against a site that sends noise alone
        alone = cell([found[case, noise, seed, False][0] for seed in range(options.seeds)])
        print(f"| | {noise:g} | {epsilon:.1f} | {weaker:.1f} | {values} | {alone} |")


if __name__ == "__main__":
    main()
