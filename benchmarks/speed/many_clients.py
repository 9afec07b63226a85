"""Many clients of one run on one device: seconds a round in step and one after another, N = 10 and 100.

    python -m benchmarks.speed.many_clients --device cuda

`FZooS.paper()`, M = 10 000, T = 10, the last of three rounds; objectives are a mean of squares. In step is what a GPU
does; one after another is what it would be without, and what a CPU does. With `--device cpu` seconds are of CPU time.

Per step and client, with n points: a correction reads V (M d numbers) for 4 M d flops, the uncertainties of 101 points
read X (n d) and two n x n matrices for 2 n 101 (d + 2 n) flops, a gradient reads X again, and 5 new points read X, the
factor and the inverse and write the inverse. V is the same for all. The floor counts each of these once, at the
device's own rates for a copy and a matrix product, measured first; it has no Python and no drawing of candidates.

Clients meet where all of them wait for the same work, and copies are those of arrays to and from the device: both are
counted over the last round and divided by its T steps, its refresh included. What a client costs by itself, c, and what
all share, S, follow from the smallest and the largest N: S + N c seconds a step. Where the caller's thread was in that
round is printed for both, with what each part adds to c; `--profile` prints the functions of the largest N.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.machine import best_of, describe
from fzoos import minimize
from fzoos._util import together
from fzoos._util.arrays import FloatArray
from fzoos._util.draws import Draws
from fzoos.algorithms.descent import Descents
from fzoos.algorithms.fixed_fzoos import FixedFZooS, client, crew, queries
from fzoos.engines.local import LocalEngine
from fzoos.objectives import at_once
from fzoos.surrogates import fourier
from fzoos.surrogates.fourier import FourierFeatures, shared_features
from fzoos.surrogates.local import LocalSurrogates

STEPS, ROUNDS, CANDIDATES, PICKS = 10, 3, 100, 5

PARTS: tuple[tuple[Any, str, str], ...] = (  # of a round; where one is within another it is counted as the inner one
    (Draws, "take", "waiting for candidates to be drawn"),
    (Draws, "__init__", "room for candidates"),
    (LocalSurrogates, "condition", "new points in the surrogates"),
    (LocalSurrogates, "grad_mean", "gradients begun"),
    (LocalSurrogates, "grad_uncertainty", "uncertainties begun"),
    (crew, "to_host", "waiting for x"),
    (at_once, "to_host", "waiting for chosen points"),
    (Descents, "__call__", "waiting for gradients, and the optimiser's steps"),
    (at_once, "query_at_once", "asking"),
    (at_once, "_laid", "keeping points"),
    (at_once, "_adopt", "keeping values"),
    (fourier, "_all_weights", "weights"),
    (queries, "_refresh", "the rest of a refresh"),
    (crew, "walk", "the rest of a walk"),
    (together._Crew, "_answer", "the rest of what is done at once"),
    (LocalEngine, "exchange", "requests and replies, on the clients' threads"),
)
SERVER = "the server"


@dataclass(frozen=True)
class InStep(FixedFZooS):
    """As a GPU does it, on any device."""

    in_step = True


@dataclass(frozen=True)
class Singly(FixedFZooS):
    """One client after another, on any device."""

    in_step = False


@dataclass
class Counts:
    """What happened in a run so far."""

    clock: Callable[[], float]
    passes: int = 0  # over V
    computing: float = 0.0  # seconds for all clients at once
    meetings: int = 0
    copies: int = 0
    parts: dict[str, float] = field(default_factory=dict)  # seconds of each of `PARTS`
    within: list[float] = field(default_factory=list)  # of the parts that are entered now: seconds of inner ones
    marks: list[tuple[float, ...]] = field(default_factory=list)  # after each round: time, and the above
    profile: cProfile.Profile | None = None  # of the last round

    def mark(self, *_: object) -> None:
        """A round has ended."""
        self.marks.append((self.clock(), self.passes, self.computing, self.meetings, self.copies))
        if len(self.marks) < ROUNDS:
            self.parts.clear()
        if self.profile is not None and len(self.marks) == ROUNDS - 1:
            self.profile.enable()
        elif self.profile is not None:
            self.profile.disable()


@contextmanager
def counted(device: str) -> Iterator[Counts]:
    """Count, and leave the classes as they were."""
    clock = time.perf_counter if device.startswith("cuda") else time.process_time  # others may be at work on the CPU
    counts = Counts(clock)

    def add(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **kwargs: Any) -> Any:
            setattr(counts, name, getattr(counts, name) + 1)
            return work(*args, **kwargs)

        return counting

    def timed(answer: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*args: Any) -> None:
            began = clock()
            answer(*args)
            counts.computing += clock() - began

        return timing

    def part(label: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return work(*args, **kwargs)
            began = clock()
            counts.within.append(0.0)
            try:
                return work(*args, **kwargs)
            finally:
                taken = clock() - began
                counts.parts[label] = counts.parts.get(label, 0.0) + taken - counts.within.pop()
                if counts.within:
                    counts.within[-1] += taken

        return timing

    meeting = together._Crew
    with ExitStack() as stack:
        for owner, attribute, label in PARTS:
            stack.enter_context(patch.object(owner, attribute, part(label, getattr(owner, attribute))))
        stack.enter_context(patch.object(client, "walk", crew.walk))  # they have these by name
        stack.enter_context(patch.object(queries, "query_at_once", at_once.query_at_once))
        counted_calls: tuple[tuple[Any, str, str], ...] = (
            (FourierFeatures, "grad_there", "passes"),
            (meeting, "_answer", "meetings"),
            (torch, "as_tensor", "copies"),
            (torch.Tensor, "cpu", "copies"),
        )
        for owner, attribute, name in counted_calls:
            stack.enter_context(patch.object(owner, attribute, add(name, getattr(owner, attribute))))
        stack.enter_context(patch.object(meeting, "_answer", timed(meeting._answer)))
        yield counts


def site(centre: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """A cheap objective."""

    def f(x: FloatArray) -> FloatArray:
        values: FloatArray = np.mean((x - centre) ** 2, axis=1)
        return values

    return f


def run(
    kind: type[FixedFZooS], device: str, clients: int, dim: int, features: int, profile: cProfile.Profile | None = None
) -> dict[str, Any]:
    """One run's last round."""
    centres = np.random.default_rng(0).uniform(-0.3, 0.3, (clients, dim))
    shared_features.cache_clear()  # of the run before
    gc.collect()
    if device.startswith("cuda"):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with counted(device) as counts:
        counts.profile = profile
        result = minimize(
            [site(centre) for centre in centres],
            np.zeros(dim),
            bounds=(-1, 1),
            algorithm=kind.paper(features=features, device=device),
            rounds=ROUNDS,
            local_steps=STEPS,
            vectorized=True,
            callback=counts.mark,
            seed=0,
        )
    seconds, passes, computing, meetings, copies = np.diff(counts.marks[-2:], axis=0)[0].tolist()
    # On a GPU all of V is read for the angles and again for the gradient; on a CPU panels of it stay in the cache.
    passes *= 2 if device.startswith("cuda") else 1
    return {
        "x": result.x,
        "seconds": seconds,
        "computing": computing,
        "passes": passes / STEPS,
        "meetings": meetings / STEPS,
        "copies": copies / STEPS,
        "parts": {**counts.parts, SERVER: seconds - sum(counts.parts.values())},
        "peak": peak(device),
        "points": result.queries // clients,
    }


