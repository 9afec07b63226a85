"""Helpers of tests and benchmarks of deployed studies: startup kits of NVIDIA FLARE, and descendants of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["descendants", "provision"]


def provision(folder: Path, project: str | None = None) -> Path:
    """Make FLARE's startup kits in a folder, and return where they are.

    Args:
        folder: where project.yml is, or where it is to be.
        project: the text of project.yml; None: it is there.

    Raises:
        RuntimeError: they could not be made; the message has FLARE's last words.
    """
    folder.mkdir(exist_ok=True)
    if project is not None:
        (folder / "project.yml").write_text(project)
    command = [sys.executable, "-m", "nvflare.cli", "provision", "-p", "project.yml", "-w", "kits"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return folder / "kits"


def descendants(process: int) -> Iterator[int]:
    """The ids of all that a process has started, and what these have started; on Linux.

    Example:
        >>> import os, subprocess
        >>> from benchmarks.federation.deployment import descendants
        >>> child = subprocess.Popen(["sleep", "60"])
        >>> child.pid in descendants(os.getpid())
        True
        >>> child.kill()
        >>> _ = child.wait()
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        if parent == process:
            yield int(stat.parent.name)
            yield from descendants(int(stat.parent.name))
