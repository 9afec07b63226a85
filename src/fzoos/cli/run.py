"""`fzoos run`: one algorithm on one task."""

from __future__ import annotations

import math
from typing import Any

import typer
from rich.filesize import decimal

from fzoos.algorithms import find_algorithm
from fzoos.cli.exit_codes import complain
from fzoos.cli.options import (
    STDOUT,
    AlgorithmName,
    Clients,
    ContinueRun,
    DataFolder,
    DatasetName,
    Device,
    Dim,
    Full,
    Heterogeneity,
    JsonFile,
    KeepIn,
    LocalSteps,
    MetricName,
    NoiseShare,
    Portion,
    PrecisionName,
    Quiet,
    Rounds,
    Seed,
    SplitName,
    TaskName,
    TextCount,
    Workers,
)
from fzoos.cli.problems import problem_maker
from fzoos.cli.trial import check_files, ending, outcome, run_trial, share_cores, with_local_steps, write_json
from fzoos.messages.precision import check_precision
from fzoos.runs.plots import Trial
from fzoos.runs.progress import round_columns
from fzoos.runs.text import short_x

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(run)


def run(
    task: TaskName,
    algorithm: AlgorithmName = "auto",
    heterogeneity: Heterogeneity = None,
    rounds: Rounds = 20,
    dim: Dim = None,
    clients: Clients = None,
    local_steps: LocalSteps = None,
    noise: NoiseShare = None,
    dataset: DatasetName = None,
    metric: MetricName = None,
    portion: Portion = None,
    split: SplitName = None,
    full: Full = False,
    data: DataFolder = None,
    device: Device = None,
    texts: TextCount = None,
    precision: PrecisionName = "float64",
    seed: Seed = 0,
    workers: Workers = 1,
    json_file: JsonFile = None,
    store: KeepIn = None,
    going_on: ContinueRun = None,
    quiet: Quiet = False,
) -> int:
    """Run one algorithm on a task; end with what it reached and what it cost."""
    from rich.console import Console

    (found,) = with_local_steps([find_algorithm(algorithm)], local_steps)
    check_precision(precision)
    console = Console(stderr=True, quiet=quiet)
    make = problem_maker(
        task,
        console,
        dim=dim,
        clients=clients,
        heterogeneity=heterogeneity,
        noise=noise,
        dataset=dataset,
        metric=metric,
        portion=portion,
        split=split,
        full=full or None,
        data=data,
        device=device,
        texts=texts,
    )
    check_files(json_file, store)
    if going_on is not None and store is None:
        raise ValueError(f"--continue {going_on} needs --store: the file that the run is in")
    problem = make(seed)
    chosen = found.at(problem.dim)
    with round_columns(console) as bars:
        row = bars.add_task(chosen.label, total=rounds, status="", start=False)
        settings: dict[str, Any] = {"rounds": rounds, "precision": precision}
        settings |= {"workers": workers, "store": store, "start": going_on}
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
        lines.append(f"kept in  {store.resolve()}")
    if json_file is not None:
        write_json(json_file, outcome(chosen, problem, trial))
        lines += [f"json     {json_file.resolve()}"] if json_file != STDOUT else []
    typer.echo("\n".join(lines), err=json_file == STDOUT)
    return complain(*ending(trial))


def _reached(trial: Trial) -> list[str]:
    """F, and of the user's own objectives x, too."""
    result = trial.result
    if not math.isnan(trial.start):
        return [f"{trial.quantity:<8} {trial.values[-1]:.6g} (at x0 {trial.start:.6g}{_smallest(trial)})"]
    known = "not known" if result.fun is None else f"{result.fun:.6g}"
    variables = [f"  {name} = {value}" for name, value in (result.variables or {}).items()]
    return [f"x        {short_x(result.x)}", *variables, f"F        {known}"]


def _smallest(trial: Trial) -> str:
    return "" if trial.minimum is None else f", smallest {trial.minimum:.6g}"


def _success(trial: Trial) -> list[str]:
    """Whether the image is attacked."""
    if trial.quantity != "margin":
        return []
    return ["attacked yes" if trial.is_attacked else "attacked no: the averaged logits still have its class"]


def _accuracy(trial: Trial) -> list[str]:
    """Of the language model, before and after."""
    if trial.accuracy is None:
        return []
    before, after = trial.accuracy
    return [f"accuracy {after:.1%} of the test texts (at x0 {before:.1%})"]
