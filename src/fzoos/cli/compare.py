"""`fzoos compare`: several algorithms on one task."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from fzoos.algorithms import ALGORITHMS, find_algorithm
from fzoos.cli.exit_codes import complain
from fzoos.cli.options import (
    STDOUT,
    Clients,
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
from fzoos.cli.own import file_stem
from fzoos.cli.problems import problem_maker
from fzoos.cli.trial import check_files, ending, outcome, run_trial, share_cores, with_local_steps, write_json
from fzoos.messages.precision import check_precision
from fzoos.runs.plots import Trial, check_plot_path, plot, table
from fzoos.runs.progress import round_columns

__all__ = ["add_to"]

_DEFAULT = "fedzo,fedprox,scaffoldi,scaffoldii,fzoos,auto"  # the paper's five, and what `minimize` runs by default


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    task: TaskName,
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
    algorithms: Annotated[str, typer.Option(help=f"Names separated by commas, of {', '.join(ALGORITHMS)}.")] = _DEFAULT,
    precision: PrecisionName = "float64",
    seed: Seed = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions, with seed, seed + 1, ...")] = 1,
    workers: Workers = 1,
    output: Annotated[Path | None, typer.Option(help="Plot file.  [default: fzoos-TASK.png]")] = None,
    json_file: JsonFile = None,
    store: KeepIn = None,
    quiet: Quiet = False,
) -> int:
    """Run several algorithms on a task; end with a table and a plot."""
    from rich.console import Console

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
    aside = json_file == STDOUT  # what is not data then goes to stderr
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
