"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from fzoos.algorithms import ALGORITHMS
from fzoos.messages.precision import PRECISIONS

__all__ = [
    "DATASET_NAMES",
    "METRIC_NAMES",
    "SPLIT_NAMES",
    "STDOUT",
    "TASK_NAMES",
    "AlgorithmName",
    "Clients",
    "ContinueRun",
    "DataFolder",
    "DatasetName",
    "Device",
    "Dim",
    "Full",
    "Heterogeneity",
    "JsonFile",
    "KeepIn",
    "LocalSteps",
    "MetricName",
    "NoiseShare",
    "Portion",
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

TASK_NAMES = ("quadratic", "ackley", "levy", "attack", "metric", "prompt")
DATASET_NAMES = ("mnist", "cifar10")
METRIC_NAMES = ("precision", "recall", "f1", "jaccard")
SPLIT_NAMES = ("divided", "whole")
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
    typer.Option(
        min=0.0,
        help="C: how much the clients of a synthetic task or prompt differ; 0: not at all.  [default: 5; prompt: 2]",
    ),
]
Rounds = Annotated[int, typer.Option(min=0, help="R: rounds of communication.")]
Dim = Annotated[
    int | None,
    typer.Option(min=1, help="d: dimension of a synthetic task or prompt.  [default: 300; prompt: 500]"),
]
Device = Annotated[
    str | None,
    typer.Option(help="Where the models of attack, metric and prompt run: cpu or cuda.  [default: cpu]"),
]
TextCount = Annotated[int | None, typer.Option(min=1, help="Texts of each client of prompt.  [default: 64]")]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder of the data of attack, metric and prompt.  [default: $FZOOS_DATA, then the cache]",
    ),
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        help=f"Images of attack: {', '.join(DATASET_NAMES)}.  [default: {DATASET_NAMES[0]}]",
        autocompletion=lambda: list(DATASET_NAMES),
    ),
]
Portion = Annotated[
    float | None,
    typer.Option(
        help="P: share of the classes that each client of attack and metric has; 1: all.  "
        "[default: mnist: 0.7; cifar10: 0.5; metric: 0.3]"
    ),
]
SplitName = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="What a client of attack or metric gets of each of its classes: a share of the samples (divided, as the "
        "authors' program does it) or all of them (whole, as the paper says).  [default: divided]",
        autocompletion=lambda: list(SPLIT_NAMES),
    ),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        help=f"What metric maximises, F being 1 minus it: {', '.join(METRIC_NAMES)}.  [default: {METRIC_NAMES[0]}]",
        autocompletion=lambda: list(METRIC_NAMES),
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="attack, metric: the paper's models and all of the data; much slower.")
]
Clients = Annotated[int | None, typer.Option(min=1, help="N: clients.  [default: 5; attack: 10; metric: 7]")]
LocalSteps = Annotated[
    int | None,
    typer.Option(min=1, help="T: local steps per round, for algorithms that have them.  [default: 10]"),
]
NoiseShare = Annotated[
    float | None,
    typer.Option(
        "--noise",
        min=0.0,
        help="Standard deviation of the noise of each query of a synthetic task, as a share of F(x0) - F*.",
    ),
]
PrecisionName = Annotated[
    str, typer.Option(help=f"Of messages: {', '.join(PRECISIONS)}.", autocompletion=lambda: list(PRECISIONS))
]
Seed = Annotated[
    int, typer.Option(min=0, help="Makes the task and the run reproducible; of attack, it chooses the image, too.")
]
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
