"""How a command ends: with an exit code and, if that is not 0, one line on standard error."""

from __future__ import annotations

import typer

__all__ = ["EXIT_CODES", "complain"]

EXIT_CODES = {
    0: "done; also a study that its budget ended, or that waits for values",
    1: "the run failed, or something unforeseen happened",
    2: "wrong input: arguments, settings or files; nothing was started",
    130: "interrupted with Ctrl-C; finished rounds are stored and shown",
}


def complain(what: object, code: int) -> int:
    """Say what went wrong, if the code says that something did, and return the code."""
    if code:
        typer.echo(f"fzoos: {' '.join(str(what).split())}", err=True)
    return code
