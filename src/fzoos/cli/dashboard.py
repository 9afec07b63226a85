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

__all__ = ["dashboard", "report"]

FORMATS = {"html": (".html", ".htm"), "md": (".md", ".txt")}
TOKEN = "FZOOS_DASHBOARD_TOKEN"


def dashboard(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A file of runs, or a folder with such files.")],
    host: Annotated[str, typer.Option(help="Address to listen at; other machines need a token.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at; the next free one if it is taken, 0 for any.")
    ] = 8366,
    token: Annotated[
        str | None,
        typer.Option(help=f"Secret that a visitor must give.  [default: ${TOKEN}, or generated where needed]"),
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Allow runs to be renamed, tagged and deleted; always needs a token.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> int:
    """Show runs in a browser, live.

    The page follows runs while they are running and shows them afterwards. Ctrl-C ends the command.
    """
    with RunIndex(path) as index:
        from fzoos.runs.dashboard.server import serve

        def announce(address: str, found: int) -> None:
            if port and found != port:
                typer.echo(f"port {port} is taken; {found} is free")
            typer.echo(f"runs of {path}: {address}")
            for problem in index.refresh()["problems"]:
                typer.echo(f"fzoos: ignored: {problem}", err=True)
            typer.echo("Ctrl-C ends it")
            if open_page:
                webbrowser.open(address)

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it as Ctrl-C does, with all files closed
        with suppress(KeyboardInterrupt):
            serve(index, host, port, token or os.environ.get(TOKEN) or None, announce, edit)
    return 0


def report(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help=RUN_HELP)] = None,
    every: Annotated[bool, typer.Option("--all", help="Include all runs of each file, not only the last one.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.  [default: report.html; md: standard output]")
    ] = None,
    kind: Annotated[str, typer.Option("--format", help="Format of the report: html or md.")] = "html",
) -> int:
    """Write plots and tables of runs to one file.

    The file needs nothing else and can be mailed and archived.
    """
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
