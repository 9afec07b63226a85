"""What a run leaves: a result, and one record per round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fzoos.arrays import FloatArray

__all__ = ["Record", "Result", "Status"]

Status = Literal["completed", "stopped", "budget", "interrupted", "failed", "running"]


@dataclass(frozen=True)
class Record:
    """One round. Counts and seconds are totals since the start, so that they serve as the x-axis of a plot.

    Attributes:
        round: from 1.
        queries: queries of all clients up to the end of this round.
        bytes_up: bytes from clients to the server so far.
        bytes_down: bytes from the server to clients so far.
        seconds: time since the start, without the monitor's and the callback's.
        step: how far x moved in this round (Euclidean, in the user's coordinates).
        monitor: the monitor's value at x, if there is a monitor.
        diagnostics: the algorithm's own, means over clients and local steps: "correction_length" (gamma_t) and, where
            it has a surrogate, "uncertainty" (posterior over prior variance of the gradient, 1: nothing is known).
        queries_per_client: the same for each client, as far as it has told.
        distances: of each client's x from the mean of this round, in the unit cube; None where it took no part.
    """

    round: int
    queries: int
    bytes_up: int
    bytes_down: int
    seconds: float
    step: float
    monitor: float | None
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    queries_per_client: tuple[int, ...] = ()
    distances: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Result:
    """The outcome of `minimize`.

    Attributes:
        x: the server's last x, in the user's coordinates.
        rounds: complete rounds.
        queries: queries of all clients, those of an incomplete last round included.
        queries_per_client: the same for each client.
        bytes_up: bytes from clients to the server.
        bytes_down: bytes from the server to clients.
        seconds: duration.
        status: "completed", "stopped" (by the callback), "budget", "interrupted" (Ctrl-C), "failed", or "running" (read
            from a file while the run goes on).
        message: the status in words.
        history: one `Record` per complete round.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedZO(), rounds=2, seed=0)
        >>> result.status, len(result.history), result.queries_per_client
        ('completed', 2, (420,))
    """

    x: FloatArray
    rounds: int
    queries: int
    queries_per_client: tuple[int, ...]
    bytes_up: int
    bytes_down: int
    seconds: float
    status: Status
    message: str
    history: tuple[Record, ...]
