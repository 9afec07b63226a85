"""The speed of the prompt task's model: milliseconds per query, and the share of the device's matrix rate.

    FZOOS_DATA=... python -m benchmarks.speed.prompt [--device cuda] [--texts 64] [--profile]

A query is one prompt times all of a client's texts. Its operations are those of the model's blocks without padding; the
matrix rate is that of one product of two 8192 x 8192 matrices (1024 on a CPU) in the same precision on the same device.
The second table breaks down the time of the largest batch by kinds of kernels (on a CPU: of PyTorch's operations), and
`--profile` lists the kernels.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import torch

from benchmarks.machine import best_of, describe
from fzoos_experiments.tasks.prompt import Prompt

BATCHES = (1, 5, 21, 100)  # one; a local step of FZooS; one of finite differences; a refresh of FZooS
BATCHES_ON_CPU = (1, 5)

KINDS = (  # the first that fits a kernel's name
    ("attention", r"fmha|flash|attention"),
    ("matrix products", r"gemm|cutlass|nvjet|xmma|aten::(add)?b?mm"),
    ("elementwise", r"triton_|elementwise|reduce|aten::(silu|mul|add|sub|mean|pow|rsqrt|square|log_softmax)"),
)
REST = "copies and the rest"


def kind_of(name: str) -> str:
    """What a kernel does."""
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), REST)


def kernels(work: Callable[[], object], device: str) -> tuple[dict[str, float], float]:
    """Seconds that each kernel of some work took, and seconds in which none was running."""
    with torch.profiler.profile() as profile:
        work()
    if device == "cpu":
        return {event.key: event.self_cpu_time_total / 1e6 for event in profile.key_averages()}, 0.0
    events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    spent: dict[str, float] = defaultdict(float)
    for event in events:
        spent[event.name] += (event.time_range.end - event.time_range.start) / 1e6
    begin, end = min(event.time_range.start for event in events), max(event.time_range.end for event in events)
    return spent, max(0.0, (end - begin) / 1e6 - sum(spent.values()))


def breakdown(spent: Mapping[str, float], idle: float, flops: float, rate: float) -> list[str]:
    """A table that breaks down the time, and the rate of the products alone.

    Args:
        spent: seconds of each kernel.
        idle: seconds in which none was running.
        flops: operations of the work, nearly all of which are matrix products.
        rate: operations a second of one large matrix product.
    """
    parts: dict[str, float] = defaultdict(float)
    for name, seconds in spent.items():
        parts[kind_of(name)] += seconds
    parts["no kernel runs"] = idle
    total = sum(parts.values())
    rows = ["| what | milliseconds | share |", "| --- | ---: | ---: |"]
    rows += [f"| {kind} | {1000 * parts[kind]:.2f} | {parts[kind] / total:.0%} |" for kind in _longest_first(parts)]
    speed = flops / parts["matrix products"]
    return [*rows, f"the products alone: {speed / 1e12:.3g} TFLOP/s, {speed / rate:.0%} of the matrix rate"]


def _longest_first(spent: Mapping[str, float]) -> list[str]:
    return sorted(spent, key=lambda name: -spent[name])


def flops(task: Prompt) -> int:
    """Multiplications and additions of a query of the first client; in the last block only the last tokens count."""
    scorer, (packs, _) = task._scorer, task._share(task._split[0][0]).texts
    s, prompt = scorer.model.sizes, scorer.prompt_tokens
    lengths = [n for pack in packs for n in np.diff(np.sort(pack.ends.cpu().numpy()), prepend=prompt - 1).tolist()]
    q, kv = s.heads * s.head_width, s.kv_heads * s.head_width
    matrices = s.blocks * s.width * (2 * q + 2 * kv + 3 * s.inner)
    pairs = prompt * (prompt + 1) // 2 + sum(n * prompt + n * (n + 1) // 2 for n in lengths)  # of a query and a key
    tokens = prompt + sum(lengths)
    spared = (tokens - len(lengths)) * s.width * (q + 3 * s.inner)
    return int(2 * (tokens * matrices - spared + 2 * s.blocks * pairs * q))


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
    objective, rate, work = task.objectives[0], matrix_rate(arguments.device), flops(task)
    where = describe() if arguments.device == "cpu" else torch.cuda.get_device_name()
    print(f"{where}, PyTorch {torch.__version__}: {rate / 1e12:.3g} TFLOP/s in one large matrix product")
    print(f"a query of {arguments.texts} texts: {work / 1e9:.3g} GFLOP")
    print("| prompts at once | milliseconds a query | TFLOP/s | of the matrix rate |\n| ---: | ---: | ---: | ---: |")
    rng = np.random.default_rng(0)
    for n in BATCHES_ON_CPU if arguments.device == "cpu" else BATCHES:
        z = 0.1 * rng.uniform(-1, 1, (n, task.dim))
        seconds = best_of(lambda z=z: objective(z), repeats=3 if arguments.device == "cpu" else 7) / n  # type: ignore[misc]
        speed = work / seconds
        print(f"| {n} | {1000 * seconds:.2f} | {speed / 1e12:.3g} | {speed / rate:.0%} |", flush=True)
    spent, idle = kernels(lambda: objective(z), arguments.device)
    print(f"\n{n} prompts at once:\n" + "\n".join(breakdown(spent, idle, n * work, rate)))
    if arguments.profile:
        for name in _longest_first(spent)[:25]:
            print(f"{1000 * spent[name]:10.3f} ms  {kind_of(name)}: {name[:120]}")


if __name__ == "__main__":
    main()
