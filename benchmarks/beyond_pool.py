"""Makes runs on several processes, the longest first, and keeps each as soon as it is finished."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path

from beyond_problems import train
from beyond_runs import Run, append, make
from beyond_settings import SETTINGS

from fzoos import FZooS
from fzoos.experiments.runner import end_with_parent

_SECONDS_BETWEEN = 10.0  # two lines of progress, where they are not shown in place


def execute(runs: Sequence[Run], folder: Path, jobs: int, device: str, made: str) -> int:
    """Make all of these runs; return how many failed."""
    runs = [run for run in runs if _can(run)]
    for problem in dict.fromkeys(run.problem.models_of for run in runs):
        train(problem, device)  # here, once, before workers want the models
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # read when a worker imports NumPy
    context, failed, progress = multiprocessing.get_context("spawn"), 0, _Progress(runs)
    pool = ProcessPoolExecutor(min(jobs, len(runs) or 1), context, initializer=_begin_worker)
    try:
        ordered = sorted(runs, key=cost, reverse=True)
        futures: dict[Future[object], Run] = {pool.submit(make, run, device, made): run for run in ordered}
        for future in as_completed(futures):
            run = futures[future]
            try:
                append(run, future.result(), folder)  # type: ignore[arg-type]
            except Exception as error:  # the others go on
                failed += 1
                print(f"\n{run}: {type(error).__name__}: {error}", file=sys.stderr)
            progress.finish(run)
    except BaseException:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


def _can(run: Run) -> bool:
    return run.label != "FedCMA" or find_spec("cmaes") is not None


def cost(run: Run) -> float:
    """About how many seconds a run takes on one core: the algorithm's arithmetic, and the queries."""
    algorithm, kind = SETTINGS[run.label].algorithm, run.problem.kind
    queries = {"metric": 3.0 if run.problem.samples is None else 0.3, "attack": 0.2}.get(kind, 0.01)
    if algorithm is None:
        return 0.001 * run.rounds
    if not isinstance(algorithm, FZooS):
        return run.rounds * queries
    arithmetic = 1.0 + (algorithm.features / 10_000 if algorithm.sends == "weights" else 0.0)
    return run.rounds * (arithmetic * {"metric": 4.0, "attack": 3.0}.get(kind, 1.0) + queries / 2.0)


class _Progress:
    def __init__(self, runs: Sequence[Run]) -> None:
        self._started = self._told = time.perf_counter()
        self._total, self._done = len(runs), 0
        self._cost_left, self._cost_done = sum(map(cost, runs)), 0.0

    def finish(self, run: Run) -> None:
        self._done += 1
        self._cost_left, self._cost_done = self._cost_left - cost(run), self._cost_done + cost(run)
        now, in_place = time.perf_counter(), sys.stderr.isatty()
        if in_place or now > self._told + _SECONDS_BETWEEN or self._done == self._total:
            self._told, spent = now, now - self._started
            left = spent * max(self._cost_left, 0.0) / self._cost_done
            words = f"{self._done} of {self._total} runs, {spent:.0f} s, about {left:.0f} s left; {run}"
            end = "" if in_place and self._done < self._total else "\n"
            print(f"\r\033[K{words[:150]}" if in_place else words, end=end, file=sys.stderr, flush=True)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the workers
    threading.Thread(target=end_with_parent, daemon=True).start()
