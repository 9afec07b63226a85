"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from fzoos.algorithms import ALGORITHMS
from fzoos.messages.precision import PRECISIONS
from fzoos.tasks import TASKS

__all__ = [
    "STDOUT",
    "TASK_NAMES",
    "AlgorithmName",
    "Clients",
    "ContinueRun",
    "Device",
    "Dim",
    "Heterogeneity",
    "JsonFile",
    "KeepIn",
    "LocalSteps",
    "NoiseShare",
    "PrecisionName",
    "Quiet",
    "Rounds",
    "Seed",
    "TaskName",
    "TextCount",
    "Workers",
    "choose",
]

T = TypeVar("T")

STDOUT = Path("-")

TASK_NAMES = (*TASKS, "prompt", "newsgroups")
TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help=f"One of {', '.join(TASK_NAMES)}; or MODULE:NAME, objectives of your own.",
        autocompletion=lambda: list(TASK_NAMES),
    ),
]
AlgorithmName = Annotated[
    str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.", autocompletion=lambda: list(ALGORITHMS))
]
Heterogeneity = Annotated[
    float | None,
    typer.Option(min=0.0, help="C: how much the clients differ; 0: not at all.  [default: 5; prompt, newsgroups: 2]"),
]
Rounds = Annotated[int, typer.Option(min=0, help="R: rounds of communication.")]
Dim = Annotated[int | None, typer.Option(min=1, help="d: dimension.  [default: 300; prompt, newsgroups: 500]")]
Device = Annotated[str, typer.Option(help="Where the language model of prompt and newsgroups runs: cpu or cuda.")]
TextCount = Annotated[int, typer.Option(min=1, help="Texts of each client of prompt and newsgroups.")]
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

ContinueRun = Annotated[
    str | None,
    typer.Option("--continue", help="Go on with this run of the file (name or id); --rounds counts those before."),
]


def choose(what: str, name: str, among: Mapping[str, T]) -> T:
    """The one of that name, or a ValueError that names them all."""
    if name not in among:
        raise ValueError(f"there is no {what} {name!r}; choose from {', '.join(among)}")
    return among[name]
