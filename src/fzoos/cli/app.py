"""The command line: `fzoos compare`, `fzoos run`, `fzoos reproduce`, and the commands of other files.

Those of studies are in `cli_study.py`, those of kept runs in `cli_runs.py`; `cli_help.py` has all examples.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress, TaskID
from threadpoolctl import threadpool_limits

from fzoos import __version__
from fzoos._util.arrays import check_device
from fzoos.algorithms import ALGORITHMS, Algorithm, find_algorithm
from fzoos.cli.dashboard import add_to as add_dashboard
from fzoos.cli.help import HelpGroup, add_examples, epilog
from fzoos.cli.runs import add_to as add_runs
from fzoos.cli.study import add_to
from fzoos.experiments.figures import FIGURES, Scale
from fzoos.experiments.figures import make as make_figure
from fzoos.experiments.reproduce import figure_list
from fzoos.experiments.reproduce import reproduce as reproduce_figure
from fzoos.federation.journal import JournalError
from fzoos.messages.precision import PRECISIONS, check_precision
from fzoos.minimize import minimize
from fzoos.result import ObjectiveError, Record
from fzoos.runs.export import to_json
from fzoos.runs.plots import Trial, check_plot_path, plot, table
from fzoos.runs.progress import round_columns, status
from fzoos.runs.reader import check_run_file
from fzoos.runs.store import StoreError
from fzoos.tasks import TASKS, Ackley, Levy, Noisy, Quadratic

__all__ = ["app", "main"]

_HELP = """Federated black-box optimisation with trajectory-informed surrogate gradients.

\b
Examples:
  fzoos compare quadratic --heterogeneity 5 --rounds 20
  fzoos compare levy --dim 50 --algorithms fedzo,fzoos --seeds 3 --output levy.png
  fzoos run ackley --algorithm fzoos --rounds 30 --store runs.db
  fzoos list runs.db
  fzoos reproduce fig1 --quick --jobs 2
  fzoos scaffold flare my-study
  fzoos study my-study
