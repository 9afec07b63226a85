"""The command line as a whole: what it says without a command, and how errors end it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from fzoos import __version__
from fzoos.cli.commands import CommandList, add_to
from fzoos.cli.exit_codes import complain
from fzoos.cli.help import epilog

__all__ = ["app", "main"]

_HELP = """Federated black-box optimisation with trajectory-informed surrogate gradients.

\b
Examples:
  fzoos compare quadratic --heterogeneity 5 --rounds 20
  fzoos compare levy --dim 50 --algorithms fedzo,fzoos --seeds 3 --output levy.png
  fzoos compare attack --data FOLDER --seeds 5
  fzoos run ackley --rounds 30 --store runs.db
  fzoos list runs.db
  fzoos reproduce fig1 --quick --jobs 2
  fzoos scaffold flare my-study
  fzoos study my-study
"""

# The base class of all of typer's complaints about the command line. Newer versions of typer bring their own copy of
# click, older ones import it, so there is no name for it that serves both.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(cls=CommandList, help=_HELP, epilog=epilog(), rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def _fzoos(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False
) -> None:
    if version:
        typer.echo(f"fzoos {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


add_to(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; whatever goes wrong is one line on stderr, and exit code 2 if the input was wrong."""
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
    """Imported when something was raised: help needs neither files nor NumPy."""
    from fzoos.federation.journal import JournalError
    from fzoos.runs.store import StoreError

    return StoreError, JournalError
