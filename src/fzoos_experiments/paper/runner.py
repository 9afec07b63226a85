"""Makes the runs that are not there yet: one after another, or on several processes, with a live display."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskID
from threadpoolctl import threadpool_limits

from fzoos.runs.progress import round_columns
from fzoos_experiments.paper.run import Run
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import build

__all__ = ["end_with_parent", "execute"]

_messages: Any = None  # in a worker: the queue to the parent


OnError = Callable[[Run, Exception], None]


def execute(
    runs: Sequence[Run],
    folder: Path,
    jobs: int = 1,
    console: Console | None = None,
    *,
    made: Mapping[str, str] | None = None,
    on_error: OnError | None = None,
) -> int:
    """Make and keep the runs that `folder` does not have yet; return how many were missing.

    Finished runs are kept at once: after Ctrl-C, or a crash, the next call goes on with those that are missing.

    Args:
        runs: the runs to make.
        folder: where they are kept.
        jobs: runs made at the same time.
        console: where runs, and the training of models before them, are shown; default: standard error.
        made: what is kept with each run of how it was made, beside the versions of packages.
        on_error: called with a run and what it raised, and the others go on; default: it is raised, and they do not.
    """
    console = console or Console(stderr=True)
    missing = _missing(runs, folder)
    if not missing:
        return 0
    if older := Store(folder).of_other_versions(missing):
        console.print(f"{older} runs in {folder} are of another version of their algorithm: left alone, made anew")
    for task in dict.fromkeys(run.task.models for run in missing if run.task.dataset is not None):
        build(task, console)  # trains its models here, once, before workers want them
    missing = _missing(runs, folder)  # again: data that were downloaded just now may not be those of the runs kept
    with _Display(len(missing), console) as display:
        work = _Work(folder, made or {})
        if jobs == 1:
            _serial(missing, work, display, on_error or _raise)
        else:
            _parallel(missing, work, jobs, display, on_error or _raise)
    return len(missing)


def _missing(runs: Sequence[Run], folder: Path) -> list[Run]:
    store = Store(folder)
    return [run for run in dict.fromkeys(runs) if store.load(run) is None]


def _raise(run: Run, error: Exception) -> None:
    raise error


@dataclass(frozen=True)
class _Work:
    """Makes a run and keeps it; travels to the workers."""

    folder: Path
    made: Mapping[str, str]

    def __call__(self, run: Run, tell: Any) -> None:
        data, started = run.task.data, time.perf_counter()  # the data as they are now: the run may take hours
        with threadpool_limits(1):  # BLAS and PyTorch: a run takes one core, `jobs` takes more
            rows = run(lambda round, value: tell(run.fingerprint, round, value))
        Store(self.folder).save(run, rows, time.perf_counter() - started, data, self.made)


def _serial(runs: Sequence[Run], work: _Work, display: _Display, on_error: OnError) -> None:
    for run in runs:
        display.start(run)
        try:
            work(run, display.advance)
        except Exception as error:
            on_error(run, error)
        display.finish(run)


def _parallel(runs: Sequence[Run], work: _Work, jobs: int, display: _Display, on_error: OnError) -> None:
    context = multiprocessing.get_context("spawn")  # PyTorch does not survive a fork
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when a worker imports NumPy: jobs share the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    messages = context.Queue()
    pool = context.Pool(jobs, initializer=_begin_worker, initargs=(messages,))
    try:
        pending: dict[str, tuple[Run, AsyncResult[None]]] = {
            run.fingerprint: (run, pool.apply_async(_in_worker, (work, run))) for run in runs
        }
        while pending:
            _drain(messages, pending, display)
            for name, (run, result) in list(pending.items()):
                if result.ready():
                    try:
                        result.get()  # raises what the worker raised
                    except Exception as error:
                        on_error(run, error)
                    display.finish(run)
                    del pending[name]
        pool.close()
    finally:
        pool.terminate()
        pool.join()


def _drain(messages: Any, pending: dict[str, tuple[Run, AsyncResult[None]]], display: _Display) -> None:
    try:
        while True:
            name, round, value = messages.get(timeout=0.2)
            if name in pending:
                display.start(pending[name][0])
                display.advance(name, round, value)
    except queue.Empty:
        return


def _begin_worker(messages: Any) -> None:
    global _messages
    _messages = messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the workers
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """A parent that is killed cannot end its workers, so they watch it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(work: _Work, run: Run) -> None:
    work(run, lambda *message: _messages.put(message))


class _Display:
    """One bar for all runs, and one for each that is under way."""

    def __init__(self, total: int, console: Console) -> None:
        self._console, self._progress = console, round_columns(console)
        self._all = self._progress.add_task("runs", total=total, status="")
        self._rows: dict[str, TaskID] = {}
        self._made, self._started = 0, time.perf_counter()

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()
        if self._made:
            minutes = (time.perf_counter() - self._started) / 60.0
            self._console.print(f"{self._made} runs in {minutes:.1f} minutes: {self._rate:.3g} a minute")

    @property
    def _rate(self) -> float:
        return 60.0 * self._made / (time.perf_counter() - self._started)

    def start(self, run: Run) -> None:
        """Show a run, if it is not shown yet."""
        if run.fingerprint in self._rows:
            return
        settings = ", ".join(
            f"{name} {value}" for name, value in run.task.settings if name in ("heterogeneity", "portion")
        )
        image = f", image {run.image}" if run.image >= 0 else ""
        local_steps = getattr(run.algorithm, "local_steps", None)
        steps = "" if local_steps is None else f", T {local_steps}"
        words = f"{run.label} on {run.task.name}, {settings}{steps}, seed {run.seed}{image}"
        self._rows[run.fingerprint] = self._progress.add_task(words, total=run.rounds, status="")

    def advance(self, name: str, round: int, value: float) -> None:
        """A run has finished a round."""
        self._progress.update(self._rows[name], completed=round, status=f"F {value:.4g}")

    def finish(self, run: Run) -> None:
        """A run is done and kept."""
        if run.fingerprint in self._rows:
            self._progress.remove_task(self._rows.pop(run.fingerprint))
        self._made += 1
        self._progress.update(self._all, advance=1, status=f"{self._rate:.3g} a minute")
