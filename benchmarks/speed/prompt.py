"""How fast the prompt task asks its model: milliseconds of a query, and the share of the device's matrix rate.

    FZOOS_DATA=... python -m benchmarks.speed.prompt [--device cuda] [--texts 64] [--profile]

A query is one prompt times all of a client's texts. Its operations are those of the model's blocks without padding
(`Prompt.flops`); the matrix rate is that of one product of two 8192 x 8192 matrices (1024 on a CPU) in the same
precision on the same device.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from benchmarks.machine import best_of, describe
from fzoos.tasks.prompt import Prompt

BATCHES = (1, 21, 100)  # one; a step of finite differences or a generation; a refresh of FZooS


def matrix_rate(device: str) -> float:
    """Operations a second of one large matrix product."""
    n, dtype = (1024, torch.float32) if device == "cpu" else (8192, torch.float16)
    a = torch.randn(n, n, dtype=dtype, device=device)

    def work() -> None:
        a @ a
        if device != "cpu":
            torch.cuda.synchronize()

    return 2 * n**3 / best_of(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--profile", action="store_true", help="show which kernels take the time")
    arguments = parser.parse_args()
    task = Prompt(texts=arguments.texts, device=arguments.device)
    objective, rate = task.objectives[0], matrix_rate(arguments.device)
    where = describe() if arguments.device == "cpu" else torch.cuda.get_device_name()
    print(f"{where}, PyTorch {torch.__version__}: {rate / 1e12:.3g} TFLOP/s in one large matrix product")
    print(f"a query of {arguments.texts} texts: {task.flops / 1e9:.3g} GFLOP")
    print("| prompts at once | milliseconds a query | TFLOP/s | of the matrix rate |\n| ---: | ---: | ---: | ---: |")
    rng = np.random.default_rng(0)
    for n in BATCHES:
        z = 0.1 * rng.uniform(-1, 1, (n, task.dim))
        seconds = best_of(lambda z=z: objective(z), repeats=3 if arguments.device == "cpu" else 7) / n  # type: ignore[misc]
        speed = task.flops / seconds
        print(f"| {n} | {1000 * seconds:.2f} | {speed / 1e12:.3g} | {speed / rate:.0%} |", flush=True)
    if arguments.profile:
        with torch.profiler.profile() as profile:
            objective(z)
        print(profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=20, max_name_column_width=80))


if __name__ == "__main__":
    main()
