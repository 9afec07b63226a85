"""`fzoos benchmark`: public suites of problems, split over clients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fzoos.cli import options
from fzoos.cli.exit_codes import complain

if TYPE_CHECKING:
    from fzoos_experiments.suites.benchmark import SuiteRun

__all__ = ["benchmark"]

_SUITES = ("bbob", "largescale", "ls", "ls-noisy", "ls-absolute", "mujoco")
_RIVALS = "auto,fzoos,fedzo,fedcma,fedlbfgs,bobyqa,cma-es,l-bfgs-b,nelder-mead,cobyqa,optuna-tpe,optuna-cma-es"


def benchmark(
    suite: Annotated[
        str,
        typer.Argument(help=f"One of {', '.join(_SUITES)}.", autocompletion=lambda: list(_SUITES)),
    ],
    dim: Annotated[
        str,
        typer.Option(help="Dimensions, separated by commas; bbob and largescale.  [default: bbob: 5; largescale: 80]"),
    ] = "",
    problems: Annotated[
        str, typer.Option(help="Problems of the suite, such as 1-14,20 or swimmer.  [default: all]")
    ] = "",
    instances: Annotated[
        str, typer.Option(help="Instances of each problem: 1 to 3 for tuning, others for reporting.")
    ] = "6-8",
    seeds: Annotated[
        int,
        typer.Option(min=1, help="Runs per instance, with the seeds 0, 1, ...; a seed determines x0 and the noise."),
    ] = 1,
    clients: Annotated[int, typer.Option(min=1, help="Number of clients (N).")] = 4,
    heterogeneity: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="How much the clients differ (C), relative to F(x0) - F*; mujoco: relative to the masses.  "
            "[default: 1; mujoco: 0.2]",
        ),
    ] = None,
    noise: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="Standard deviation of the noise of each query, relative to F(x0) - F*; mujoco: 1 for random starts.",
        ),
    ] = 0.0,
    budget: Annotated[int, typer.Option(min=1, help="Queries per client and dimension of x.")] = 100,
    algorithms: Annotated[
        str, typer.Option(help="Algorithms, and methods that see F itself; NAME@RATE sets a learning rate.")
    ] = _RIVALS,
    jobs: Annotated[int, typer.Option(min=1, help="Runs in parallel.")] = 1,
    output: Annotated[Path, typer.Option(help="Folder for the runs, the table and the plot.")] = Path("suites"),
    quiet: options.Quiet = False,
) -> int:
    """Compare algorithms on a public benchmark suite.

    The result is a table and a plot of data profiles. An interrupted command continues where it stopped when it is
    given again.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fzoos._util.table import plain_table
    from fzoos_experiments.suites.benchmark import SUITES, TUNING, SuiteRun, execute
    from fzoos_experiments.suites.profiles import outcomes, plot_profiles, summary, write_csv
    from fzoos_experiments.suites.rivals import find_rival

    if suite not in SUITES:
        raise ValueError(f"there is no suite {suite!r}; choose from {', '.join(SUITES)}")
    sized = suite in ("bbob", "largescale")
    if dim and not sized:
        raise ValueError(f"--dim is for bbob and largescale: the problems of {suite} have dimensions of their own")
    chosen = _numbers("--instances", instances)
    if any(i in TUNING for i in chosen) and not all(i in TUNING for i in chosen):
        raise ValueError(f"--instances mixes those for tuning (1 to 3) with those for reporting: {instances}")
    names = _words(problems, SUITES[suite])
    rivals = tuple(algorithms.split(","))
    for rival in rivals:
        find_rival(rival)
    share = heterogeneity if heterogeneity is not None else 0.2 if suite == "mujoco" else 1.0
    dims = _numbers("--dim", dim or ("80" if suite == "largescale" else "5")) if sized else [0]
    runs = [
        SuiteRun(suite, name, d, instance, rival, seed, clients, share, noise, budget)
        for d in dims
        for seed in range(seeds)
        for instance in chosen
        for name in names
        for rival in rivals
    ]
    console = Console(stderr=True, quiet=quiet)
    use = "tuning" if chosen[0] in TUNING else "reporting"
    console.print(f"{len(runs)} runs on instances {instances} ({use})")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    failures = []
    try:
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("runs", total=None)

            def advance(run: SuiteRun, left: int, error: str) -> None:
                bar.update(task, total=len(runs), completed=len(runs) - left, description=_title(run))
                if error:
                    failures.append(f"{_title(run)}: {error}")
                    bar.console.print(failures[-1], markup=False)

            found = outcomes(execute(runs, output, jobs, advance))
    except KeyboardInterrupt:
        return complain(f"interrupted; complete runs are stored in {output}; the same command continues", 130)
    title = f"{suite}{f', d = {dim or dims[0]}' if sized else ''}, N = {clients}, instances {instances} ({use})"
    stem = "-".join([suite, *map(str, dims if sized else ()), f"N{clients}", use])
    heads, rows = summary(found)
    typer.echo(plain_table(heads, rows, width=140, words=1))
    write_csv(found, output / f"{stem}.csv")
    made = [f"{stem}.csv"]
    try:
        plot_profiles(found, output / f"{stem}.png", title)
        made.append(f"{stem}.png")
    except ImportError:
        console.print("no plot: pip install 'fzoos[plot]'", markup=False)
    typer.echo(f"{title}: {', '.join(str(output / name) for name in made)}")
    return complain(f"{len(failures)} runs failed; the first: {failures[0]}", 1) if failures else 0


def _numbers(option: str, text: str) -> list[int]:
    """The numbers of a text such as "1-3,7"."""
    try:
        parts = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return [number for part in parts for number in range(part[0], part[-1] + 1)]
    except ValueError:
        raise ValueError(f"{option} must be numbers such as 1-3,7, got {text!r}") from None


def _words(text: str, among: Sequence[str]) -> list[str]:
    """The problems that a text names, or all if it is empty."""
    if not text:
        return list(among)
    is_numbered = among[0].isdigit()
    names = [str(number) for number in _numbers("--problems", text)] if is_numbered else text.split(",")
    for name in names:
        if name not in among:
            raise ValueError(f"--problems must be among {', '.join(among)}; got {name!r}")
    return names


def _title(run: SuiteRun) -> str:
    size = f" d {run.dim}" if run.dim else ""
    return f"{run.rival} on {run.suite} {run.problem}{size}, instance {run.instance}, seed {run.seed}"
