"""The command line as a whole: the list of commands, which are loaded when they are called, and how errors end them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from fzoos import __version__
from fzoos.cli.exit_codes import complain
from fzoos.cli.help import HelpGroup, add_examples, epilog

__all__ = ["COMMANDS", "app", "load_command", "main"]

COMMANDS = {
    "run": ("run:run", "Run one algorithm on one task."),
    "compare": ("compare:compare", "Compare several algorithms on one task."),
    "list": ("runs:list_runs", "List the runs in a file."),
    "show": ("runs:show", "Show the settings and the result of a run."),
    "compare-runs": ("runs:compare_runs", "Compare the settings and the results of two runs."),
    "export": ("runs:export", "Write a run to a CSV, JSON or Parquet file."),
    "dashboard": ("dashboard:dashboard", "Show runs in a browser, live."),
    "report": ("dashboard:report", "Write plots and tables of runs to one file."),
    "scaffold": ("study:scaffold", "Create the files of a study across machines."),
    "study": ("study:study", "Run a study with all its sites on this machine."),
    "ask": ("study:ask", "Print the points of a study to evaluate next."),
    "tell": ("study:tell", "Enter values for the points of `fzoos ask`."),
    "journal": ("journal:journal", "Verify a site's journal, or recover a damaged one."),
    "benchmark": ("benchmark:benchmark", "Compare algorithms on a public benchmark suite."),
    "reproduce": ("reproduce:reproduce", "Reproduce figures of the paper."),
}
"""Each command's module and function, and the first sentence of its help."""

_HELP = """Federated black-box optimisation with trajectory-informed surrogate gradients.

\b
Examples:
  fzoos run ackley --rounds 30 --store runs.db
  fzoos compare quadratic --heterogeneity 5 --rounds 20
  fzoos compare levy --dim 50 --algorithms fedzo,fzoos --seeds 3 --output levy.png
  fzoos list runs.db
  fzoos scaffold flare my-study
  fzoos study my-study
  fzoos reproduce fig1 --quick --jobs 2
"""

# The base class of all of typer's complaints about the command line. Newer versions of typer bring their own copy of
# click, older ones import it, so there is no name for it that serves both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class CommandList(HelpGroup):
    """Lists commands by name and first sentence, and loads the one that is called.

    `fzoos --help` and completion then need only this file.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, words = super().resolve_command(ctx, args)
        return name, None if command is None else load_command(command.name), words


app = typer.Typer(cls=CommandList, help=_HELP, epilog=epilog(), rich_markup_mode=None, pretty_exceptions_enable=False)
for _name, (_, _sentence) in COMMANDS.items():
    app.command(_name, help=_sentence)(lambda: None)


@app.callback(invoke_without_command=True)
def _fzoos(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        typer.echo(f"fzoos {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@cache
def load_command(name: str) -> Any:
    """Load a command with its options."""
    module, _, function = COMMANDS[name][0].partition(":")
    command, only = getattr(import_module(f"fzoos.cli.{module}"), function), typer.Typer(rich_markup_mode=None)
    if isinstance(command, typer.Typer):
        add_examples(command)
        only.add_typer(command, name=name)
    else:
        only.command(name)(command)
        add_examples(only)
    return typer.main.get_group(only).commands[name]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; any error is one line on stderr, with exit code 2 if the input was invalid."""
    warnings.formatwarning = lambda message, *_, **__: f"fzoos: {message}\n"  # one line, too
    try:
        code = app(args=arguments, prog_name="fzoos", standalone_mode=False)
    except _UsageError as error:
        code = complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except (ValueError, OSError, MemoryError, ImportError) as error:
        code = complain(error, 2)
    except (typer.Abort, KeyboardInterrupt):
        code = complain("interrupted", 130)
    except Exception as error:
        of_a_file = isinstance(error, _file_errors())
        code = complain(error, 2) if of_a_file else complain(f"{type(error).__name__}: {error}", 1)
    sys.exit(code or 0)


def _file_errors() -> tuple[type[Exception], ...]:
    """The errors of files, imported after something was raised: help needs neither files nor NumPy."""
    from fzoos.federation.journal import JournalError
    from fzoos.runs.store import StoreError

    return StoreError, JournalError
