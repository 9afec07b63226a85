"""Files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["make_private"]


def make_private(path: Path) -> None:
    """Make the file, if it is missing, and let nobody but its owner read or write it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos._util.private import make_private
        >>> path = Path(tempfile.mkdtemp()) / "secret"
        >>> make_private(path)
        >>> oct(path.stat().st_mode & 0o777)
        '0o600'
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with contextlib.suppress(OSError):  # another user's, or a file system that has no such thing
        path.chmod(0o600)
