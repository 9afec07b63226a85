"""The list of commands. A command is loaded when it is called: `fzoos --help` and completion need only this file."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer

from fzoos.cli.help import HelpGroup, add_examples

__all__ = ["COMMANDS", "CommandList", "add_to", "load_command"]

COMMANDS = {
    "compare": ("compare", "Run several algorithms on a task; end with a table and a plot."),
    "run": ("run", "Run one algorithm on a task; end with what it reached and what it cost."),
    "reproduce": ("reproduce", "Make figures of the paper again: plots, a table of all curves, the settings."),
    "benchmark": ("benchmark", "Compare algorithms on a public suite, with a table and data profiles."),
    "scaffold": ("study", "Make the files of a study across machines: edit two of them, follow its README."),
    "study": ("study", "Run a study with all its sites on this machine; Ctrl-C and --resume lose nothing."),
    "ask": ("study", "Print the points to evaluate next, as a table to fill in (CSV) and to hand to `fzoos tell`."),
    "tell": ("study", "Hand in values for points of `fzoos ask`; some of them will do, the rest can come later."),
    "list": ("runs", "List the runs in a file: what they reached and what they cost."),
    "show": ("runs", "Show a run: its settings, what it reached and cost, its last rounds, and who did not answer."),
    "compare-runs": (
        "runs",
        "Compare two runs: where their settings differ, and F at equal rounds, queries and bytes.",
    ),
    "export": ("runs", "Write a run to a file that other programs read."),
    "dashboard": ("dashboard", "Follow runs in a browser, while they go on and afterwards; Ctrl-C ends it."),
    "report": ("dashboard", "Write plots and tables of runs into one file, for mail and archive."),
    "journal": ("journal", "Look at a site's journal, and save what is good in a damaged one."),
}
"""Each command's module, whose `add_to` adds it to an app, and the first sentence of its help."""


class CommandList(HelpGroup):
    """Lists commands by name and first sentence, and loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, loaded, and the other words."""
        name, command, words = super().resolve_command(ctx, args)
        return name, None if command is None else load_command(command.name), words


def add_to(app: typer.Typer) -> None:
    """Add the names of all commands."""
    for name, (_, sentence) in COMMANDS.items():
        app.command(name, help=sentence)(lambda: None)


@cache
def load_command(name: str) -> Any:
    """A command, with its options."""
    module, _ = COMMANDS[name]
    app = typer.Typer(rich_markup_mode=None)
    import_module(f"fzoos.cli.{module}").add_to(app)
    add_examples(app)
    return typer.main.get_group(app).commands[name]
