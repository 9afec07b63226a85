"""The number of rows of a journal, in a small file beside it, which reveals a journal that has lost its end."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["RowCount"]

_WIDTH = 20


class RowCount:
    """A lower bound for the number of rows.

    After a process was killed, the count may be smaller than the number of rows, never larger. It is not forced to the
    disk: after a power cut it may be smaller still.

    Args:
        path: the file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos._util.row_count import RowCount
        >>> rows = RowCount(Path(tempfile.mkdtemp()) / "site-1.journal.rows")
        >>> rows.count
        0
        >>> rows.note(12); rows.count
        12
        >>> rows.close()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115 - as long as the journal

    @property
    def count(self) -> int:
        """The last count that was noted; 0 if it cannot be read."""
        self._file.seek(0)
        text = self._file.read(_WIDTH)
        return int(text) if text.isdigit() else 0

    def note(self, count: int) -> None:
        """Replace the count; if that is not possible, the last one stays."""
        with contextlib.suppress(OSError):
            self._file.seek(0)
            self._file.write(b"%0*d" % (_WIDTH, count))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
