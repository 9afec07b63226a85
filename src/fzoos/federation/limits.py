"""What ends a run early: no movement, time, bytes, a value that is low enough, a value that no longer improves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fzoos._util.checks import check_count, check_number, check_positive
from fzoos.federation.server_state import ServerState
from fzoos.result import Record, Status, known_values

__all__ = ["Limits", "Stop"]


@dataclass(frozen=True)
class Stop:
    """Rules that end a run before its rounds and queries are spent.

    Args:
        tolerance: the run ends, "converged", after three rounds that moved no coordinate of x by more than this share
            of the box; 0: it never does; None: the algorithm's own, by default 1e-6; 0 of algorithms whose steps do not
            shrink.
        target: the run ends when F(x) is at most this and x is not known to be infeasible.
        patience: the run ends when F(x) has had no lower value for this number of rounds; values of infeasible x do not
            count.
        max_seconds: no round begins after this number of seconds, which exclude those of the monitor and the callback.
        max_bytes: no round begins that would take all messages together beyond this number, if it costs as much as the
            most expensive one so far.

    Example:
        >>> from fzoos import Stop, minimize
        >>> bowl = lambda x: float(x @ x)
        >>> result = minimize(bowl, [0.5, 0.5], bounds=(-1, 1), rng=0, monitor=bowl, stop=Stop(target=0.01))
        >>> result.status, result.fun <= 0.01
        ('stopped', True)
    """

    tolerance: float | None = None
    target: float | None = None
    patience: int | None = None
    max_seconds: float | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, 0.0)
        if self.target is not None:
            check_number("target", self.target)
        if self.patience is not None:
            check_count("patience", self.patience, low=1)
        if self.max_seconds is not None:
            check_positive("max_seconds", self.max_seconds)
        if self.max_bytes is not None:
            check_count("max_bytes", self.max_bytes, low=1)

    @property
    def needs_values(self) -> str | None:
        """The first rule that needs F(x), if one does."""
        names = ("target", "patience")
        return next((name for name in names if getattr(self, name) is not None), None)


class Limits:
    """Decides when a run ends; it remembers the best value so far."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._best: tuple[float, int] | None = None  # the lowest F(x), of feasible x, and its round
        self._constrained = False
        self._bytes, self._highest = 0, 0  # so far, and of the most expensive round

    def recall(self, history: Sequence[Record]) -> None:
        """Continue after these rounds; patience counts from the last of them."""
        values = [value for value, _ in known_values(history)]
        self._constrained = any(record.feasible is not None for record in history)
        if values:
            self._best = min(values), history[-1].round
        totals = [0, *(record.bytes_up + record.bytes_down for record in history)]
        self._bytes = totals[-1]
        self._highest = max((after - before for before, after in pairwise(totals)), default=0)

    def before(self, state: ServerState) -> str | None:
        """Why no further round is to begin, if so."""
        if self._stop.max_seconds is not None and state.seconds >= self._stop.max_seconds:
            return f"{state.seconds:.1f} seconds have passed, the budget is {self._stop.max_seconds:g}"
        total = state.bytes_up + state.bytes_down
        if self._stop.max_bytes is not None and total + self._highest > self._stop.max_bytes:
            return f"the next round needs about {self._highest} bytes, {total} of {self._stop.max_bytes} are spent"
        return None

    def after(self, record: Record) -> tuple[Status, str] | None:
        """How the run ends after this round, if it does."""
        total = record.bytes_up + record.bytes_down
        self._highest, self._bytes = max(self._highest, total - self._bytes), total
        if record.feasible is not None and not self._constrained:  # what came before may have been infeasible
            self._constrained, self._best = True, None
        value: Any = None if record.feasible is False else record.monitor
        if value is None:
            return None
        if self._best is None or value < self._best[0]:
            self._best = value, record.round
        if self._stop.target is not None and value <= self._stop.target:
            return (
                "stopped",
                f"F(x) = {value:.6g} has reached the target {self._stop.target:g} after round {record.round}",
            )
        best, at = self._best
        if self._stop.patience is not None and record.round - at >= self._stop.patience:
            return "stopped", f"F(x) has not been below {best:.6g} for {self._stop.patience} rounds"
        return None