"""
_T = TypeVar("_T")
_Problem = Quadratic | Ackley | Levy | Noisy[Any]
_STDOUT = Path("-")

# The base class of all of typer's complaints about the command line. Newer versions of typer bring their own copy of
# click, older ones import it, so there is no name for it that serves both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(cls=HelpGroup, help=_HELP, epilog=epilog(), rich_markup_mode=None, pretty_exceptions_enable=False)

TaskName = Annotated[
    str, typer.Argument(metavar="TASK", help=f"One of {', '.join(TASKS)}.", autocompletion=lambda: list(TASKS))
]
AlgorithmName = Annotated[
    str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.", autocompletion=lambda: list(ALGORITHMS))
]
Heterogeneity = Annotated[float, typer.Option(min=0.0, help="C: how much the clients differ; 0: not at all.")]
Rounds = Annotated[int, typer.Option(min=0, help="R: rounds of communication.")]
Dim = Annotated[int, typer.Option(min=1, help="d: dimension.")]
Clients = Annotated[int, typer.Option(min=1, help="N: clients.")]
LocalSteps = Annotated[int, typer.Option(min=1, help="T: local steps of each client in a round.")]
NoiseShare = Annotated[
    float, typer.Option("--noise", min=0.0, help="Standard deviation of each query's noise, as a share of F(x0) - F*.")
]
PrecisionName = Annotated[
    str, typer.Option(help=f"Of messages: {', '.join(PRECISIONS)}.", autocompletion=lambda: list(PRECISIONS))
]
Seed = Annotated[int, typer.Option(min=0, help="Makes the task and the run reproducible.")]
Workers = Annotated[int, typer.Option(min=1, help="Clients that work at the same time; results do not change.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result and its history there; -: to standard output.")
]
KeepIn = Annotated[
    Path | None, typer.Option("--store", help="Keep every round in this file of runs; it is made if it is not there.")
]


@app.callback(invoke_without_command=True)
def _fzoos(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        typer.echo(f"fzoos {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def compare(
    task: TaskName,
    heterogeneity: Heterogeneity = 5.0,
    rounds: Rounds = 20,
    dim: Dim = 300,
    clients: Clients = 5,
    local_steps: LocalSteps = 10,
    noise: NoiseShare = 0.0,
    algorithms: Annotated[str, typer.Option(help="Names separated by commas.")] = ", ".join(
        name for name, kind in ALGORITHMS.items() if kind.installed()
    ),
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
    kind = _choose("task", task, TASKS)
    chosen = list(dict.fromkeys(find_algorithm(name.strip()) for name in algorithms.split(",")))
    check_precision(precision)
    path = output or Path(f"fzoos-{kind.name}.png")
    check_plot_path(path)
    _check_files(json_file, store)
    problems = [_problem(kind(dim, clients, heterogeneity, seed + k), noise) for k in range(seeds)]
    settings: dict[str, Any] = {"rounds": rounds, "local_steps": local_steps, "precision": precision}
    settings |= {"workers": workers, "store": store}
    _share_cores(workers)
    trials: list[Trial] = []
    outcomes: list[dict[str, Any]] = []
    message, code = "", 0
    with round_columns(Console(stderr=True, quiet=quiet)) as bars:
        rows = [bars.add_task(a.label, total=rounds * seeds, status="", start=False) for a in chosen]
        try:
            for (algorithm, row), k in product(zip(chosen, rows, strict=True), range(seeds)):
                trials.append(_trial(algorithm, problems[k], bars, row, k * rounds, **settings))
                outcomes.append(_outcome(algorithm, problems[k], trials[-1]))
                message, code = _ending(trials[-1])
                if code:
                    break
        except KeyboardInterrupt:  # between two runs; within one, minimize returns what was reached
            message, code = "interrupted", 130
    title = f"{kind.name}: C = {heterogeneity:g}, d = {dim}, N = {clients}, T = {local_steps}"
    title += f", noise {noise:g}" if noise else ""
    title += f", mean of {seeds} seeds" if seeds > 1 else f", seed {seed}"
    aside = json_file == _STDOUT  # what is for people then goes to stderr
    if trials:
        Console(stderr=aside).print(table(trials, title))
        _plot(trials, path, title, aside)
    if json_file is not None:
        _write_json(json_file, outcomes)
    return _complain(message, code)


@app.command()
def run(
    task: TaskName,
    algorithm: AlgorithmName = "fzoos",
    heterogeneity: Heterogeneity = 5.0,
    rounds: Rounds = 20,
    dim: Dim = 300,
    clients: Clients = 5,
    local_steps: LocalSteps = 10,
    noise: NoiseShare = 0.0,
    precision: PrecisionName = "float64",
    seed: Seed = 0,
    workers: Workers = 1,
    json_file: JsonFile = None,
    store: KeepIn = None,
    quiet: Quiet = False,
) -> int:
    """Run one algorithm on a task; end with what it reached and what it cost."""
    chosen = find_algorithm(algorithm)
    check_precision(precision)
    problem = _problem(_choose("task", task, TASKS)(dim, clients, heterogeneity, seed), noise)
    _check_files(json_file, store)
    with round_columns(Console(stderr=True, quiet=quiet)) as bars:
        row = bars.add_task(chosen.label, total=rounds, status="", start=False)
        settings: dict[str, Any] = {"rounds": rounds, "local_steps": local_steps, "precision": precision}
        settings |= {"workers": workers, "store": store}
        _share_cores(workers)
        trial = _trial(chosen, problem, bars, row, 0, **settings)
    result = trial.result
    lines = [
        f"{trial.label} on {problem}",
        f"status   {result.status}: {result.message}",
        f"F        {trial.values[-1]:.6g} (at x0 {trial.start:.6g}, smallest {trial.minimum:.6g})",
        *_recommended(trial),
        f"rounds   {result.rounds}",
        f"queries  {result.queries:,} (per client {', '.join(f'{q:,}' for q in result.queries_per_client)})",
        f"bytes    {decimal(result.bytes_up)} up, {decimal(result.bytes_down)} down",
        f"seconds  {result.seconds:.2f}",
    ]
    if store is not None:
        lines.append(f"kept in  {store.resolve()}")
    if json_file is not None:
        _write_json(json_file, _outcome(chosen, problem, trial))
        lines += [f"json     {json_file.resolve()}"] if json_file != _STDOUT else []
    typer.echo("\n".join(lines), err=json_file == _STDOUT)
    return _complain(*_ending(trial))


@app.command()
def reproduce(
    figure: Annotated[str, typer.Argument(metavar="FIGURE", help=f"One of {', '.join(FIGURES)}, all.")] = "",
    show: Annotated[bool, typer.Option("--list", help="Show the figures and about how long they take.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="The same at toy size: minutes on two cores.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions.  [default: 5; attacks: 1]")] = None,
    device: Annotated[str, typer.Option(help="Where networks and surrogates run: cpu or cuda.")] = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="Runs made at the same time.")] = 1,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds, in place of the figure's own number.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Rows of Covertype, in place of all.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Make no run; draw the panels that are finished.")] = False,
    output: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    quiet: Quiet = False,
) -> int:
    """Make a figure of the paper again: plots, a table of all curves, the settings. Interrupted, it goes on later."""
    if show or not figure:
        Console().print(figure_list())
        return 0
    scale = Scale(quick, seeds, device, rounds, samples)
    if device != "cpu" and not partial:  # runs that were made on a GPU can be drawn anywhere
        check_device(device)
    for name in FIGURES if figure == "all" else [figure]:
        made = make_figure(name, scale)
        try:
            folder = reproduce_figure(made, output, jobs, Console(stderr=True, quiet=quiet), partial)
        except KeyboardInterrupt:
            return _complain(f"interrupted; finished runs are kept in {output}, the same command goes on", 130)
        typer.echo(f"{name}: {made.caption}: {folder.resolve()}")
    return 0


add_to(app)
add_runs(app)
add_dashboard(app)
add_examples(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; whatever goes wrong is one line on stderr, and exit code 2 if the input was wrong."""
    try:
        code = app(args=arguments, prog_name="fzoos", standalone_mode=False)
    except _UsageError as error:
        code = _complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except (ValueError, OSError, MemoryError, ImportError, StoreError, JournalError) as error:
        code = _complain(error, 2)
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("interrupted", 130)
    except Exception as error:
        code = _complain(f"{type(error).__name__}: {error}", 1)
    sys.exit(code or 0)


