"""`fzoos run`: one algorithm on one task."""

from __future__ import annotations

import math
from typing import Any

import typer

from fzoos.algorithms import find_algorithm
from fzoos.cli import options
from fzoos.cli.exit_codes import complain
from fzoos.cli.problems import problem_maker
from fzoos.cli.trial import check_files, ending, outcome, run_trial, share_cores, with_local_steps, write_json
from fzoos.messages.precision import check_precision
from fzoos.runs.plots import Trial
from fzoos.runs.progress import round_columns
from fzoos.runs.text import result_facts

__all__ = ["run"]


def run(
    context: typer.Context,
    task: options.TaskName,
    algorithm: options.AlgorithmName = "auto",
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
    precision: options.PrecisionName = "float64",
    seed: options.Seed = 0,
    workers: options.Workers = 1,
    json_file: options.JsonFile = None,
    store: options.StoreFile = None,
    resume: options.ResumeRun = None,
    quiet: options.Quiet = False,
) -> int:
    """Run one algorithm on one task.

    The command prints F, queries, bytes and seconds. With --store, the run can be shown, compared and resumed later.
    """
    from rich.console import Console

    (found,) = with_local_steps([find_algorithm(algorithm)], local_steps)
    check_precision(precision)
    console = Console(stderr=True, quiet=quiet)
    make = problem_maker(task, console, **{name: context.params[name] for name in options.TASK_OPTIONS})
    check_files(json_file, store)
    if resume is not None and store is None:
        raise ValueError(f"--resume {resume} needs --store: the file that the run is in")
    problem = make(seed)
    chosen = found.at(problem.dim)
    with round_columns(console) as bars:
        row = bars.add_task(chosen.label, total=rounds, status="", start=False)
        settings: dict[str, Any] = {"rounds": rounds, "precision": precision}
        settings |= {"workers": workers, "store": store, "resume": resume}
        share_cores(workers)
        trial = run_trial(chosen, problem, bars, row, 0, **settings)
    result = trial.result
    facts = result_facts(result, {}, [f"client {i}" for i in range(len(result.queries_per_client))])
    if not math.isnan(trial.start):  # a built-in task, whose x says nothing
        del facts["x"]
    facts = {"status": facts.pop("status")} | _reached(trial) | facts
    if store is not None:
        facts["stored"] = str(store.resolve())
    if json_file is not None:
        write_json(json_file, outcome(chosen, problem, trial))
        facts |= {"json": str(json_file.resolve())} if json_file != options.STDOUT else {}
    lines = [f"{trial.label} on {problem}", *(f"{heading:<8} {text}" for heading, text in facts.items())]
    typer.echo("\n".join(lines), err=json_file == options.STDOUT)
    return complain(*ending(trial))


def _reached(trial: Trial) -> dict[str, str]:
    """F and, of an attack or a language model, whether it has succeeded."""
    if math.isnan(trial.start):
        return {"F": "not known" if trial.result.fun is None else f"{trial.result.fun:.6g}"}
    smallest = "" if trial.minimum is None else f", smallest {trial.minimum:.6g}"
    facts: dict[str, str] = {trial.quantity: f"{trial.values[-1]:.6g} (at x0 {trial.start:.6g}{smallest})"}
    if trial.quantity == "margin":
        facts["attacked"] = "yes" if trial.is_attacked else "no: the averaged logits still have its class"
    if trial.accuracy is not None:
        before, after = trial.accuracy
        facts["accuracy"] = f"{after:.1%} of the test texts (at x0 {before:.1%})"
    return facts
