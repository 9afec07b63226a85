"""BLAS threads: one for the library's own matrices, all of them for the user's objective.

A product of small matrices is faster on one thread: several wait for each other, and on a shared machine they wait for
milliseconds. The number of threads belongs to the whole process, so it is lowered around a client's own arithmetic and
restored around each call of its objective. Clients that run in threads share the BLAS threads, for their arithmetic and
for their objectives: with all BLAS threads for each client, two workers were slower than one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, Self

import scipy
from threadpoolctl import LibController, ThreadpoolController

__all__ = ["LARGE", "objective_threads", "one_blas_thread", "share_blas_threads"]

LARGE = 10_000_000  # numbers in a matrix above which a second thread pays off: see benchmarks/speed/threads.py

_lock = threading.Lock()
_before: tuple[tuple[LibController, int], ...] = ()  # the libraries whose number was changed, with their own number
_held: int | None = None
_active = {"own": 0, "objective": 0}  # sections of each kind that are active
_shares: list[int] = []  # BLAS threads per client, for each engine that runs clients in threads


@cache
def _controller() -> ThreadpoolController:
    scipy.linalg  # noqa: B018  # loads SciPy's own BLAS: a library that is not loaded is not found
    return ThreadpoolController()  # looks through all loaded libraries: once


@cache
def _libraries() -> tuple[LibController, ...]:
    return tuple(library for library in _controller().lib_controllers if library.user_api == "blas")


def _settle() -> None:
    """Set or restore the number of threads, as the active sections require."""
    global _before, _held
    wanted = min(_shares) if _shares else 1 if _active["own"] and not _active["objective"] else None
    if wanted == _held:
        return
    _restore()
    if wanted is not None:
        # What `ThreadpoolController.limit` does, in a tenth of its time: this is done around every call.
        own = ((library, library.get_num_threads()) for library in _libraries())
        _before = tuple((library, threads) for library, threads in own if threads != wanted)
        for library, _ in _before:
            library.set_num_threads(wanted)
    _held = wanted


def _restore() -> None:
    global _before, _held
    for library, threads in _before:
        library.set_num_threads(threads)
    _before, _held = (), None


class _Section:  # a class takes half the time of a generator
    """A section of one kind, which settles the number of threads when it begins and ends, unless it is not counted."""

    _kind: Literal["own", "objective"]
    _counted: bool

    def __enter__(self) -> Self:
        self._count(1)
        return self

    def __exit__(self, *exc: Any) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        if self._counted:
            with _lock:
                _active[self._kind] += change
                _settle()


class one_blas_thread(_Section):  # used like a function
    """A section of the library's own arithmetic: on one thread unless its largest matrix has very many numbers."""

    _kind = "own"

    def __init__(self, largest_matrix: int = 0) -> None:
        self._counted = largest_matrix < LARGE


class objective_threads(_Section):
    """A section that calls the user's objective: on as many threads as the user has set."""

    _kind = "objective"

    def __init__(self) -> None:
        self._counted = _active["own"] > 0


@contextmanager
def share_blas_threads(workers: int) -> Iterator[None]:
    """A section that runs clients in `workers` threads, each with an equal share of the BLAS threads."""
    with _lock:
        _restore()
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
