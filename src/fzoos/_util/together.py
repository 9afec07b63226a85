"""Several clients in step: what all of them compute at the same moment goes out as one operation.

A client's code is written for one client. Where it comes to a piece of work on arrays it says

    y = together(work, a, b, 3.0)

and means `work(a, b, 3.0)`. Alone that is what happens. Within `in_step` the client waits there until all others wait
as well; then those with the same work on arrays of the same shapes get it done at once, on arrays with one more axis in
front, and go on. So `work` is a function of arrays that may have leading axes: `x[..., 0]`, `a.mT`, `axis=-1`.

Work on more than arrays, such as all local steps of a round, is a function of what the clients have:

    x = jointly(walk, mine)

means `walk([mine], ...)[0]`, and within `in_step` it is one call with what each of them has.

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
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from fzoos._util.arrays import Array, is_array, stack

__all__ = ["GoOn", "Written", "in_step", "is_in_step", "jointly", "raise_it", "together"]

_T = TypeVar("_T")
_R = TypeVar("_R")

GoOn = Callable[[int, Exception], bool]
"""Told which of several has failed and why; whether the others go on."""

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


def jointly(work: Callable[[list[_T], GoOn], Sequence[_R]], mine: _T, key: Hashable = None) -> _R:
    """work([mine], ...)[0], in one call for all clients that have come to the same.

    Args:
        work: gets what each of them has, in their order, and whom to tell when one of them fails; returns an answer
            for each. The answer of one that has failed is not used. If the others are not to go on, it returns nothing.
        mine: what this client has.
        key: must be equal for the work to be the same.

    Example:
        >>> from fzoos._util.together import in_step, jointly
        >>> def longest(words, go_on):
        ...     return [max(words, key=len)] * len(words)
        >>> in_step([lambda: jointly(longest, "short"), lambda: jointly(longest, "longer")])
        ['longer', 'longer']
        >>> jointly(longest, "short")
        'short'
    """
    member: _Member | None = getattr(_here, "member", None)
    if member is None:
        return work([mine], raise_it)[0]
    answer: _R = member.wait_for(work, (mine,), key=(jointly, key))
    return answer


def is_in_step() -> bool:
    """Whether others may be met here."""
    return getattr(_here, "member", None) is not None


def raise_it(number: int, error: Exception) -> bool:
    """Whom to tell where there is nobody else."""
    raise error


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

    def __init__(self, work: Callable[..., Any], arguments: tuple[Any, ...], key: Hashable) -> None:
        self.work, self.arguments, self.is_joint = work, arguments, key is not None
        # What must be the same for it to be done at once.
        self.kind: Hashable = (work, *map(_kind, arguments)) if key is None else (work, key)
        hash(self.kind)  # an error here is of the one who asks


class _Worker:
    """A thread that is kept: to start one takes longer than much of what a client does between two meetings."""

    def __init__(self) -> None:
        self._given = threading.Lock()  # held, except when there is something to do
        self._given.acquire()
        self._task: Callable[[], None] | None = None
        threading.Thread(target=self._run, name="fzoos-in-step", daemon=True).start()

    def give(self, task: Callable[[], None]) -> None:
        """Let it run a task that raises nothing."""
        self._task = task
        self._given.release()

    def _run(self) -> None:
        while True:
            self._given.acquire()
            task, self._task = self._task, None
            assert task is not None
            task()
            del task  # and with it all that the client's task refers to
            _idle.append(self)


_idle: list[_Worker] = []


def _worker() -> _Worker:
    try:
        return _idle.pop()
    except IndexError:
        return _Worker()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a fork has none of its parent's threads


class _Member:
    """One task, its thread, and what it waits for."""

    def __init__(self, crew: _Crew, task: Callable[[], Any]) -> None:
        self._crew, self._task = crew, task
        self._context = copy_context()  # the caller's: NumPy's error state, among others
        self._worker: _Worker | None = None
        self._begun = False
        self.baton = threading.Lock()  # held, except when it is this one's turn
        self.baton.acquire()
        self.request: _Request | None = None
        self.answer: Any = None
        self.error: Exception | None = None
        self.result: Any = None
        self.finished = self.failed = False

    def hire(self) -> None:
        """Have a thread. There may be no more: whoever calls must hear of it."""
        self._worker = _worker()

    def dismiss(self) -> None:
        """Give the thread back before it was used."""
        if self._worker is not None:
            _idle.append(self._worker)

    def go(self) -> None:
        """It is its turn. A thread is woken when it has something to do, and not before: to wake one takes long."""
        if self._begun:
            self.wake()
        else:
            assert self._worker is not None
            self._begun = True
            self._worker.give(partial(self._context.run, self._run))

    def wake(self) -> None:
        with suppress(RuntimeError):  # it is its turn already
            self.baton.release()

    def _run(self) -> None:
        _here.member = self
        try:
            if not self._crew.ended:
                self.result = self._task()
                self.finished = True
        except BaseException as error:
            self._crew.failed(self, error)
        _here.member = None
        self._crew.pass_on()

    def wait_for(self, work: Callable[..., Any], arguments: tuple[Any, ...], key: Hashable = None) -> Any:
        self.request = _Request(work, arguments, key)
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
        self._hire()
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
            while self._ready:
                self.pass_on()
            for member in self.members:
                member.wake()
            raise
        if self._raised is not None:
            raise self._raised

    def _hire(self) -> None:
        try:
            for member in self.members:
                member.hire()
        except BaseException:
            for member in self.members:
                member.dismiss()
            raise

    def failed(self, member: _Member, error: BaseException) -> None:
        """A task has raised, or what it waits for has."""
        if self.ended or member.failed:
            return
        member.failed = True
        if isinstance(error, Exception) and self._on_error is not None:
            self.ended = not self._on_error(self.members.index(member), error)
        else:
            self.ended, self._raised = True, error

    def pass_on(self) -> None:
        """Wake the next one; if all wait, the caller."""
        try:
            turn = self._ready.popleft()
        except IndexError:
            with suppress(RuntimeError):  # after Ctrl-C nobody takes it
                self._all_wait.release()
        else:
            turn.go()

    def _answer(self, members: Sequence[_Member]) -> None:
        groups: dict[Hashable, list[_Member]] = {}
        for member in members:
            assert member.request is not None
            groups.setdefault(member.request.kind, []).append(member)
        for group in groups.values():
            if self.ended:
                return
            _answer_group(group) if not _requests(group)[0].is_joint else self._answer_jointly(group)

    def _answer_jointly(self, group: Sequence[_Member]) -> None:
        """One call for all."""
        requests = _requests(group)

        def go_on(number: int, error: Exception) -> bool:
            group[number].error = error
            self.failed(group[number], error)
            return not self.ended

        try:
            answers = requests[0].work([request.arguments[0] for request in requests], go_on)
        except Exception as error:
            for member in group:
                member.error = member.error or error
            return
        if not self.ended:
            for member, answer in zip(group, answers, strict=True):
                member.answer = answer


def _requests(group: Sequence[_Member]) -> list[_Request]:
    return [member.request for member in group if member.request is not None]


def _kind(argument: Any) -> Hashable:
    if isinstance(argument, Written):
        return Written, _kind(argument.array)
    return (type(argument), argument.shape, argument.dtype) if is_array(argument) else argument


def _answer_group(group: Sequence[_Member]) -> None:
    """One operation for all, or, if that fails, one for each, so that an error meets the one whose it is."""
    requests = _requests(group)
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