def peak(device: str) -> float:
    """GB: of the device's memory in this run, or of the process so far."""
    if device.startswith("cuda"):
        return float(torch.cuda.max_memory_allocated()) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def rates(device: str) -> tuple[float, float]:
    """Bytes per second of a copy, and flops per second of a matrix product."""
    size = 4096 if device.startswith("cuda") else 1000
    a = torch.ones((size, size), dtype=torch.float64, device=device)
    b = torch.empty_like(a)

    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    def copies() -> None:
        for _ in range(20):
            b.copy_(a)
        wait()

    def products() -> None:
        for _ in range(5):
            torch.mm(a, a, out=b)
        wait()

    return 20 * 16 * size**2 / best_of(copies), 5 * 2 * size**3 / best_of(products)


def floor(clients: int, dim: int, features: int, points: int, byte_rate: float, flop_rate: float) -> float:
    """Seconds of the local steps of a round."""
    numbers = features * dim + clients * (3 * points * dim + 5 * points**2)
    flops = clients * (4 * features * dim + 2 * points * (CANDIDATES + 1) * (dim + 2 * points))
    flops += clients * 2 * points * PICKS * (dim + 2 * points)
    return STEPS * max(8 * numbers / byte_rate, flops / flop_rate)


def print_parts(clients: list[int], parts: list[dict[str, float]]) -> None:
    """Seconds a round of the smallest and the largest N, and what each part adds to c."""
    few, more = clients[0], clients[-1]
    print(f"\n| part of a round | N = {few}, ms | N = {more}, ms | of c, us |\n| --- | --- | --- | --- |")
    for label in (*(label for _, _, label in PARTS), SERVER):
        first, last = (1e3 * found.get(label, 0.0) for found in (parts[0], parts[-1]))
        print(f"| {label} | {first:.1f} | {last:.1f} | {1e3 * (last - first) / (more - few) / STEPS:.0f} |")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--dims", type=int, nargs="+", default=[300, 3072])
    parser.add_argument("--features", type=int, default=10_000)
    parser.add_argument("--singly-up-to", type=int, default=1000, help="more clients only in step")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    device, features = given.device, given.features
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    print(f"# {name} (PyTorch {torch.__version__}), host {describe()}")
    byte_rate, flop_rate = rates(device)
    print(f"copy {byte_rate / 1e9:.0f} GB/s, matrix product {flop_rate / 1e12:.3f} Tflop/s (float64)\n")
    run(InStep, device, 2, 20, 100)  # what is loaded and compiled at first use
    header = [
        "d",
        "N",
        "n",
        "s a round",
        "of it at once, s",
        "floor, s",
        "meetings a step",
        "copies a step",
        "V read a step, MB",
        "one pass, MB",
        "peak GB",
    ]
    header += ["singly: s a round", "V read a step, MB", "peak GB", "times as fast", "largest difference of x"]
    print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header), flush=True)
    for dim in given.dims:
        one_pass, seconds, parts = 8e-6 * features * dim, [], []
        for clients in given.clients:
            now = run(InStep, device, clients, dim, features)
            seconds.append(now["seconds"])
            parts.append(now["parts"])
            least = floor(clients, dim, features, now["points"], byte_rate, flop_rate)
            row = [f"{dim:,}", clients, now["points"], f"{now['seconds']:.3f}", f"{now['computing']:.3f}"]
            row += [f"{least:.3f}", f"{now['meetings']:.1f}", f"{now['copies']:.1f}"]
            row += [f"{now['passes'] * one_pass:.0f}", f"{one_pass:.0f}", f"{now['peak']:.2f}"]
            if clients <= given.singly_up_to:
                old = run(Singly, device, clients, dim, features)
                row += [f"{old['seconds']:.3f}", f"{old['passes'] * one_pass:.0f}", f"{old['peak']:.2f}"]
                row += [f"{old['seconds'] / now['seconds']:.1f}", f"{np.max(np.abs(old['x'] - now['x'])):.0e}"]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
        if len(seconds) > 1:
            more, few = given.clients[-1], given.clients[0]
            own = (seconds[-1] - seconds[0]) / (more - few) / STEPS
            shared = seconds[0] / STEPS - few * own
            print(
                f"d = {dim:,}: N = {more} takes {seconds[-1] / seconds[0]:.1f} times N = {few}; a step is "
                f"c = {1e6 * own:.0f} us of each client and S = {1e3 * shared:.2f} ms of all, {shared / own:.0f} c",
                flush=True,
            )
            print_parts(given.clients, parts)
        if given.profile:
            profile = cProfile.Profile()
            run(InStep, device, given.clients[-1], dim, features, profile)
            pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
