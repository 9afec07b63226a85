"""BLAS threads: one for our own matrices, as many as ever for the user's objective.

A product of small matrices is faster on one thread: several wait for each other, and on a shared machine they wait for
milliseconds. The number of threads belongs to the whole process, so it is lowered around a client's own arithmetic, put
back around each call of its objective, and left alone while clients work on threads side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy
from threadpoolctl import ThreadpoolController, threadpool_limits

__all__ = ["LARGE", "blas_threads_untouched", "objective_threads", "one_blas_thread"]

LARGE = 10_000_000  # numbers in a matrix from which on a second thread pays: measured by benchmarks/speed/threads.py

_lock = threading.Lock()
_limiter: threadpool_limits | None = None  # what holds the number at one, while it is held
_working = _asking = _untouched = 0  # sections of each kind that are entered now


@cache
def _controller() -> ThreadpoolController:
    scipy.linalg  # noqa: B018  # loads the BLAS that SciPy brings with it: a library that is not loaded is not found
    return ThreadpoolController()  # looks through all loaded libraries: once


def _settle() -> None:
    """Hold the number at one, or put it back, as the sections entered now demand."""
    global _limiter
    wanted = _working > 0 and not _asking and not _untouched
    if wanted and _limiter is None:
        _limiter = _controller().limit(limits=1, user_api="blas")
    elif not wanted and _limiter is not None:
        _limiter.restore_original_limits()
        _limiter = None


@contextmanager
def one_blas_thread(largest_matrix: int = 0) -> Iterator[None]:
    """Our own arithmetic, with matrices of up to so many numbers: on one thread unless they are large."""
    global _working
    if largest_matrix >= LARGE:
        yield
        return
    with _lock:
        _working += 1
        _settle()
    try:
        yield
    finally:
        with _lock:
            _working -= 1
            _settle()


@contextmanager
def objective_threads() -> Iterator[None]:
    """A call of the user's objective: as many threads as there were."""
    global _asking
    if not _working:
        yield
        return
    with _lock:
        _asking += 1
        _settle()
    try:
        yield
    finally:
        with _lock:
            _asking -= 1
            _settle()


@contextmanager
def blas_threads_untouched() -> Iterator[None]:
    """Clients on threads: neither one's objective nor the numbers may depend on what the others do."""
    global _untouched
    with _lock:
        _untouched += 1
        _settle()
    try:
        yield
    finally:
        with _lock:
            _untouched -= 1
            _settle()
