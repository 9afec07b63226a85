"""A lock that the operating system lets go when its holder dies."""

from __future__ import annotations

import os
import time
import weakref
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: no such lock, and nobody to be kept out but oneself
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock"]

_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """One process at a time; what it forks does not hold the lock.

    Args:
        path: the file to lock; it is created, and stays.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos._util.lock import FileLock
        >>> path = Path(tempfile.mkdtemp()) / "lock"
        >>> mine, yours = FileLock(path), FileLock(path)
        >>> mine.acquire(), yours.acquire()
        (True, False)
        >>> mine.release(); yours.acquire()
        True
        >>> yours.release()
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self, wait: float = 0.0) -> bool:
        """Take it, within `wait` seconds; whether that worked.

        Raises:
            OSError: files cannot be made or locked there.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = open(self._path, "ab")  # noqa: SIM115 - held open as long as the lock is
        end = time.monotonic() + wait
        while fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    file.close()
                    return False
                time.sleep(0.05)
            except OSError:
                file.close()
                raise
        self._file = file
        _held.add(self)
        return True

    def release(self) -> None:
        """Let it go; nothing happens if it was not held."""
        if self._file is not None:
            self._file.close()
            self._file = None
            _held.discard(self)


def _let_go() -> None:
    """In a process just forked, say by an objective: it may outlive its parent, and would keep others out."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
