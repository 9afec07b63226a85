"""Makes the missing runs of figures, one after another or on several processes, with a live display."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskID
from threadpoolctl import threadpool_limits

from fzoos.runs.progress import round_columns
from fzoos_experiments.paper.run import Row, Run
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import build
from fzoos_experiments.runs import results_of

__all__ = ["execute"]


def execute(runs: Sequence[Run], folder: Path, jobs: int = 1, console: Console | None = None) -> int:
    """Make and store the runs that a folder does not have yet; return how many were missing.

    Finished runs are stored immediately: after Ctrl-C or a crash, the next call makes those that are still missing.

    Args:
        runs: the runs to make.
        folder: where they are stored.
        jobs: the number of runs that are made at the same time.
        console: where runs, and the training of models before them, are shown; default: standard error.
    """
    console = console or Console(stderr=True)
    missing = _missing(runs, folder)
    for task in dict.fromkeys(run.task.models for run in missing if run.task.dataset is not None):
        build(task, console)  # trains its models once, before workers need them
    missing = _missing(
        missing, folder
    )  # data that were downloaded just now may be other data than those of stored runs
    if not missing:
        return 0
    store = Store(folder)
    with _Display(missing, console) as display:
        for run, made in results_of(_make, missing, jobs, display.advance):
            if isinstance(made, Exception):
                raise made
            store.save(run, *made)
            display.finish(run)
    return len(missing)


def _missing(runs: Sequence[Run], folder: Path) -> list[Run]:
    store = Store(folder)
    return [run for run in dict.fromkeys(runs) if store.load(run) is None]


def _make(run: Run, report: Any) -> tuple[list[Row], float, str | None]:
    """Make a run: its rows, its duration, and the digest of its data, which may change during a long run."""
    data, started = run.task.data, time.perf_counter()
    with threadpool_limits(1):  # of BLAS and PyTorch: a run uses one core
        rows = run(lambda round, value: report(run.fingerprint, round, value))
    return rows, time.perf_counter() - started, data


class _Display:
    """One progress bar for all runs, and one for each run in progress."""

    def __init__(self, runs: Sequence[Run], console: Console) -> None:
        self._console, self._progress = console, round_columns(console)
        self._all = self._progress.add_task("runs", total=len(runs), status="")
        self._runs = {run.fingerprint: run for run in runs}
        self._bars: dict[str, TaskID] = {}
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

    def advance(self, name: str, round: int, value: float) -> None:
        """Show that a run has finished a round."""
        if name not in self._runs:
            return
        if name not in self._bars:
            run = self._runs[name]
            self._bars[name] = self._progress.add_task(_words(run), total=run.rounds, status="")
        self._progress.update(self._bars[name], completed=round, status=f"F {value:.4g}")

    def finish(self, run: Run) -> None:
        """Show that a run is finished."""
        del self._runs[run.fingerprint]
        if run.fingerprint in self._bars:
            self._progress.remove_task(self._bars.pop(run.fingerprint))
        self._made += 1
        self._progress.update(self._all, advance=1, status=f"{self._rate:.3g} a minute")


def _words(run: Run) -> str:
    settings = [f"{name} {value}" for name, value in run.task.settings if name in ("heterogeneity", "portion")]
    local_steps = getattr(run.algorithm, "local_steps", None)
    settings += [] if local_steps is None else [f"T {local_steps}"]
    settings += [f"seed {run.seed}"] + ([f"image {run.image}"] if run.image >= 0 else [])
    return f"{run.algorithm.label} on {run.task.name}, {', '.join(settings)}"
