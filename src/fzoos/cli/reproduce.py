"""`fzoos reproduce`: the paper's figures, and its theory, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fzoos._util.arrays import check_device
from fzoos.cli import options
from fzoos.cli.exit_codes import complain
from fzoos_experiments.paper.figures import FIGURES, Scale
from fzoos_experiments.paper.figures import make as make_figure

__all__ = ["reproduce"]


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(metavar="FIGURE...", help=f"One or more of {', '.join(FIGURES)}, theory; or all."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the figures and about how long they take.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Use a toy size, which takes minutes on two cores.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions.  [default: 5; attacks: 1]")] = None,
    device: Annotated[str, typer.Option(help="Where networks and surrogates run: cpu or cuda.")] = "cpu",
    jobs: Annotated[int, typer.Option(min=1, help="Runs in parallel.")] = 1,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of communication.  [default: as in the figure]")
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Rows of Covertype.  [default: all]")] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Start no runs; draw the curves that are complete.")
    ] = False,
    output: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    quiet: options.Quiet = False,
) -> int:
    """Reproduce figures of the paper.

    Each figure becomes a folder with plots, a table of all curves and the settings. An interrupted command continues
    where it stopped when it is given again.
    """
    from rich.console import Console

    from fzoos_experiments.paper.reproduce import figure_list, missing_runs
    from fzoos_experiments.paper.reproduce import reproduce as reproduce_figure
    from fzoos_experiments.paper.runner import execute
    from fzoos_experiments.paper.theory import reproduce_theory

    if show or not figures:
        Console().print(figure_list())
        return 0
    scale = Scale(quick, seeds, device, rounds, samples)
    names = (*FIGURES, "theory") if "all" in figures else tuple(dict.fromkeys(figures))
    made = [make_figure(name, scale) for name in names if name != "theory"]
    missing = [] if partial else missing_runs(made, output)
    if device != "cpu" and missing:  # runs that were made on a GPU can be drawn anywhere
        check_device(device)
    console = Console(stderr=True, quiet=quiet)
    try:
        execute(missing, output / "runs", jobs, console)
        for figure in made:
            folder = reproduce_figure(figure, output, jobs, console, partial)
            typer.echo(f"{figure.name}: {figure.caption}: {folder.resolve()}")
        if "theory" in names:
            folder = reproduce_theory(output / "theory", quick, console.print)
            typer.echo(f"theory: the paper's theory, measured: {folder.resolve()}")
    except KeyboardInterrupt:
        return complain(f"interrupted; complete runs are stored in {output}; the same command continues", 130)
    return 0
