"""The commands of journals: `fzoos journal verify` and `fzoos journal recover`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fzoos.cli.help import HelpGroup
from fzoos.federation.recovery import JournalReport, recover, verify

__all__ = ["journal"]

_SHOWN = 10  # problems that are listed

File = Annotated[Path, typer.Argument(metavar="FILE", help="The journal of a site.")]


journal = typer.Typer(cls=HelpGroup, help="Verify a site's journal, or recover a damaged one.", rich_markup_mode=None)


@journal.command("verify")
def verify_journal(file: File) -> int:
    """Print what a journal contains and which of its rows are damaged. The exit code is 1 if any is.

    The journal is not changed.
    """
    found = verify(file)
    _show(found)
    return 1 if found.problems else 0


@journal.command("recover")
def recover_journal(
    file: File, new: Annotated[Path, typer.Argument(metavar="NEW", help="The file to write the intact rows to.")]
) -> int:
    """Write the intact rows of a damaged journal to a new one.

    The damaged journal is not changed; put the new one in its place yourself.
    """
    _show(recover(file, new))
    recovered = verify(new)
    typer.echo(f"{new}: {recovered.rows['queries']} queries; those that were lost have no value")
    typer.echo(f"next: move {file} and the files beside it away, and {new} to {file}")
    return 0


def _show(found: JournalReport) -> None:
    typer.echo(f"study {found.study or 'unknown'}, site {found.site or 'unknown'}")
    typer.echo("intact rows: " + (", ".join(f"{count} {table}" for table, count in found.rows.items()) or "none"))
    for problem in found.problems[:_SHOWN]:
        typer.echo(f"damage: {problem}")
    if len(found.problems) > _SHOWN:
        typer.echo(f"and {len(found.problems) - _SHOWN} more")
    if not found.problems:
        typer.echo("no row is damaged")
