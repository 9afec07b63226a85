"""The rounds of a run, the same for `minimize` and for a study: what is recorded, the budget, and how a run ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.federation.exchange import TooFewClients
from fzoos.federation.limits import Limits, Stop
from fzoos.federation.server import Server
from fzoos.federation.server_state import Plan
from fzoos.objectives.box import Box
from fzoos.result import ObjectiveError, Record, Result, Status, ValuePending
from fzoos.runs.progress import RoundProgress

__all__ = ["Recorder", "RoundLoop"]

Ending = tuple[Status, str]
_RESTING = 3  # moves below the tolerance: one may be chance, or a step that was taken back

log = logging.getLogger("fzoos")


class Recorder(Protocol):
    """Where the records of a run go: to memory, to a file of runs."""

    def after_exchange(self, record: Record | None, x: FloatArray) -> None:
        """Record what an exchange has changed.

        Args:
            record: of the round that the exchange completed, if it did.
            x: after the last complete round, in the user's coordinates.
        """
        ...

    def violation(self, round: int) -> float | None:
        """The largest constraint of any client at the x with which the last round began; None: not known here."""
        ...

    def finish(self, status: Status, message: str) -> Result:
        """The run has ended, however it did; what it leaves."""
        ...


class RoundLoop:
    """Runs rounds until they are done, the budget does not allow the next one, or something ends the run.

    Args:
        server: as it is at the start, or where a run is taken up again.
        box: the user's bounds.
        recorder: called after every exchange and at the end.
        rounds: R, rounds at most.
        max_queries: the run stops before a round that would take all clients together beyond this number.
        tolerance: the run ends after three moves below it, as a share of the box in every coordinate; 0: it does not.
        monitor: maps x, in the user's coordinates, to a number for the record.
        callback: called with each round's record; the run stops if it returns True or raises StopIteration.
        progress: show a progress bar.
        limits: what else ends the run.
        cuts: whether the last part of the budget, if it is less than a round, is used for a part of one.
    """

    def __init__(
        self,
        server: Server,
        box: Box,
        recorder: Recorder,
        *,
        rounds: int,
        max_queries: int | None = None,
        tolerance: float = 0.0,
        monitor: Callable[[FloatArray], Any] | None = None,
        callback: Callable[[Record], Any] | None = None,
        progress: bool = False,
        limits: Limits | None = None,
        cuts: bool = False,
    ) -> None:
        self._server, self._box, self._recorder = server, box, recorder
        self._rounds, self._max_queries, self._tolerance = rounds, max_queries, tolerance
        self._monitor, self._callback, self._progress = monitor, callback, progress
        self._limits, self._cuts = Limits(Stop()) if limits is None else limits, cuts
        last = server.state.previous or {"x": server.x, "place": server.state.x}
        self._x, self._recorded = box.from_cube(last["x"]), server.round  # after the last round that was recorded
        self._cut = 0  # of the round that has begun
        self._place = last["place"]  # where the server looks next, in the unit cube

    def run(self) -> Result:
        """The rounds, and what the recorder makes of them.

        Raises:
            ObjectiveError: an objective failed, and nobody goes on without it; its `result` has everything up to then.
            Exception: whatever the monitor or the callback raised, with a note that says so, and with a `result`, too.
        """
        try:
            status, message = self._run()
        except KeyboardInterrupt:
            status, message = "interrupted", f"interrupted in round {self._recorded + 1}"
        except TooFewClients as error:
            status, message = _ending(error)
        except ObjectiveError as error:
            error.result = self._recorder.finish("failed", str(error))
            raise
        except BaseException as error:
            result = self._recorder.finish("failed", f"{type(error).__name__}: {error}")
            with suppress(AttributeError):  # an exception may have no room for it
                error.result = result  # type: ignore[attr-defined]
            raise
        state = self._server.state
        if state.constrained and state.feasible is False:
            message += "; no queried x is feasible for all"
        return self._recorder.finish(status, message)

    def replay(self, history: Sequence[Record], walk: Sequence[FloatArray]) -> None:
        """Make rounds again whose values are known: all is then as it was after them, and nobody is told.

        Args:
            history: the rounds as they were recorded.
            walk: x after each of them.

        Raises:
            ValueError: a round leads to another x.
        """
        for record, x in zip(history, walk, strict=True):
            server = self._server
            server.begin(replace(server.plan(), cut=record.cut))
            while server.begun:
                server.advance()
            self._note_move()
            if not np.array_equal(self._x, x):
                raise ValueError(
                    f"resume: round {record.round} leads to another x here; it was made on another machine, by another "
                    "version or with other settings. To begin a new run from its x, give x0=result.x"
                )
            server.state.seconds, self._recorded = record.seconds, record.round
            self._recorder.after_exchange(record, x)

    def _run(self) -> Ending:
        with RoundProgress(self._rounds, enabled=self._progress) as bar:
            while self._server.round < self._rounds:
                if self._rests():
                    return "converged", f"x moved by less than {self._tolerance:g} of the box in {_RESTING} rounds"
                over_budget = self._plan()
                if over_budget is not None:
                    return "budget", over_budget
                record = None
                while record is None:
                    self._server.advance()
                    record = None if self._server.begun else self._record()
                    self._recorder.after_exchange(record, self._x)
                self._recorded = record.round
                bar.show(record)
                if self._is_stopped_by_callback(record):
                    return "stopped", f"the callback stopped the run after round {record.round}"
                ending = self._limits.after(record)
                if ending is not None and record.round < self._rounds:
                    return ending
                if record.cut:
                    return "budget", f"the last round was cut, so that the budget of {self._max_queries} is spent"
        return "completed", f"all {self._rounds} rounds are done"

    def _rests(self) -> bool:
        """By this run's tolerance: a study may be taken up again with another one."""
        moves = self._server.state.moves
        resting = len(moves) == _RESTING and max(moves) < self._tolerance
        return resting and not self._server.state.violated  # multipliers that grow will move it again

    def _plan(self) -> str | None:
        """Begin the next round, or say why the budget does not allow it."""
        server, most = self._server, self._max_queries
        plan = server.plan()
        # A round that has begun was allowed when it did.
        more, silent = (0, 0) if server.begun else (plan.queries, sum(server.state.unknown))
        left = None if most is None else most - sum(server.state.queries) - silent
        if left is not None and more > left:
            part = server.cut(plan, left) if self._cuts else None
            if part is not None:
                return self._begin(part)
            doubt = f"; clients that did not answer may have made {silent} of it" if silent else ""
            if plan.round > 1:
                doubt += f", and no part of it can be made with the {left} that are left" if self._cuts and left else ""
                return f"the next round needs {plan.queries} queries, the budget is {most}{doubt}"
            text = (
                f"no round was run, x is x0: the first round needs {plan.queries} queries, the budget is {most}{doubt}"
            )
            log.warning("%s", text)
            return text
        return self._begin(plan)

    def _begin(self, plan: Plan) -> str | None:
        """Begin the round, or go on with it, if time and bytes allow it."""
        over = None if self._server.begun else self._limits.before(self._server.state)
        if over is None:
            self._server.begin(plan)
            self._cut = plan.cut
        return over

    def _record(self) -> Record:
        state, before = self._server.state, self._x
        self._note_move()
        return Record(
            round=state.round,
            queries=sum(state.queries),
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            seconds=state.seconds,
            step=float(np.linalg.norm(self._x - before)),
            monitor=self._monitored(state.round),
            diagnostics=state.diagnostics,
            queries_per_client=tuple(state.queries),
            distances=tuple(state.distances),
            failed=sum(state.failed.values()),
            feasible=state.feasible if state.constrained else None,
            cut=self._cut,
            arrivals=tuple(map(tuple, state.arrivals)),
            violation=self._recorder.violation(state.round) if state.constrained else None,
        )

    def _note_move(self) -> None:
        state = self._server.state
        self._x = self._box.from_cube(self._server.x)
        moved = self._server.moved(self._place)
        state.moves, self._place = [*state.moves, moved][-_RESTING:], state.x

    def _monitored(self, round: int) -> float | None:
        if self._monitor is None:
            return self._server.state.value
        try:
            value = self._monitor(self._x.copy())
        except Exception as error:
            error.add_note(f"It was raised by the monitor after round {round}.")
            raise
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"monitor must return a number, got {value!r} after round {round}") from None

    def _is_stopped_by_callback(self, record: Record) -> bool:
        try:
            return self._callback is not None and bool(self._callback(record))
        except StopIteration:
            return True
        except Exception as error:
            error.add_note(f"It was raised by the callback after round {record.round}.")
            raise


def _ending(error: TooFewClients) -> Ending:
    """A study whose sites wait for values that are found by hand has stopped; any other one has failed."""
    waiting = [str(e.__cause__) for e in error.failures.values() if isinstance(e.__cause__, ValuePending)]
    if len(waiting) == len(error.failures):
        return "stopped", "; ".join(waiting)
    return "failed", f"{error}; the study can be resumed"
