"""A progress bar over rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fzoos.result import Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["round_columns", "round_progress", "status"]


def round_columns(console: Console | None = None) -> Progress:
    """A rich progress display whose tasks count rounds and show F, queries, bytes and the time left."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def status(record: Record, quantity: str = "F") -> str:
    """The monitored quantity (if there is one), queries and bytes of a record, as short text."""
    value = "" if record.monitor is None else f"{quantity} {record.monitor:.4g}  "
    return f"{value}{record.queries:,} queries  {(record.bytes_up + record.bytes_down) / 1e6:.2f} MB"


@contextmanager
def round_progress(rounds: int, enabled: bool) -> Iterator[Callable[[Record], object]]:
    """Show one bar for one run, and yield the function that advances it to a record; if not enabled, show nothing."""
    if not enabled:
        yield lambda record: None
        return
    from rich.console import Console

    with round_columns(Console(stderr=True)) as progress:
        task = progress.add_task("rounds", total=rounds, status="")
        yield lambda record: progress.update(task, completed=record.round, status=status(record))
