"""`fzoos compare`: several algorithms on one task."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from fzoos.algorithms import ALGORITHMS, find_algorithm
from fzoos.cli import options
from fzoos.cli.exit_codes import complain
from fzoos.cli.problems import file_stem, problem_maker
from fzoos.cli.trial import check_files, ending, outcome, run_trial, share_cores, with_local_steps, write_json
from fzoos.messages.precision import check_precision
from fzoos.runs.plots import Trial, check_plot_path, plot, table
from fzoos.runs.progress import round_columns

__all__ = ["compare"]

_DEFAULT = "fedzo,fedprox,scaffoldi,scaffoldii,fzoos,auto"  # the paper's five, and what `minimize` runs by default


def compare(
    context: typer.Context,
    task: options.TaskName,
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
    algorithms: Annotated[str, typer.Option(help=f"Names separated by commas: {', '.join(ALGORITHMS)}.")] = _DEFAULT,
    precision: options.PrecisionName = "float64",
    seed: options.Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, with the seeds seed, seed + 1, ...")] = 1,
    workers: options.Workers = 1,
    output: Annotated[
        Path | None, typer.Option(help="File of the plot: .png, .pdf or .svg.  [default: fzoos-TASK.png]")
    ] = None,
    json_file: options.JsonFile = None,
    store: options.StoreFile = None,
    quiet: options.Quiet = False,
) -> int:
    """Compare several algorithms on one task.

    Each algorithm is run once per seed; the means are printed as a table and plotted against rounds, queries and bytes.
    """
    from rich.console import Console

    console = Console(stderr=True, quiet=quiet)
    make = problem_maker(task, console, **{name: context.params[name] for name in options.TASK_OPTIONS})
    kinds = with_local_steps([find_algorithm(name.strip()) for name in algorithms.split(",")], local_steps)
    check_precision(precision)
    path = output or Path(f"fzoos-{file_stem(task)}.png")
    check_plot_path(path)
    check_files(json_file, store)
    problems = [make(seed + k) for k in range(seeds)]
    chosen = list(dict.fromkeys(kind.at(problems[0].dim) for kind in kinds))
    settings: dict[str, Any] = {"rounds": rounds, "precision": precision}
    settings |= {"workers": workers, "store": store}
    share_cores(workers)
    trials: list[Trial] = []
    outcomes: list[dict[str, Any]] = []
    message, code = "", 0
    with round_columns(console) as bars:
        rows = [bars.add_task(a.label, total=rounds * seeds, status="", start=False) for a in chosen]
        try:
            for (algorithm, row), k in product(zip(chosen, rows, strict=True), range(seeds)):
                trials.append(run_trial(algorithm, problems[k], bars, row, k * rounds, **settings))
                outcomes.append(outcome(algorithm, problems[k], trials[-1]))
                message, code = ending(trials[-1])
                if code:
                    break
        except KeyboardInterrupt:  # between two runs; within one, minimize returns what was reached
            message, code = "interrupted", 130
    first = problems[0]
    conditions = [*first.conditions, f"d = {first.dim}", f"N = {first.clients}"]
    conditions += [] if local_steps is None else [f"T = {local_steps}"]
    title = f"{task}: {', '.join(conditions)}"
    title += f", noise {noise:g}" if noise else ""
    title += f", {_repetitions(task, seed, seeds)}"
    aside = json_file == options.STDOUT  # what is not data then goes to stderr
    if trials:
        Console(stderr=aside).print(table(trials, title))
        _plot(trials, path, title, aside)
    if json_file is not None:
        write_json(json_file, outcomes)
    return complain(message, code)


def _repetitions(task: str, seed: int, seeds: int) -> str:
    if task == "attack":
        return f"images {seed} to {seed + seeds - 1}" if seeds > 1 else f"image {seed}"
    return f"mean of {seeds} seeds" if seeds > 1 else f"seed {seed}"


def _plot(trials: Sequence[Trial], path: Path, title: str, aside: bool) -> None:
    try:
        plot(trials, path, title)
    except ImportError:
        typer.echo('no plot without matplotlib: pip install "fzoos[plot]"', err=aside)
        return
    typer.echo(f"plot: {path.resolve()}", err=aside)
