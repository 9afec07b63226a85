"""The commands of journals: `fzoos journal verify` and `fzoos journal salvage`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fzoos.cli.help import HelpGroup, add_examples
from fzoos.federation.salvage import Salvaged, salvage, verify

__all__ = ["add_to"]

_SHOWN = 10  # problems that are listed

File = Annotated[Path, typer.Argument(metavar="FILE", help="The journal of a site.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        cls=HelpGroup, help="Look at a site's journal, and save what is good in a damaged one.", rich_markup_mode=None
    )
    group.command("verify")(verify_journal)
    group.command("salvage")(salvage_journal)
    add_examples(group)
    app.add_typer(group, name="journal")


def verify_journal(file: File) -> int:
    """Say what a journal holds and what of it is damaged; nothing is changed. Exit code 1 if anything is."""
    found = verify(file)
    _show(found)
    return 1 if found.problems else 0


def salvage_journal(
    file: File, new: Annotated[Path, typer.Argument(metavar="NEW", help="The file to make of what is good.")]
) -> int:
    """Make a new journal of what is good in a damaged one; put it in its place yourself."""
    _show(salvage(file, new))
    kept = verify(new)
    typer.echo(f"{new}: {kept.rows['queries']} queries, those that are lost included without a value")
    typer.echo(f"next: move {file} and the files beside it away, and {new} to {file}")
    return 0


def _show(found: Salvaged) -> None:
    typer.echo(f"study {found.study or 'unknown'}, site {found.site or 'unknown'}")
    typer.echo("good rows: " + (", ".join(f"{count} {table}" for table, count in found.rows.items()) or "none"))
    for problem in found.problems[:_SHOWN]:
        typer.echo(f"damage: {problem}")
    if len(found.problems) > _SHOWN:
        typer.echo(f"and {len(found.problems) - _SHOWN} more")
    if not found.problems:
        typer.echo("no damage")
