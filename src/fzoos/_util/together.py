"""Several clients in step: what all of them compute at the same moment goes out as one operation.

A client's code is written for one client. Where it comes to a piece of work on arrays it says

    y = together(work, a, b, 3.0)

and means `work(a, b, 3.0)`. Alone that is what happens. Within `in_step` the client waits there until all others wait
as well; then those with the same work on arrays of the same shapes get it done at once, on arrays with one more axis in
front, and go on. So `work` is a function of arrays that may have leading axes: `x[..., 0]`, `a.mT`, `axis=-1`.

On a GPU a step of one client is dozens of operations of which each takes longer to begin than to do. Together they are
begun once for all clients, and what clients share, such as the frequencies of their features, is read once.

Clients are threads of which one runs at a time, in their order, so that a run is as reproducible as one without: to
write them as coroutines would turn every function from the local step down to the matrix product into one. The work
itself is done on the caller's thread: each thread that multiplies on a GPU has a workspace there of its own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from fzoos._util.arrays import Array, is_array, stack

__all__ = ["Written", "in_step", "side_by_side", "together"]

_T = TypeVar("_T")
_here = threading.local()  # .member: who runs in this thread


@dataclass(frozen=True)
class Written:
    """An array that the work writes to."""

    array: Array


def together(work: Callable[..., Any], *arguments: Any) -> Any:
    """work(*arguments), at once for all clients that have come to the same.

    Args:
        work: returns an array, or a tuple of arrays, and takes leading axes. A bound method is the same work for
            clients that share the object.
        arguments: arrays, which are stacked; `Written` ones, in which the work leaves something; and values that must
            be equal for the work to be the same.

    Example:
        >>> import numpy as np
        >>> from fzoos._util.together import in_step, together
        >>> def product(a, b):
        ...     print("one product of", a.shape, "and", b.shape)
        ...     return (a * b).sum(axis=-1)
        >>> def client(i):
        ...     return float(together(product, np.array([1.0, i]), np.array([2.0, 2.0])))
        >>> in_step([lambda: client(1.0), lambda: client(2.0)])
        one product of (2, 2) and (2, 2)
        [4.0, 6.0]
    """
    member: _Member | None = getattr(_here, "member", None)
    if member is None:
        return _alone(work, arguments)
    return member.wait_for(work, arguments)


def side_by_side(work: Callable[..., Any], *arguments: Any) -> Any:
    """work(*arguments), by each client for itself but at the same time, on the machine's cores.

    For work in NumPy on large arrays, which lets others run meanwhile.
    """
    member: _Member | None = getattr(_here, "member", None)
    if member is None:
        return work(*arguments)
    return member.wait_for(work, arguments, apart=True)


def in_step(tasks: Sequence[Callable[[], _T]], on_error: Callable[[int, Exception], bool] | None = None) -> list[_T]:
    """Run tasks side by side, in step; their results, in order.

    Args:
        tasks: what each of them does.
        on_error: told the number of a task and what it raised; whether the others go on. A task that raised, or was
            not finished, has no result. None: what one raises ends all.
    """
    crew = _Crew(tasks, on_error)
    crew.run()
    return [member.result for member in crew.members if member.finished]


def _alone(work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return work(*(a.array if isinstance(a, Written) else a for a in arguments))


class _Request:
    """Work that a client waits for."""

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...], apart: bool) -> None:
        self.work, self.arguments, self.apart = work, arguments, apart
        # What must be the same for it to be done at once.
        self.kind: Hashable = "apart" if apart else (work, *map(_kind, arguments))
        hash(self.kind)  # an error here is of the one who asks


class _Member:
    """One task, its thread, and what it waits for."""

    def __init__(self, crew: _Crew, task: Callable[[], Any]) -> None:
        self._crew, self._task = crew, task
        self.baton = threading.Lock()  # held, except when it is this one's turn
        self.baton.acquire()
        self.request: _Request | None = None
        self.answer: Any = None
        self.error: Exception | None = None
        self.result: Any = None
        self.finished = False

    def begin(self) -> None:
        context = copy_context()  # NumPy's error state, among others
        threading.Thread(target=context.run, args=(self._run,), name="fzoos-in-step", daemon=True).start()

    def _run(self) -> None:
        _here.member = self
        self.baton.acquire()
        try:
            if not self._crew.ended:
                self.result = self._task()
                self.finished = True
        except BaseException as error:
            self._crew.failed(self, error)
        self._crew.pass_on()

    def wait_for(self, work: Callable[..., Any], arguments: tuple[Any, ...], apart: bool = False) -> Any:
        self.request = _Request(work, arguments, apart)
        self._crew.waiting.append(self)
        self._crew.pass_on()
        self.baton.acquire()
        if self._crew.ended:
            raise CancelledError("the run has ended")
        error, answer = self.error, self.answer
        self.request = self.error = self.answer = None
        if error is not None:
            raise error
        return answer


class _Crew:
    """Who is next."""

    def __init__(self, tasks: Sequence[Callable[[], Any]], on_error: Callable[[int, Exception], bool] | None) -> None:
        self.members = [_Member(self, task) for task in tasks]
        self._on_error = on_error
        self._ready, self.waiting = deque(self.members), list[_Member]()
        self.ended = False
        self._raised: BaseException | None = None
        self._all_wait = threading.Lock()  # held, except when it is the caller's turn
        self._all_wait.acquire()

    def run(self) -> None:
        """Until all are finished; what one of them raised, unless it was taken care of."""
        for member in self.members:
            member.begin()
        try:
            while self._ready:
                self.pass_on()
                self._all_wait.acquire()
                waiting, self.waiting = self.waiting, []
                if not self.ended:
                    self._answer(waiting)
                self._ready = deque(waiting)
        except BaseException:  # Ctrl-C: whoever runs ends at its next meeting, and those who wait end now
            self.ended = True
            for member in self.members:
                with suppress(RuntimeError):  # it is its turn already
                    member.baton.release()
            raise
        if self._raised is not None:
            raise self._raised

    def failed(self, member: _Member, error: BaseException) -> None:
        """A task has raised."""
        if self.ended:
            return
        if isinstance(error, Exception) and self._on_error is not None:
            self.ended = not self._on_error(self.members.index(member), error)
        else:
            self.ended, self._raised = True, error

    def pass_on(self) -> None:
        """Wake the next one; if all wait, the caller."""
        turn = self._ready.popleft().baton if self._ready else self._all_wait
        with suppress(RuntimeError):  # after Ctrl-C all have been woken
            turn.release()

    def _answer(self, members: Sequence[_Member]) -> None:
        groups: dict[Hashable, list[_Member]] = {}
        for member in members:
            assert member.request is not None
            groups.setdefault(member.request.kind, []).append(member)
        apart = groups.pop("apart", [])
        for group in groups.values():
            _answer_group(group)
        if apart:
            with ThreadPoolExecutor(min(os.cpu_count() or 1, len(apart)), "fzoos-side-by-side") as pool:
                list(pool.map(_answer_one, apart))


def _kind(argument: Any) -> Hashable:
    if isinstance(argument, Written):
        return Written, _kind(argument.array)
    return (type(argument), argument.shape, argument.dtype) if is_array(argument) else argument


def _answer_group(group: Sequence[_Member]) -> None:
    """One operation for all, or, if that fails, one for each, so that an error meets the one whose it is."""
    requests = [member.request for member in group if member.request is not None]
    if len(group) > 1:
        try:
            for member, answer in zip(group, _all_at_once(requests), strict=True):
                member.answer = answer
            return
        except Exception as error:
            if any(isinstance(a, Written) for a in requests[0].arguments):  # half of it may have happened
                for member in group:
                    member.error = error
                return
    for member in group:
        _answer_one(member)


def _answer_one(member: _Member) -> None:
    request = member.request
    assert request is not None
    try:
        member.answer = _alone(request.work, request.arguments)
    except Exception as error:
        member.error = error


def _all_at_once(requests: Sequence[_Request]) -> list[Any]:
    """The work on stacked arguments; its parts, one for each request."""
    stacked: list[Any] = []
    copies: list[tuple[list[Array], Array]] = []  # of arrays that are written to
    for column in zip(*(request.arguments for request in requests), strict=True):
        if isinstance(column[0], Written):
            arrays = [argument.array for argument in column]
            whole, is_view = stack(arrays)
            stacked.append(whole)
            if not is_view:
                copies.append((arrays, whole))
        else:
            stacked.append(stack(column)[0] if is_array(column[0]) else column[0])
    answer = requests[0].work(*stacked)
    for arrays, whole in copies:
        for array, part in zip(arrays, whole, strict=True):
            array[...] = part
    return list(zip(*answer, strict=True)) if isinstance(answer, tuple) else list(answer)
