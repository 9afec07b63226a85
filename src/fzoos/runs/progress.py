"""A progress bar over rounds."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from fzoos.result import Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["RoundProgress", "round_columns", "status"]


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


class RoundProgress:
    """Shows one bar for one run; does nothing if not enabled."""

    def __init__(self, rounds: int, enabled: bool) -> None:
        self._progress: Progress | None = None
        self._rounds = rounds
        if enabled:
            from rich.console import Console

            self._progress = round_columns(Console(stderr=True))

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("rounds", total=self._rounds, status="")
        return self

    def show(self, record: Record) -> None:
        """Advance to a record."""
        if self._progress is not None:
            self._progress.update(self._task, completed=record.round, status=status(record))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
