"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fzoos.algorithms import ALGORITHMS
from fzoos.messages.precision import PRECISIONS

STDOUT = Path("-")

TASK_NAMES = ("quadratic", "ackley", "levy", "attack", "metric", "prompt")
DATASET_NAMES = ("mnist", "cifar10")
METRIC_NAMES = ("precision", "recall", "f1", "jaccard")
SPLIT_NAMES = ("divided", "whole")
TASK_OPTIONS = (
    *("dim", "clients", "heterogeneity", "noise", "dataset", "metric"),
    *("portion", "split", "full", "data", "device", "texts"),
)
"""The options that describe the task; each task has some of them."""

TaskName = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help=f"What to minimise: {', '.join(TASK_NAMES)}; or MODULE:NAME for objectives of your own.",
        autocompletion=lambda: list(TASK_NAMES),
    ),
]
AlgorithmName = Annotated[
    str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.", autocompletion=lambda: list(ALGORITHMS))
]
Rounds = Annotated[int, typer.Option(min=0, help="Rounds of communication (R).")]
Clients = Annotated[int | None, typer.Option(min=1, help="Number of clients (N).  [default: 5; attack: 10; metric: 7]")]
LocalSteps = Annotated[
    int | None,
    typer.Option(min=1, help="Local steps per round (T), for algorithms that have them.  [default: 10]"),
]
Dim = Annotated[
    int | None,
    typer.Option(
        min=1, help="Dimension of x (d); synthetic tasks, prompt and own objectives.  [default: 300; prompt: 500]"
    ),
]
Heterogeneity = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="How much the clients differ (C), 0 for not at all; synthetic tasks and prompt.  [default: 5; prompt: 2]",
    ),
]
NoiseShare = Annotated[
    float | None,
    typer.Option(
        "--noise",
        min=0.0,
        help="Standard deviation of the noise of each query, relative to F(x0) - F*; synthetic tasks.",
    ),
]
DatasetName = Annotated[
    str | None,
    typer.Option(
        help=f"Images to attack: {', '.join(DATASET_NAMES)}; attack.  [default: {DATASET_NAMES[0]}]",
        autocompletion=lambda: list(DATASET_NAMES),
    ),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        help=f"Score to maximise, F = 1 - score: {', '.join(METRIC_NAMES)}; metric.  [default: {METRIC_NAMES[0]}]",
        autocompletion=lambda: list(METRIC_NAMES),
    ),
]
Portion = Annotated[
    float | None,
    typer.Option(
        help="Share of the classes that each client has (P), 1 for all; attack and metric.  "
        "[default: mnist: 0.7; cifar10: 0.5; metric: 0.3]"
    ),
]
SplitName = Annotated[
    str | None,
    typer.Option(
        "--split",
        help="Samples that a client gets of each of its classes: a share (divided, as in the authors' program) or all "
        "(whole, as in the paper); attack and metric.  [default: divided]",
        autocompletion=lambda: list(SPLIT_NAMES),
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="Use the paper's models and all the data, much slower; attack and metric.")
]
TextCount = Annotated[int | None, typer.Option(min=1, help="Texts per client; prompt.  [default: 64]")]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder with the data of attack, metric and prompt.  [default: $FZOOS_DATA, then the cache]"
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="Where the models of attack, metric and prompt run: cpu or cuda.  [default: cpu]"),
]
PrecisionName = Annotated[
    str,
    typer.Option(
        help=f"Precision of the arrays in messages: {', '.join(PRECISIONS)}.", autocompletion=lambda: list(PRECISIONS)
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the task and of the run; in attack, it also selects the image.")
]
Workers = Annotated[int, typer.Option(min=1, help="Clients that run in parallel; the results are the same.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bar.")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", help="Write results and their histories to this file; - for standard output."),
]
StoreFile = Annotated[
    Path | None, typer.Option("--store", help="Store every round in this file of runs; created if it does not exist.")
]
ResumeRun = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        help="Resume this run of the --store file (name or id); --rounds includes its rounds.",
    ),
]
