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
    Device,
    Dim,
    Heterogeneity,
    JsonFile,
    KeepIn,
    LocalSteps,
    NoiseShare,
    PrecisionName,
    Quiet,
    Rounds,
    Seed,
    TaskName,
    TextCount,
    Workers,
)
from fzoos.cli.own import is_own
from fzoos.cli.trial import check_files, ending, outcome, problem_maker, run_trial, share_cores, write_json
from fzoos.messages.precision import check_precision
from fzoos.runs.plots import Trial, check_plot_path, plot, table
from fzoos.runs.progress import round_columns

__all__ = ["add_to"]

_INSTALLED = ", ".join(name for name, kind in ALGORITHMS.items() if kind.installed())


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(compare)


def compare(
    task: TaskName,
    heterogeneity: Heterogeneity = None,
    rounds: Rounds = 20,
    dim: Dim = None,
    clients: Clients = 5,
    local_steps: LocalSteps = 10,
    noise: NoiseShare = 0.0,
    device: Device = "cpu",
    texts: TextCount = 64,
    algorithms: Annotated[str, typer.Option(help="Names separated by commas.")] = _INSTALLED,
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

    make = problem_maker(task, dim, clients, heterogeneity, noise, device, texts)
    chosen = list(dict.fromkeys(find_algorithm(name.strip()) for name in algorithms.split(",")))
    check_precision(precision)
    path = output or Path(f"fzoos-{make(seed).stem if is_own(task) else task}.png")
    check_plot_path(path)
    check_files(json_file, store)
    problems = [make(seed + k) for k in range(seeds)]
    settings: dict[str, Any] = {"rounds": rounds, "local_steps": local_steps, "precision": precision}
    settings |= {"workers": workers, "store": store}
    share_cores(workers)
    trials: list[Trial] = []
    outcomes: list[dict[str, Any]] = []
    message, code = "", 0
    with round_columns(Console(stderr=True, quiet=quiet)) as bars:
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
    differ = "" if first.heterogeneity is None else f"C = {first.heterogeneity:g}, "
    title = f"{task}: {differ}d = {first.dim}, N = {len(first.objectives)}, T = {local_steps}"
    title += f", noise {noise:g}" if noise else ""
    title += f", mean of {seeds} seeds" if seeds > 1 else f", seed {seed}"
    aside = json_file == STDOUT  # what is not data then goes to stderr
    if trials:
        Console(stderr=aside).print(table(trials, title))
        _plot(trials, path, title, aside)
    if json_file is not None:
        write_json(json_file, outcomes)
    return complain(message, code)


def _plot(trials: Sequence[Trial], path: Path, title: str, aside: bool) -> None:
    try:
        plot(trials, path, title)
    except ImportError:
        typer.echo('no plot without matplotlib: pip install "fzoos[plot]"', err=aside)
        return
    typer.echo(f"plot: {path.resolve()}", err=aside)
