"""The console on which the training of models is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Shown", "console_of"]

Shown: TypeAlias = "bool | Console"
"""Whether progress is shown on standard output, or the console on which it is shown."""


def console_of(progress: Shown) -> Console:
    """The console for progress; a quiet one if no progress is shown.

    Example:
        >>> from rich.console import Console
        >>> from fzoos_experiments.tasks.display import console_of
        >>> console_of(False).quiet, console_of(True).quiet
        (True, False)
        >>> console = Console(stderr=True)
        >>> console_of(console) is console
        True
    """
    import rich
    from rich.console import Console

    if isinstance(progress, Console):
        return progress
    return rich.get_console() if progress else Console(quiet=True, force_terminal=False)
