"""Queries per second of the objectives that run a network: batched, and one by one.

    FZOOS_DATA=... python -m benchmarks.speed.objectives [--threads 1] [--device cpu]

The metric task: one client of seven, all of Covertype (41 500 rows each), d = 2189. "One by one" is the usual way: for
each query the parameters are put into a PyTorch network, which predicts all rows, and scikit-learn computes the
precision. "Ours, one by one" is our objective called with batches of one.
The attack: one client's network (its speed does not depend on training, so it is not trained), one image. "One by one"
is again the usual way, a forward pass of one perturbed image through a network as PyTorch makes it: channels first.
"""

from __future__ import annotations

import os
import sys

if "--threads" not in sys.argv:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, whatever the machine has
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import precision_score

from benchmarks.machine import best_of, describe
from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks.attack import DATASETS, Attack
from fzoos_experiments.tasks.data import DataError
from fzoos_experiments.tasks.metric import Metric
from fzoos_experiments.tasks.mlp import LAYERS
from fzoos_experiments.tasks.models import build
from fzoos_experiments.tasks.replay import as_queried
from fzoos_experiments.tasks.split import split_by_class

BATCHES = (5, 21, 50)  # picks of a local step of FZooS; finite differences; the refresh of FZooS
FLOPS = 2 * sum(narrow * wide for narrow, wide in pairwise(LAYERS))


def share_of_first(task: Metric) -> tuple[FloatArray, NDArray[np.int64]]:
    """The first client's standardised features and classes."""
    _, (x, y) = task._halves
    share = split_by_class(y, task.clients, task.portion, task.seed)[0]
    return task.classifier.standardise(x[share]), y[share]


def plain_metric(task: Metric) -> BatchObjective:
    """The first client's objective as one would first write it."""
    features, labels = share_of_first(task)
    rows = torch.as_tensor(features, dtype=torch.float32, device=task.device)
    first, second, third = (torch.nn.Linear(narrow, wide) for narrow, wide in pairwise(LAYERS))
    network = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), third).to(task.device)

    def objective(points: FloatArray) -> FloatArray:
        theta = torch.as_tensor(task.classifier.theta + points[0], dtype=torch.float32, device=task.device)
        with torch.no_grad():
            torch.nn.utils.vector_to_parameters(theta, network.parameters())
            predicted = network(rows).argmax(1).cpu().numpy()
        return np.array([1.0 - precision_score(labels, predicted, average="macro", zero_division=0)])

    return objective


def attack(name: str, device: str) -> tuple[Attack, BatchObjective]:
    """The attack, and its objective as one would first write it."""
    kind = DATASETS[name]
    channels, side = len(kind.pixels.mean), {"mnist": 28, "cifar10": 32}[name]
    image = np.random.default_rng(0).random((channels, side, side))
    plain, model = (build(kind.recipe, channels, side, 10, seed=0).to(device).eval() for _ in range(2))
    task = Attack([as_queried(model, device)], image, 0, kind.radius, kind.pixels, device)
    return task, Attack([plain], image, 0, kind.radius, kind.pixels, device).objectives[0]


def rate(objective: BatchObjective, x: FloatArray, repeats: int = 5) -> float:
    """Queries per second, all in one batch."""
    return len(x) / best_of(lambda: objective(x), repeats)


def rate_one_by_one(objective: BatchObjective, x: FloatArray) -> float:
    return rate(lambda points: np.concatenate([objective(point[None, :]) for point in points]), x, repeats=3)


def table(label: str, task: Metric | Attack, usual: BatchObjective) -> None:
    """One line for each size of batch."""
    objective = task.objectives[0]
    for n in BATCHES:
        x = np.random.default_rng(0).uniform(*task.bounds, (n, task.dim))
        batched, single, plain = rate(objective, x), rate_one_by_one(objective, x), rate_one_by_one(usual, x)
        cells = (label, str(n), f"{plain:,.0f}", f"{single:,.0f}", f"{batched:,.0f}", f"{batched / plain:.1f}")
        print("| " + " | ".join(cells) + " |", flush=True)


def metric(device: str) -> str:
    """The metric task's lines; returns the time per row, to compare with the floor in fzoos_experiments.tasks.mlp."""
    task = Metric(portion=1.0, device=device, progress=True)
    table("metric, Covertype", task, plain_metric(task))
    count = len(share_of_first(task)[1])
    x = np.random.default_rng(0).uniform(*task.bounds, (21, task.dim))
    nanoseconds = 1e9 / rate(task.objectives[0], x) / count
    return (
        f"metric: {count:,} rows, {nanoseconds:.1f} ns a row, {FLOPS / nanoseconds:.0f} Gflop/s as the formula stands"
    )


def networks(device: str) -> None:
    """Images a second through CIFAR-10's network on a GPU: as PyTorch makes it, and as the task queries it."""
    plain = build(DATASETS["cifar10"].recipe, 3, 32, 10, seed=0).to(device).eval()
    queried = as_queried(deepcopy(plain), device)

    def rate_of(network: Callable[[torch.Tensor], torch.Tensor], images: torch.Tensor) -> float:
        def work() -> None:
            for _ in range(10):
                network(images)
            torch.cuda.synchronize()

        return 10 * len(images) / best_of(work)

    print("\n| images at once | layer by layer, float32 | layer by layer, TF32 | as queried |")
    print("| --- | --- | --- | --- |")
    with torch.no_grad():
        for count in (21, 105, 210):
            images, rates = torch.rand(count, 3, 32, 32, device=device), []
            for network, tf32 in ((plain, False), (plain, True), (queried, True)):
                with torch.backends.cudnn.flags(enabled=True, allow_tf32=tf32):
                    rates.append(f"{rate_of(network, images):,.0f}")
            print(f"| {count} | {' | '.join(rates)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    where = torch.cuda.get_device_name() if options.device.startswith("cuda") else f"{options.threads} thread(s)"
    print(f"# Queries per second, {where}, PyTorch {torch.__version__}\n# {describe()}\n")
    print("| objective | batch | one by one | ours, one by one | batched | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    try:
        note = metric(options.device)
    except DataError as error:
        note = f"no metric task: {error}"
    for name, label in (("mnist", "attack, MNIST"), ("cifar10", "attack, CIFAR-10")):
        table(label, *attack(name, options.device))
    print(f"\n{note}")
    if options.device.startswith("cuda"):
        networks(options.device)


if __name__ == "__main__":
    main()
