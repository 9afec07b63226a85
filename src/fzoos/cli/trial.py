"""Runs of an algorithm on a task, and their output files, for `fzoos run` and `fzoos compare`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from threadpoolctl import threadpool_limits

from fzoos import __version__
from fzoos.algorithms import Algorithm
from fzoos.algorithms.local_steps import LocalSteps
from fzoos.cli.options import STDOUT
from fzoos.cli.problems import Problem
from fzoos.minimize import minimize
from fzoos.result import ObjectiveError, Record
from fzoos.runs.export import to_json
from fzoos.runs.plots import Trial
from fzoos.runs.progress import status
from fzoos.runs.reader import check_run_file

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["check_files", "ending", "outcome", "run_trial", "share_cores", "with_local_steps", "write_json"]


def with_local_steps(kinds: Sequence[type[Algorithm]], local_steps: int | None) -> list[Algorithm]:
    """The settings of these algorithms, with T local steps in those that have local steps; None: the defaults."""
    if local_steps is None:
        return [kind() for kind in kinds]
    if not any(issubclass(kind, LocalSteps) for kind in kinds):
        names = ", ".join(kind.label for kind in kinds)
        raise ValueError(f"--local-steps is {local_steps}, but these algorithms have no local steps: {names}")
    return [kind(local_steps=local_steps) if issubclass(kind, LocalSteps) else kind() for kind in kinds]


def run_trial(
    algorithm: Algorithm,
    task: Problem,
    bars: Progress,
    row: TaskID,
    done: int = 0,
    **settings: Any,
) -> Trial:
    """Run an algorithm on a task and show its rounds in a row of the progress display, after `done` earlier rounds.

    An attack stops when the averaged logits are misled.
    """

    def show(record: Record) -> bool:
        bars.update(row, completed=done + record.round, status=status(record, task.quantity))
        return task.quantity == "margin" and record.monitor is not None and record.monitor < 0.0

    problem = task.arguments() | {"name": f"{algorithm.label} {task.summary}"}
    bars.start_task(row)
    try:
        result = minimize(task.objectives, algorithm=algorithm, callback=show, **problem, **settings)
    except ObjectiveError as error:
        if error.result is None:
            raise
        result = error.result
    if task.task is None:  # its queries may be expensive: no others are made
        return Trial(algorithm.label, result, math.nan, None)
    start = task.value(task.x0)
    if task.quantity == "margin":
        if result.status == "stopped":
            result = replace(result, message=f"the image is attacked after round {result.rounds}")
            bars.update(row, completed=done + settings["rounds"])
        return Trial(algorithm.label, result, start, None, quantity=task.quantity)
    before, after = task.accuracy(task.x0), task.accuracy(result.x)
    accuracy = None if before is None or after is None else (before, after)
    return Trial(algorithm.label, result, start, task.minimum, accuracy)


def ending(trial: Trial) -> tuple[str, int]:
    """The message and the exit code of a run, whose result is shown even if it has failed."""
    return trial.result.message, {"interrupted": 130, "failed": 1}.get(trial.result.status, 0)


def outcome(algorithm: Algorithm, problem: Problem, trial: Trial) -> dict[str, Any]:
    """The content of the `--json` file for a run."""
    known: dict[str, Any] = {"task": str(problem), "algorithm": str(algorithm), "version": __version__}
    if trial.accuracy is not None:
        known |= {"accuracy_at_start": trial.accuracy[0], "accuracy": trial.accuracy[1]}
    if trial.quantity == "margin":
        known["attacked"] = trial.is_attacked
    return {**known, "start": trial.start, "minimum": trial.minimum, **asdict(trial.result)}


def check_files(json_file: Path | None, store: Path | None) -> None:
    """Raise an error before the run if one of its files cannot be written."""
    if store is not None:
        check_run_file(store)
    if json_file is not None and json_file != STDOUT:
        if json_file.is_dir() or not json_file.parent.is_dir():
            raise ValueError(f"--json: {json_file} cannot be written: no such directory, or a directory itself")
        json_file.touch()


def write_json(path: Path, outcome: Any) -> None:
    """Write outcomes to the `--json` file or to standard output."""
    if path == STDOUT:
        typer.echo(to_json(outcome), nl=False)
    else:
        path.write_text(to_json(outcome), encoding="utf-8")


def share_cores(workers: int) -> None:
    """Limit BLAS to one thread if clients run in threads, which share the cores."""
    if workers > 1:
        threadpool_limits(1, user_api="blas")
