"""What ends a run early besides queries: time, bytes, a value that is low enough, a value that improves no more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from fzoos._util.checks import check_count, check_number, check_positive
from fzoos.federation.server_state import ServerState
from fzoos.result import Record, Status, known_values

__all__ = ["Limits"]


class Limits:
    """Says when a run is to end; it remembers the best value so far.

    Args:
        max_seconds: no round begins after so many seconds.
        max_bytes: no round begins that would take the bytes of all messages beyond this number, if it costs what the
            dearest one so far did.
        target: the run ends when F(x) is at most this, and x is not known to be infeasible.
        patience: the run ends when F(x) has had no lower value for so many rounds; that of an infeasible x is none.

    Example:
        >>> from fzoos.federation.limits import Limits
        >>> from fzoos.result import Record
        >>> limits = Limits(target=0.5)
        >>> limits.after(Record(1, 10, 0, 0, 0.0, 0.0, 0.7)), limits.after(Record(2, 20, 0, 0, 0.0, 0.0, 0.4))
        (None, ('stopped', 'F(x) = 0.4 has reached the target 0.5 after round 2'))
    """

    def __init__(
        self,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        target: float | None = None,
        patience: int | None = None,
    ) -> None:
        if max_seconds is not None:
            check_positive("max_seconds", max_seconds)
        if max_bytes is not None:
            check_count("max_bytes", max_bytes, low=1)
        if target is not None:
            check_number("target", target)
        if patience is not None:
            check_count("patience", patience, low=1)
        self._max_seconds, self._max_bytes = max_seconds, max_bytes
        self._target, self._patience = target, patience
        self._best: tuple[float, int] | None = None  # the lowest F(x), of feasible x, and its round
        self._constrained = False
        self._bytes, self._dearest = 0, 0  # so far, and of the dearest round

    @property
    def need_values(self) -> list[str]:
        """Which of them need F(x)."""
        return [name for name, given in (("target", self._target), ("patience", self._patience)) if given is not None]

    def recall(self, history: Sequence[Record]) -> None:
        """Go on after these rounds; patience begins anew."""
        values = [value for value, _ in known_values(history)]
        self._constrained = any(record.feasible is not None for record in history)
        if values:
            self._best = min(values), history[-1].round
        totals = [0, *(record.bytes_up + record.bytes_down for record in history)]
        self._bytes = totals[-1]
        self._dearest = max((after - before for before, after in pairwise(totals)), default=0)

    def before(self, state: ServerState) -> str | None:
        """Why no further round is to begin, if so."""
        if self._max_seconds is not None and state.seconds >= self._max_seconds:
            return f"{state.seconds:.1f} seconds have passed, the budget is {self._max_seconds:g}"
        total = state.bytes_up + state.bytes_down
        if self._max_bytes is not None and total + self._dearest > self._max_bytes:
            return f"the next round needs about {self._dearest} bytes, {total} of {self._max_bytes} are spent"
        return None

    def after(self, record: Record) -> tuple[Status, str] | None:
        """How the run ends after this round, if it does."""
        total = record.bytes_up + record.bytes_down
        self._dearest, self._bytes = max(self._dearest, total - self._bytes), total
        if record.feasible is not None and not self._constrained:  # what came before may have been infeasible
            self._constrained, self._best = True, None
        value: Any = None if record.feasible is False else record.monitor
        if value is None:
            return None
        if self._best is None or value < self._best[0]:
            self._best = value, record.round
        if self._target is not None and value <= self._target:
            return "stopped", f"F(x) = {value:.6g} has reached the target {self._target:g} after round {record.round}"
        best, at = self._best
        if self._patience is not None and record.round - at >= self._patience:
            return "stopped", f"F(x) has not been below {best:.6g} for {self._patience} rounds"
        return None
