"""One run of an algorithm on a built-in task, and what of it goes into files: for `fzoos compare` and `fzoos run`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from threadpoolctl import threadpool_limits

from fzoos import __version__
from fzoos.algorithms import Algorithm
from fzoos.cli.options import STDOUT, TASK_NAMES, choose
from fzoos.cli.own import OwnProblem, is_own, own_problem
from fzoos.minimize import minimize
from fzoos.result import ObjectiveError, Record
from fzoos.runs.export import to_json
from fzoos.runs.plots import Trial
from fzoos.runs.progress import status
from fzoos.runs.reader import check_run_file
from fzoos.tasks import TASKS, Noisy

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Problem", "check_files", "ending", "outcome", "problem_maker", "run_trial", "share_cores", "write_json"]

Problem = Any
"""One of `fzoos.tasks`: its members differ, see `fzoos.tasks.Task` for what all have."""


def problem_maker(
    task: str, dim: int | None, clients: int, heterogeneity: float | None, noise: float, device: str, texts: int
) -> Callable[[int], Problem]:
    """Makes the task of a seed, with noise if there is to be any.

    Args:
        task: its name.
        dim: d, the number of variables; None: the task's own.
        clients: N, the number of clients.
        heterogeneity: C; None: the task's own.
        noise: of each query, as a share of F(x0) - F*.
        device: where a language model runs.
        texts: of each client of a language model.
    """
    if is_own(task):
        if heterogeneity is not None or noise:
            raise ValueError(f"--heterogeneity and --noise are for the tasks that are built in, not for {task}")
        return own_problem(task, dim)
    known = choose("task", task, dict.fromkeys(TASK_NAMES, task))
    given = {"dim": dim, "heterogeneity": heterogeneity}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if known in ("prompt", "newsgroups"):
        if noise:
            raise ValueError(f"noise is a share of F(x0) - F*, and F* of {known} is not known")
        from fzoos.tasks.prompt import Prompt

        prompt = Prompt if known == "prompt" else Prompt.newsgroups
        return lambda seed: prompt(clients=clients, seed=seed, device=device, texts=texts, **chosen)
    kind = TASKS[known]

    def make(seed: int) -> Problem:
        made = kind(**{"dim": 300, "heterogeneity": 5.0, **chosen}, clients=clients, seed=seed)
        return Noisy(made, noise, seed) if noise else made

    return make


def run_trial(
    algorithm: type[Algorithm],
    task: Problem,
    bars: Progress,
    row: TaskID,
    done: int = 0,
    **settings: Any,
) -> Trial:
    """Run an algorithm on a task and show its rounds in a row of the progress display, after `done` earlier ones."""

    def show(record: Record) -> None:
        bars.update(row, completed=done + record.round, status=status(record))

    if isinstance(task, OwnProblem):
        problem: dict[str, Any] = task.arguments() | {"name": f"{algorithm.label} {task.name}"}
    else:
        problem = _arguments(algorithm, task)
    bars.start_task(row)
    try:
        result = minimize(task.objectives, algorithm=algorithm(), callback=show, **problem, **settings)
    except ObjectiveError as error:
        if error.result is None:
            raise
        result = error.result
    if isinstance(task, OwnProblem):  # whose queries may be dear: none is made beside the run
        return Trial(algorithm.label, result, math.nan, None)
    minimum, accuracy = getattr(task, "minimum", None), None
    if task.name == "prompt":
        accuracy = task.accuracy(task.x0), task.accuracy(result.recommended)
    return Trial(algorithm.label, result, task.value(task.x0), minimum, task.value(result.recommended), accuracy)


def _arguments(algorithm: type[Algorithm], task: Problem) -> dict[str, Any]:
    """Of `minimize`, for a task that is built in."""
    problem: dict[str, Any] = {
        "x0": task.x0,
        "bounds": task.bounds,
        "vectorized": True,
        "monitor": task.value,
        "seed": task.seed,
        "name": f"{algorithm.label} {task.name} C={task.heterogeneity:g} d={task.dim} N={task.clients}",
    }
    if isinstance(task, Noisy):
        problem["name"] += f" noise={task.share:g}"
    return problem


def ending(trial: Trial) -> tuple[str, int]:
    """What to say of a run that ended early, and the exit code; what it reached is shown all the same."""
    return trial.result.message, {"interrupted": 130, "failed": 1}.get(trial.result.status, 0)


def outcome(algorithm: type[Algorithm], problem: Problem, trial: Trial) -> dict[str, Any]:
    """What `--json` writes of a run."""
    known: dict[str, Any] = {"task": str(problem), "algorithm": str(algorithm()), "version": __version__}
    if trial.accuracy is not None:
        known |= {"accuracy_at_start": trial.accuracy[0], "accuracy": trial.accuracy[1]}
    return {**known, "start": trial.start, "minimum": trial.minimum, **asdict(trial.result)}


def check_files(json_file: Path | None, store: Path | None) -> None:
    """What cannot be written is said before the run."""
    if store is not None:
        check_run_file(store)
    if json_file is not None and json_file != STDOUT:
        if json_file.is_dir() or not json_file.parent.is_dir():
            raise ValueError(f"--json: {json_file} cannot be written: no such directory, or a directory itself")
        json_file.touch()


def write_json(path: Path, outcome: Any) -> None:
    """Write what `--json` asked for, into the file or to standard output."""
    if path == STDOUT:
        typer.echo(to_json(outcome), nl=False)
    else:
        path.write_text(to_json(outcome), encoding="utf-8")


def share_cores(workers: int) -> None:
    """Clients on threads share the cores: the built-in tasks need no BLAS threads beside them."""
    if workers > 1:
        threadpool_limits(1, user_api="blas")
