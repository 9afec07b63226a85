"""The commands that show runs in a browser: `fzoos dashboard` and `fzoos report`."""

from __future__ import annotations

import os
import signal
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fzoos.cli.runs import RUN_HELP
from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.reader import DEFAULT, read, runs_at
from fzoos.runs.report import report as html_report
from fzoos.runs.rows import StoredRun
from fzoos.runs.store import StoreError

__all__ = ["add_to"]

_EXAMPLES = {
    "dashboard": (
        "fzoos dashboard runs.db",
        "fzoos dashboard my-study --open",
        "fzoos dashboard runs.db --edit",
        "fzoos dashboard results --host 0.0.0.0",
    ),
    "report": (
        "fzoos report",
        "fzoos report runs.db --all",
        "fzoos report runs.db:3 my-study -o both.html",
        "fzoos report my-study --format md -o report.md",
    ),
}
FORMATS = {"html": (".html", ".htm"), "md": (".md", ".txt")}
TOKEN = "FZOOS_DASHBOARD_TOKEN"


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (dashboard, report):
        examples = "\n".join(f"  {line}" for line in _EXAMPLES[command.__name__])
        app.command(epilog=f"\b\nExamples:\n{examples}")(command)


def dashboard(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file of runs, or a folder of such files.")],
    host: Annotated[str, typer.Option(help="Address to listen at; beyond this machine with a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="If it is taken, the next free one; 0: any.")] = 8366,
    token: Annotated[
        str | None, typer.Option(help=f"What a visitor must know.  [default: {TOKEN}, or made where needed]")
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Runs can be renamed, tagged and deleted; always with a token.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> int:
    """Follow runs in a browser, while they go on and afterwards; Ctrl-C ends it."""
    with RunIndex(path) as index:
        from fzoos.runs.dashboard.server import serve

        def announce(address: str, found: int) -> None:
            if port and found != port:
                typer.echo(f"port {port} is taken; {found} is free")
            typer.echo(f"runs of {path}: {address}")
            for problem in index.refresh()["problems"]:
                typer.echo(f"fzoos: left out: {problem}", err=True)
            typer.echo("Ctrl-C ends it")
            if open_page:
                webbrowser.open(address)

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does, with all files closed
        with suppress(KeyboardInterrupt):
            serve(index, host, port, token or os.environ.get(TOKEN) or None, announce, edit)
    return 0


def report(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help=RUN_HELP)] = None,
    every: Annotated[bool, typer.Option("--all", help="All runs of each file, not its last one.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File.  [default: report.html; md: standard output]")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "html",
) -> int:
    """Write plots and tables of runs into one file, for mail and archive."""
    if kind not in FORMATS:
        raise ValueError(f"there is no format {kind!r}; choose from {', '.join(FORMATS)}")
    if output is not None and output.suffix.lower() not in FORMATS[kind]:
        raise ValueError(f"the report must be a {' or '.join(FORMATS[kind])} file, got {output}")
    found = _read(runs or [None], every)
    if kind == "html":
        text, output = html_report(found), output or Path("report.html")
    else:
        from fzoos.runs.text import markdown

        labelled = [(_label(run, found), run.settings, run.result) for run in found]
        text = markdown(labelled)
    if output is None:
        typer.echo(text, nl=False)
        return 0
    output.write_text(text, encoding="utf-8")
    typer.echo(f"report of {len(found)} {'run' if len(found) == 1 else 'runs'}: {output.resolve()}")
    return 0


def _read(names: Sequence[str | None], every: bool) -> list[StoredRun]:
    if every:
        names = [f"{name or DEFAULT}:{run.id}" for name in names for run in runs_at(name)]
    if not names:
        raise StoreError("no run has begun there yet")
    return list({run.name: run for run in map(read, names)}.values())


def _label(run: StoredRun, among: Sequence[StoredRun]) -> str:
    same = sum(other.summary.name == run.summary.name for other in among)
    return run.summary.name if same == 1 else f"{run.summary.name} ({run.name})"
