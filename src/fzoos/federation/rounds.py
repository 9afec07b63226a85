"""The rounds of a run, the same for `minimize` and for a study: what is recorded, the budget, and how a run ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, replace
from typing import Any, Protocol

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.federation.exchange import TooFewClients
from fzoos.federation.limits import Limits, Stop
from fzoos.federation.server import Server
from fzoos.federation.server_state import Plan
from fzoos.objectives.box import Box
from fzoos.result import ObjectiveError, Record, Result, Status, ValuePending
from fzoos.runs.progress import round_progress

__all__ = ["Recorder", "RoundLoop"]

Ending = tuple[Status, str]
_RESTING = 3  # moves below the tolerance: one may be chance, or a step that was taken back

log = logging.getLogger("fzoos")


class Recorder(Protocol):
    """Where the records of a run go: to memory, to a file of runs."""

    def after_exchange(self, record: Record | None, x: FloatArray) -> None:
        """Record what an exchange has changed: the round if it completed one, and x after the last one."""
        ...

    def violation(self, round: int) -> float | None:
        """The largest constraint of any client at the x with which the last round began; None: not known here."""
        ...

    def finish(self, status: Status, message: str) -> Result:
        """The run has ended, however it did; what it leaves."""
        ...


@dataclass
class RoundLoop:
    """Runs rounds until they are done, the budget does not allow the next one, or something ends the run."""

    server: Server  # at the start, or where a run is resumed
    box: Box
    recorder: Recorder
    rounds: int  # R
    max_queries: int | None = None  # of all clients together: no round begins that would exceed it
    stop: Stop = Stop()
    history: InitVar[Sequence[Record]] = ()  # the rounds so far, where a run is resumed
    monitor: Callable[[FloatArray], Any] | None = None  # maps x to a number for the record
    callback: Callable[[Record], Any] | None = None  # the run stops if it returns True or raises StopIteration
    progress: bool = False  # whether a progress bar is shown
    cuts: bool = False  # whether the last part of the budget, if it is less than a round, is used for a part of one

    def __post_init__(self, history: Sequence[Record]) -> None:
        self._limits = Limits(self.stop)
        self._limits.recall(history)
        last = self.server.state.previous or {"x": self.server.x, "place": self.server.state.x}
        # After the last round that was recorded.
        self._x, self._place, self._recorded = self.box.from_cube(last["x"]), last["place"], self.server.round
        self._cut = 0  # of the round that has begun

    def run(self) -> Result:
        """Run the rounds, and return what the recorder makes of them.

        Raises:
            ObjectiveError: an objective failed, which is not tolerated; its `result` has everything up to then.
            Exception: whatever the monitor or the callback raised, with a note that says so, and with a `result`, too.
        """
        try:
            status, message = self._run()
        except KeyboardInterrupt:
            status, message = "interrupted", f"interrupted in round {self._recorded + 1}"
        except TooFewClients as error:
            status, message = _ending(error)
        except ObjectiveError as error:
            error.result = self.recorder.finish("failed", str(error))
            raise
        except BaseException as error:
            result = self.recorder.finish("failed", f"{type(error).__name__}: {error}")
            with suppress(AttributeError):  # an exception may have no room for it
                error.result = result  # type: ignore[attr-defined]
            raise
        state = self.server.state
        queried = [client for client, count in enumerate(state.queries) if count]
        if status != "interrupted" and queried and state.without_value == queried:
            status = "failed"
            message = (
                f"none of the {sum(state.queries)} queries had a value: call the objective at x0 by hand, or begin "
                "where it has values, with another x0 or other bounds"
            )
        if state.constrained and state.feasible is False:
            message += "; no queried x is feasible for all"
        return self.recorder.finish(status, message)

    def replay(self, history: Sequence[Record], points: Sequence[FloatArray]) -> None:
        """Run recorded rounds of `minimize` again, whose values are known, and compare x after each of them.

        Raises:
            ValueError: a round leads to another x.
        """
        for record, x in zip(history, points, strict=True):
            server = self.server
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
            self.recorder.after_exchange(record, x)
        self._limits.recall(history)

    def _run(self) -> Ending:
        with round_progress(self.rounds, enabled=self.progress) as show:
            while self.server.round < self.rounds:
                if self._rests():
                    return "converged", f"x moved by less than {self._tolerance:g} of the box in {_RESTING} rounds"
                over_budget = self._plan()
                if over_budget is not None:
                    return "budget", over_budget
                record = None
                while record is None:
                    self.server.advance()
                    record = None if self.server.begun else self._record()
                    self.recorder.after_exchange(record, self._x)
                self._recorded = record.round
                show(record)
                if self._is_stopped_by_callback(record):
                    return "stopped", f"the callback stopped the run after round {record.round}"
                ending = self._limits.after(record)
                if ending is not None and record.round < self.rounds:
                    return ending
                if record.cut:
                    return "budget", f"the last round was cut, so that the budget of {self.max_queries} is spent"
        return "completed", f"all {self.rounds} rounds are done"

    @property
    def _tolerance(self) -> float:
        return self.server.algorithm.tolerance if self.stop.tolerance is None else self.stop.tolerance

    def _rests(self) -> bool:
        """Return whether x no longer moves, by this run's tolerance: a study may be resumed with another one."""
        moves = self.server.state.moves
        resting = len(moves) == _RESTING and max(moves) < self._tolerance
        return resting and not self.server.state.violated  # multipliers that grow will move it again

    def _plan(self) -> str | None:
        """Begin the next round, or say why the budget does not allow it."""
        server, most = self.server, self.max_queries
        plan = server.plan()
        # A round that has begun was allowed when it did.
        more, silent = (0, 0) if server.begun else (plan.queries, sum(server.state.unknown))
        left = None if most is None else most - sum(server.state.queries) - silent
        if left is not None and more > left:
            part = server.cut(plan, left) if self.cuts else None
            if part is not None:
                return self._begin(part)
            doubt = f"; clients that did not answer may have made {silent} of it" if silent else ""
            if plan.round > 1:
                doubt += f", and no part of it can be made with the {left} that are left" if self.cuts and left else ""
                return f"the next round needs {plan.queries} queries, the budget is {most}{doubt}"
            text = (
                f"no round was run, x is x0: the first round needs {plan.queries} queries, the budget is {most}{doubt}"
            )
            log.warning("%s", text)
            return text
        return self._begin(plan)

    def _begin(self, plan: Plan) -> str | None:
        """Begin or continue the round, if time and bytes allow it."""
        over = None if self.server.begun else self._limits.before(self.server.state)
        if over is None:
            self.server.begin(plan)
            self._cut = plan.cut
        return over

    def _record(self) -> Record:
        state, before = self.server.state, self._x
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
            violation=self.recorder.violation(state.round) if state.constrained else None,
        )

    def _note_move(self) -> None:
        state = self.server.state
        self._x = self.box.from_cube(self.server.x)
        moved = self.server.moved(self._place)
        state.moves, self._place = [*state.moves, moved][-_RESTING:], state.x

    def _monitored(self, round: int) -> float | None:
        if self.monitor is None:
            return self.server.state.value
        try:
            value = self.monitor(self._x.copy())
        except Exception as error:
            error.add_note(f"It was raised by the monitor after round {round}.")
            raise
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"monitor must return a number, got {value!r} after round {round}") from None

    def _is_stopped_by_callback(self, record: Record) -> bool:
        try:
            return self.callback is not None and bool(self.callback(record))
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
