"""The same surrogates on a PyTorch device and on NumPy: do they agree, and how much faster is the device?

    python -m benchmarks.speed.device --device cuda

A local step with the whole trajectory (see growth.py), and a short run of `minimize` with FZooS(device=...).
NumPy has all cores of the machine here.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from benchmarks.machine import describe
from benchmarks.speed.growth import prepare, seconds
from fzoos import FZooS, minimize
from fzoos_experiments.tasks import Quadratic

SIZES = [(500, 300, 10_000), (2000, 300, 10_000), (4000, 300, 10_000), (4000, 2189, 10_000), (8000, 2189, 30_000)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    print(f"# {name} (PyTorch {torch.__version__}) compared with NumPy on {describe()}\n")
    print("| n | d | M | NumPy, s | device, s | ratio | largest relative difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for n, d, m in SIZES:
        numpy_step, device_step = prepare(n, d, m), prepare(n, d, m, device)
        pairs = zip(numpy_step(), device_step(), strict=True)
        difference = max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in pairs)
        slow, fast = seconds(n, d, m, repeats=3), seconds(n, d, m, repeats=5, device=device)
        print(f"| {n:,} | {d:,} | {m:,} | {slow:.4f} | {fast:.4f} | {slow / fast:.0f} | {difference:.0e} |", flush=True)

    task = Quadratic()
    print("\n| minimize, 10 rounds, quadratic, C = 5, the whole trajectory | F | seconds |\n| --- | --- | --- |")
    for where in (None, device):
        algorithm = FZooS(device=where)
        result = minimize(
            task.objectives,
            task.x0,
            bounds=task.bounds,
            algorithm=algorithm,
            rounds=10,
            vectorized=True,
            monitor=task.value,
            seed=0,
        )
        print(f"| {where or 'NumPy'} | {result.history[-1].monitor:.4f} | {result.seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
