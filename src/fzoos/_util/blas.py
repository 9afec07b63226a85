"""BLAS threads: one for our own matrices, as many as ever for the user's objective.

A product of small matrices is faster on one thread: several wait for each other, and on a shared machine they wait for
milliseconds. The number of threads belongs to the whole process, so it is lowered around a client's own arithmetic, put
back around each call of its objective. While clients work on threads side by side each has its share of them, for its
arithmetic and for its objective: with all of them for each, two workers were slower than one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import scipy
from threadpoolctl import LibController, ThreadpoolController

__all__ = ["LARGE", "objective_threads", "one_blas_thread", "share_blas_threads"]

LARGE = 10_000_000  # numbers in a matrix from which on a second thread pays: measured by benchmarks/speed/threads.py

_lock = threading.Lock()
_before: tuple[tuple[LibController, int], ...] = ()  # whose own number is another than the one that is held
_held: int | None = None
_working = _asking = 0  # sections of each kind that are entered now
_shares: list[int] = []  # of clients on threads, one for each engine that has some


@cache
def _controller() -> ThreadpoolController:
    scipy.linalg  # noqa: B018  # loads the BLAS that SciPy brings with it: a library that is not loaded is not found
    return ThreadpoolController()  # looks through all loaded libraries: once


@cache
def _libraries() -> tuple[LibController, ...]:
    return tuple(library for library in _controller().lib_controllers if library.user_api == "blas")


def _settle() -> None:
    """Hold the number, or put it back, as the sections entered now demand."""
    global _before, _held
    wanted = min(_shares) if _shares else 1 if _working and not _asking else None
    if wanted == _held:
        return
    _let_go()
    if wanted is not None:
        # What `ThreadpoolController.limit` does, in a tenth of its time: this is done around every call.
        own = ((library, library.get_num_threads()) for library in _libraries())
        _before = tuple((library, threads) for library, threads in own if threads != wanted)
        for library, _ in _before:
            library.set_num_threads(wanted)
    _held = wanted


def _let_go() -> None:
    global _before, _held
    for library, threads in _before:
        library.set_num_threads(threads)
    _before, _held = (), None


class one_blas_thread:  # used like a function; a class takes half the time of a generator
    """Our own arithmetic, with matrices of up to so many numbers: on one thread unless they are large."""

    def __init__(self, largest_matrix: int = 0) -> None:
        self._counted = largest_matrix < LARGE

    def __enter__(self) -> Self:
        global _working
        if self._counted:
            with _lock:
                _working += 1
                _settle()
        return self

    def __exit__(self, *exc: Any) -> None:
        global _working
        if self._counted:
            with _lock:
                _working -= 1
                _settle()


class objective_threads:
    """Calls of the user's objective: as many threads as there were."""

    def __enter__(self) -> Self:
        global _asking
        self._counted = _working > 0
        if self._counted:
            with _lock:
                _asking += 1
                _settle()
        return self

    def __exit__(self, *exc: Any) -> None:
        global _asking
        if self._counted:
            with _lock:
                _asking -= 1
                _settle()


@contextmanager
def share_blas_threads(workers: int) -> Iterator[None]:
    """Clients on so many threads, each with its share: what one has may not depend on what the others do."""
    with _lock:
        _let_go()
        threads = [library["num_threads"] for library in _controller().info() if library["user_api"] == "blas"]
        share = max(1, min(threads, default=1) // workers)
        _shares.append(share)
        _settle()
    try:
        yield
    finally:
        with _lock:
            _shares.remove(share)
            _settle()
