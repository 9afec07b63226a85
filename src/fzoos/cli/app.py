"""The command line, put together: each command has a file, or shares one with those that belong to it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from fzoos import __version__
from fzoos.cli.compare import compare
from fzoos.cli.dashboard import add_to as add_dashboard
from fzoos.cli.exit_codes import complain
from fzoos.cli.help import HelpGroup, add_examples, epilog
from fzoos.cli.journal import add_to as add_journal
from fzoos.cli.reproduce import reproduce
from fzoos.cli.run import run
from fzoos.cli.runs import add_to as add_runs
from fzoos.cli.study import add_to as add_study
from fzoos.federation.journal import JournalError
from fzoos.runs.store import StoreError

__all__ = ["app", "main"]

_HELP = """Federated black-box optimisation with trajectory-informed surrogate gradients.

\b
Examples:
  fzoos compare quadratic --heterogeneity 5 --rounds 20
  fzoos compare levy --dim 50 --algorithms fedzo,fzoos --seeds 3 --output levy.png
  fzoos run ackley --algorithm fzoos --rounds 30 --store runs.db
  fzoos list runs.db
  fzoos reproduce fig1 --quick --jobs 2
  fzoos scaffold flare my-study
  fzoos study my-study
"""

# The base class of all of typer's complaints about the command line. Newer versions of typer bring their own copy of
# click, older ones import it, so there is no name for it that serves both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(cls=HelpGroup, help=_HELP, epilog=epilog(), rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def _fzoos(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        typer.echo(f"fzoos {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (compare, run, reproduce):
    app.command()(command)
add_study(app)
add_runs(app)
add_dashboard(app)
add_journal(app)
add_examples(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; whatever goes wrong is one line on stderr, and exit code 2 if the input was wrong."""
    warnings.formatwarning = lambda message, *_, **__: f"fzoos: {message}\n"  # one line, too
    try:
        code = app(args=arguments, prog_name="fzoos", standalone_mode=False)
    except _UsageError as error:
        code = complain(error.format_message(), 2)  # type: ignore[attr-defined]
    except (ValueError, OSError, MemoryError, ImportError, StoreError, JournalError) as error:
        code = complain(error, 2)
    except (typer.Abort, KeyboardInterrupt):
        code = complain("interrupted", 130)
    except Exception as error:
        code = complain(f"{type(error).__name__}: {error}", 1)
    sys.exit(code or 0)
