"""How a command ends: with an exit code and, if that is not 0, one line on standard error."""

from __future__ import annotations

import typer

__all__ = ["EXIT_CODES", "complain"]

EXIT_CODES = {
    0: "success; also a study that its budget has ended, or that waits for values",
    1: "the run failed, or an unexpected error occurred",
    2: "invalid input: arguments, settings or files; nothing was started",
    130: "interrupted with Ctrl-C; complete rounds are stored and shown",
}


def complain(what: object, code: int) -> int:
    """Print what went wrong unless the code is 0, and return the code."""
    if code:
        typer.echo(f"fzoos: {' '.join(str(what).split())}", err=True)
    return code