def _complain(what: object, code: int) -> int:
    if code:
        typer.echo(f"fzoos: {' '.join(str(what).split())}", err=True)
    return code


def _ending(trial: Trial) -> tuple[str, int]:
    """What to say of a run that ended early, and the exit code; what it reached is shown all the same."""
    return trial.result.message, {"interrupted": 130, "failed": 1}.get(trial.result.status, 0)


def _share_cores(workers: int) -> None:
    """Clients on threads share the cores: the built-in tasks need no BLAS threads beside them."""
    if workers > 1:
        threadpool_limits(1, user_api="blas")


def _check_files(json_file: Path | None, store: Path | None) -> None:
    """What cannot be written is said before the run."""
    if store is not None:
        check_run_file(store)
    if json_file is not None and json_file != _STDOUT:
        json_file.touch()


def _problem(task: Quadratic | Ackley | Levy, noise: float) -> _Problem:
    return Noisy(task, noise, task.seed) if noise else task


def _recommended(trial: Trial) -> list[str]:
    """F at the recommended x, where that is not the last."""
    result = trial.result
    if trial.recommended is None or np.array_equal(result.recommended, result.x):
        return []
    return [f"         {trial.recommended:.6g} at the recommended x, a mean of the last rounds"]


def _outcome(algorithm: type[Algorithm], problem: _Problem, trial: Trial) -> dict[str, Any]:
    known = {"task": str(problem), "algorithm": str(algorithm()), "version": __version__}
    return {**known, "start": trial.start, "minimum": trial.minimum, **asdict(trial.result)}


def _write_json(path: Path, outcome: Any) -> None:
    if path == _STDOUT:
        typer.echo(to_json(outcome), nl=False)
    else:
        path.write_text(to_json(outcome), encoding="utf-8")


def _plot(trials: Sequence[Trial], path: Path, title: str, aside: bool) -> None:
    try:
        plot(trials, path, title)
    except ImportError:
        typer.echo('no plot without matplotlib: pip install "fzoos[plot]"', err=aside)
        return
    typer.echo(f"plot: {path.resolve()}", err=aside)


def _choose(what: str, name: str, among: Mapping[str, _T]) -> _T:
    if name not in among:
        raise ValueError(f"there is no {what} {name!r}; choose from {', '.join(among)}")
    return among[name]


def _trial(
    algorithm: type[Algorithm],
    task: _Problem,
    bars: Progress,
    row: TaskID,
    done: int = 0,
    **settings: Any,
) -> Trial:
    """Run an algorithm on a task and show its rounds in a row of the progress display, after `done` earlier ones."""

    def show(record: Record) -> None:
        bars.update(row, completed=done + record.round, status=status(record))

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
    bars.start_task(row)
    try:
        result = minimize(task.objectives, algorithm=algorithm(), callback=show, **problem, **settings)
    except ObjectiveError as error:
        if error.result is None:
            raise
        result = error.result
    return Trial(algorithm.label, result, task.value(task.x0), task.minimum, task.value(result.recommended))
