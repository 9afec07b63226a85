"""The commands of stored runs: `fzoos list`, `fzoos show`, `fzoos compare-runs` and `fzoos export`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from fzoos.result import known_values
from fzoos.runs.compare import AXES, at_equal, differing, flatten
from fzoos.runs.export import export as write
from fzoos.runs.export import iso_time, run_as_dict, to_json
from fzoos.runs.reader import DEFAULT, read, runs_at
from fzoos.runs.rows import StoredRun, Summary, plain
from fzoos.runs.text import number, one_line, result_facts, round_rows, value_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["RUN_HELP", "compare_runs", "export", "list_runs", "show"]

RUN_HELP = f"A run: FILE:ID, FILE (its last run) or ID (in {DEFAULT}). FILE may be a folder with a result.db."
_WIDE = 200
First = Annotated[str, typer.Argument(metavar="A", help=RUN_HELP)]
Second = Annotated[str, typer.Argument(metavar="B", help="Another run, named in the same way.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def list_runs(
    path: Annotated[
        str | None, typer.Argument(metavar="[PATH]", help=f"A file of runs, or its folder.  [default: {DEFAULT}]")
    ] = None,
    as_json: Json = False,
) -> int:
    """List the runs in a file.

    Each row shows what a run has reached and what it has cost.
    """
    runs = runs_at(path)
    if as_json:
        typer.echo(to_json([_summary(run) for run in runs]), nl=False)
        return 0
    if not runs:
        typer.echo("no run yet")
        return 0
    constrained, tagged = any(run.feasible is not None for run in runs), any(run.tags for run in runs)
    words = ["id", "name", *["tags"] * tagged, "started", "status", *["feasible"] * constrained]
    table = _table(words, ["rounds", "F", "queries", "bytes", "seconds"])
    for run in runs:
        tags, feasible = [", ".join(run.tags)] * tagged, [_yes(run.feasible)] * constrained
        counts = [str(run.rounds), number(run.monitor), f"{run.queries:,}", decimal(run.bytes), f"{run.seconds:.1f}"]
        _row(table, [str(run.id), run.name, *tags, _when(run.started), run.status, *feasible, *counts])
    _console().print(table)
    return 0


def show(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help=RUN_HELP)] = None,
    rounds: Annotated[int, typer.Option(min=0, help="Number of rounds to show, the last ones.")] = 10,
    as_json: Json = False,
) -> int:
    """Show the settings and the result of a run.

    The last rounds follow, and the replies that did not come.
    """
    stored = read(run)
    if as_json:
        typer.echo(to_json(run_as_dict(stored)), nl=False)
        return 0
    for name, value in _facts(stored).items():
        typer.echo(f"{name:<8} {one_line(value)}")
    console = _console()
    _show_settings(console, stored)
    if rounds and stored.result.history:
        _show_rounds(console, stored, rounds)
    if stored.failures:
        _show_failures(console, stored)
    return 0


def compare_runs(a: First, b: Second, as_json: Json = False) -> int:
    """Compare the settings and the results of two runs.

    The results are F at equal rounds, queries and bytes.
    """
    runs = [read(a), read(b)]
    results, settings = [run.result for run in runs], differing([run.settings for run in runs])
    if as_json:
        values = {axis: [{"cost": cost, "F": f} for cost, f in at_equal(results, axis)] for axis in AXES}
        named = [{"run": run.name, **_summary(run.summary)} for run in runs]
        typer.echo(to_json({"runs": named, "settings": settings, "at_equal": values}), nl=False)
        return 0
    for letter, run in zip("AB", runs, strict=True):
        typer.echo(f"{letter}  {one_line(run.name)}  {one_line(run.summary.name)}  {one_line(run.result.status)}")
    console = _console()
    if settings:
        table = _table(["setting", "A", "B"], [], title="settings that differ")
        for name, pair in settings.items():
            _row(table, [name, *map(value_text, pair)])
        console.print(table)
    else:
        typer.echo("all settings are the same")
    if all(run.summary.monitor is None for run in runs):
        typer.echo("F is not known: these runs had no monitor")
        return 0
    table = _table(["of"], ["up to", "A", "B"], title="F at equal cost")
    for axis in AXES:
        for cost, f in at_equal(results, axis):
            _row(table, [axis, f"{cost:,}", *map(number, f)])
        table.add_section()
    console.print(table)
    return 0


def export(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help=RUN_HELP)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The file: .csv and .parquet have one row per round, .json has everything."
        ),
    ] = None,
) -> int:
    """Write a run to a CSV, JSON or Parquet file."""
    if output is None:
        raise ValueError("--output is missing: the file to write, .csv, .json or .parquet")
    stored = read(run)
    write(stored, output)
    typer.echo(f"{one_line(stored.name)}: {stored.result.rounds} rounds in {output.resolve()}")
    return 0


def _summary(run: Summary) -> dict[str, Any]:
    found: dict[str, Any] = plain(vars(run) | {"started": iso_time(run.started), "F": run.monitor})
    del found["monitor"]
    return found


def _facts(stored: StoredRun) -> dict[str, str]:
    result, summary = stored.result, stored.summary
    facts = {"run": stored.name, "name": summary.name, "tags": ", ".join(summary.tags)}
    facts |= {"started": _local_time(summary.started), "status": "", "F": _values_of(stored)}
    facts |= result_facts(result, stored.extra, stored.clients)
    return {heading: text for heading, text in facts.items() if text}


def _values_of(stored: StoredRun) -> str:
    """F at the end, its lowest value in a feasible round, and what is known of F beside the rounds."""
    history = stored.result.history
    measured = [(r.monitor, r.round) for r in history if r.monitor is not None]
    if not measured:
        return ""
    lowest = min([(value, history[k].round) for value, k in known_values(history)] or measured)
    known = {"at x0": stored.summary.start, "smallest": stored.summary.minimum}
    also = "".join(f", {name} {value:.6g}" for name, value in known.items() if value is not None)
    return f"{measured[-1][0]:.6g} (lowest {lowest[0]:.6g} in round {lowest[1]}{also})"


def _show_settings(console: Console, stored: StoredRun) -> None:
    table = _table(["setting", "value"], [])
    for name, value in flatten(stored.settings).items():
        _row(table, [name, value_text(value)])
    console.print(table)


def _show_rounds(console: Console, stored: StoredRun, count: int) -> None:
    shown = stored.result.history[-count:]
    constrained = any(record.feasible is not None for record in shown)
    heads, rows = round_rows(shown)
    heads = [head.replace(" ", "\n") for head in heads]
    table = _table([], [*heads, *["feasible"] * constrained], title="last rounds")
    for record, row in zip(shown, rows, strict=True):
        _row(table, [*row, *[_yes(record.feasible)] * constrained])
    console.print(table)


def _show_failures(console: Console, stored: StoredRun, count: int = 10) -> None:
    hidden = len(stored.failures) - count
    title = "missing replies" + (f" (the last {count}; {hidden} more before)" if hidden > 0 else "")
    table = _table(["round", "client", "reason"], [], title)
    for round, client, reason in stored.failures[-count:]:
        _row(table, [str(round), stored.client(client), reason])
    console.print(table)


def _console() -> Console:
    """A console as wide as the terminal; in a pipe or a file, wide enough that nothing is cut."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=_WIDE)


def _table(words: Sequence[str], numbers: Sequence[str], title: str | None = None) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=0)
    for word in words:
        table.add_column(word, overflow="fold", no_wrap=word in ("id", "started", "status"))
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _row(table: Table, cells: Sequence[str]) -> None:
    from rich.text import Text

    table.add_row(*(Text(one_line(cell)) for cell in cells))  # text, never markup: it comes from a file


def _yes(feasible: bool | None) -> str:
    return {True: "yes", False: "no", None: "–"}[feasible]


def _local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _when(seconds: float) -> str:
    """A time for a table: without the year if it is this one, otherwise without the hour."""
    text = _local_time(seconds)
    return text[5:] if text[:4] == str(datetime.now().year) else text[:10]
