"""What a figure was measured on, and how things are timed."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np


def describe() -> str:
    """Processor, cores, library versions and date, in one line."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{datetime.now(UTC):%Y-%m-%d}"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def best_of(work: Callable[[], object], repeats: int = 7) -> float:
    """Seconds of the fastest of several runs: the one least disturbed by whatever else the machine does."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
