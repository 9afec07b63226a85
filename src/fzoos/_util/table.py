"""Tables as plain text, for `print`."""

from __future__ import annotations

import io
from collections.abc import Sequence

__all__ = ["plain_table"]


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int = 120, words: int = 0) -> str:
    """Format a table as text, right-aligned except for its first `words` columns."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    count = max((len(row) for row in rows), default=len(heads))
    table = Table(box=SIMPLE_HEAD if heads else None, show_header=bool(heads), padding=(0, 2, 0, 0), pad_edge=False)
    for i in range(count):
        table.add_column(heads[i] if heads else "", justify="left" if i < words else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, markup=False, emoji=False, highlight=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())
