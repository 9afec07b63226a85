"""What rounding to TF32 does to the attack on CIFAR-10: to margins, and to gradients made of their differences.

    FZOOS_DATA=... python -m benchmarks.speed.rounding [--images 15]

The models of P = 0.5 (trained first where they are not in the cache: minutes), on a GPU. At x_0 of each image and for
each client, the margin as queries have it (TF32) and in float32 is compared with that of the same network in float64;
and the gradient that FedZO makes of 20 directions, the same ones for all, with the network's own gradient, by autograd
in float64. The cosine of the two is what a local step is worth; with 20 directions in 1 024 dimensions it is about
sqrt(20 / 1024) = 0.14 where nothing is rounded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch

from benchmarks.machine import describe
from fzoos._util.arrays import FloatArray
from fzoos.algorithms import FedZO
from fzoos_experiments.tasks.attack import Attack, Attacks

Margins = Callable[[FloatArray], FloatArray]


def cosine(a: FloatArray, b: FloatArray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def exact_gradient(task: Attack, network: Any) -> FloatArray:
    """Of one client's margin at x_0, in the units of x, by autograd."""
    image, low, high = (part.double() for part in task._tensors)
    x = torch.zeros((1, 1, *image.shape[1:]), dtype=torch.float64, device=task.device, requires_grad=True)
    found = network(torch.clamp(image + x, low, high))[0]
    others = torch.cat([found[: task.label], found[task.label + 1 :]])
    (gradient,) = torch.autograd.grad(found[task.label] - others.max(), x)
    found_gradient: FloatArray = gradient.cpu().numpy().ravel()
    return found_gradient


def at_precision(task: Attack, network: Any, dtype: torch.dtype) -> Margins:
    """One client's margins, layer by layer in this precision."""

    def margins(x: FloatArray) -> FloatArray:
        image, low, high = (part.to(dtype) for part in task._tensors)
        moved = torch.as_tensor(x, dtype=dtype, device=task.device).view(len(x), 1, *image.shape[1:])
        allowed = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
        with torch.no_grad(), allowed:
            found = network(torch.clamp(image + moved, low, high)).double().cpu().numpy()
        apart: FloatArray = found[:, task.label] - np.delete(found, task.label, axis=1).max(axis=1)
        return apart

    return margins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=15)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    attacks = Attacks("cifar10", portion=0.5, images=options.images, device=options.device, progress=True)
    step = FedZO().differences.step * 2 * attacks[0].radius  # from the unit cube to the pixels
    rng = np.random.default_rng(0)
    errors: dict[str, list[tuple[float, float, float]]] = {"TF32": [], "float32": [], "float64": []}
    for client, model in enumerate(attacks._models):
        network = getattr(model, "network", model)
        wide = deepcopy(network).double()
        for task in attacks:
            directions = rng.standard_normal((20, task.dim))
            points = np.concatenate([np.zeros((1, task.dim)), step * directions])
            gradient = exact_gradient(task, wide)
            single = at_precision(task, network, torch.float32)
            ways = {
                "TF32": task.objectives[client],
                "float32": single,
                "float64": at_precision(task, wide, torch.float64),
            }
            found = {name: way(points) for name, way in ways.items()}
            exact = found["float64"]
            for name, margins in found.items():
                differences = margins[1:] - margins[0]
                off = (differences - (exact[1:] - exact[0])) / (exact[1:] - exact[0]).std()
                estimate = differences @ directions
                errors[name].append((abs(margins[0] - exact[0]), float(off.std()), cosine(estimate, gradient)))
    where = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    print(f"# {len(attacks)} images, {len(attacks._models)} clients, {where}, PyTorch {torch.__version__}")
    print(f"# {describe()}\n")
    print("| | error of a margin, mean | largest | of a difference, to its spread | cosine to the gradient |")
    print("| --- | --- | --- | --- | --- |")
    for name, rows in errors.items():
        margin, difference, cosines = np.array(rows).T
        error = cosines.std() / np.sqrt(len(cosines))
        cells = (f"{margin.mean():.1e}", f"{margin.max():.1e}", f"{difference.mean():.1e}")
        print(f"| {name} | {' | '.join(cells)} | {cosines.mean():.4f} ± {error:.4f} |")


if __name__ == "__main__":
    main()
