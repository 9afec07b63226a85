"""Files that one process at a time may use, and files that only their owner can read."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has no such lock
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock", "make_private"]

_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """A lock on a file for one process at a time; the operating system releases it when its holder dies.

    Forked processes do not hold it. The file is created if it does not exist, and is not removed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self, wait: float = 0.0) -> bool:
        """Take the lock within `wait` seconds; return whether that worked.

        Raises:
            OSError: files cannot be created or locked there.
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
        """Release the lock if it is held."""
        if self._file is not None:
            self._file.close()
            self._file = None
            _held.discard(self)


def _release_all() -> None:
    """Release the locks in a forked process, which may outlive its parent and would lock others out."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_all)


def make_private(path: Path) -> None:
    """Create the file if it is missing, and let nobody but its owner read or write it."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    with contextlib.suppress(OSError):  # another user's, or a file system without permissions
        path.chmod(0o600)
