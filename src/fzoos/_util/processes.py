"""Whether a process is still there."""

from __future__ import annotations

import os
import platform

__all__ = ["is_gone"]


def is_gone(host: str, pid: int) -> bool:
    """Whether a process of this machine has ended; for other machines this is unknown.

    Example:
        >>> import os, platform
        >>> from fzoos._util.processes import is_gone
        >>> is_gone(platform.node(), os.getpid()), is_gone("elsewhere", 1)
        (False, False)
    """
    if host != platform.node():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
