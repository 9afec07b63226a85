"""`fzoos run`: one algorithm on one task."""

from __future__ import annotations

import math
from typing import Any

import typer
from rich.filesize import decimal

from fzoos.algorithms import find_algorithm
from fzoos.cli import options
from fzoos.cli.exit_codes import complain
from fzoos.cli.problems import problem_maker
from fzoos.cli.trial import check_files, ending, outcome, run_trial, share_cores, with_local_steps, write_json
from fzoos.messages.precision import check_precision
from fzoos.runs.plots import Trial
from fzoos.runs.progress import round_columns
from fzoos.runs.text import short_x

__all__ = ["run"]


def run(
    context: typer.Context,
    task: options.TaskName,
    algorithm: options.AlgorithmName = "auto",
    heterogeneity: options.Heterogeneity = None,
    rounds: options.Rounds = 20,
    dim: options.Dim = None,
    clients: options.Clients = None,
    local_steps: options.LocalSteps = None,
    noise: options.NoiseShare = None,
    dataset: options.DatasetName = None,
    metric: options.MetricName = None,
    portion: options.Portion = None,
    split: options.SplitName = None,
    full: options.Full = False,
    data: options.DataFolder = None,
    device: options.Device = None,
    texts: options.TextCount = None,
    precision: options.PrecisionName = "float64",
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    json_file: options.JsonFile = None,
    store: options.StoreFile = None,
    resume: options.ResumeRun = None,
    quiet: options.Quiet = False,
) -> int:
    """Run one algorithm on one task.

    The command prints F, queries, bytes and seconds. With --store, the run can be shown, compared and resumed later.
    """
    from rich.console import Console

    (found,) = with_local_steps([find_algorithm(algorithm)], local_steps)
    check_precision(precision)
    console = Console(stderr=True, quiet=quiet)
    make = problem_maker(task, console, **{name: context.params[name] for name in options.TASK_OPTIONS})
    check_files(json_file, store)
    if resume is not None and store is None:
        raise ValueError(f"--resume {resume} needs --store: the file that the run is in")
    problem = make(seed)
    chosen = found.at(problem.dim)
    with round_columns(console) as bars:
        row = bars.add_task(chosen.label, total=rounds, status="", start=False)
        settings: dict[str, Any] = {"rounds": rounds, "precision": precision}
        settings |= {"workers": workers, "store": store, "resume": resume}
        share_cores(workers)
        trial = run_trial(chosen, problem, bars, row, 0, **settings)
    result = trial.result
    lines = [
        f"{trial.label} on {problem}",
        f"status   {result.status}: {result.message}",
        *_reached(trial),
        *_success(trial),
        *_accuracy(trial),
        f"rounds   {result.rounds}",
        f"queries  {result.queries:,} (per client {', '.join(f'{q:,}' for q in result.queries_per_client)})",
        f"bytes    {decimal(result.bytes_up)} up, {decimal(result.bytes_down)} down",
        f"seconds  {result.seconds:.2f}",
    ]
    if store is not None:
        lines.append(f"stored   {store.resolve()}")
    if json_file is not None:
        write_json(json_file, outcome(chosen, problem, trial))
        lines += [f"json     {json_file.resolve()}"] if json_file != options.STDOUT else []
    typer.echo("\n".join(lines), err=json_file == options.STDOUT)
    return complain(*ending(trial))


def _reached(trial: Trial) -> list[str]:
    """F, and x if the objectives are the user's own."""
    result = trial.result
    if not math.isnan(trial.start):
        return [f"{trial.quantity:<8} {trial.values[-1]:.6g} (at x0 {trial.start:.6g}{_smallest(trial)})"]
    known = "not known" if result.fun is None else f"{result.fun:.6g}"
    variables = [f"  {name} = {value}" for name, value in (result.variables or {}).items()]
    return [f"x        {short_x(result.x)}", *variables, f"F        {known}"]


def _smallest(trial: Trial) -> str:
    return "" if trial.minimum is None else f", smallest {trial.minimum:.6g}"


def _success(trial: Trial) -> list[str]:
    """Whether the image of an attack is misclassified."""
    if trial.quantity != "margin":
        return []
    return ["attacked yes" if trial.is_attacked else "attacked no: the averaged logits still have its class"]


def _accuracy(trial: Trial) -> list[str]:
    """The accuracy of the language model, before and after the run."""
    if trial.accuracy is None:
        return []
    before, after = trial.accuracy
    return [f"accuracy {after:.1%} of the test texts (at x0 {before:.1%})"]
