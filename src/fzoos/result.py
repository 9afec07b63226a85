"""The outcome of a run: a result, one record per round, or the error it ended with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.table import plain_table

if TYPE_CHECKING:
    import pandas

__all__ = ["ObjectiveError", "Record", "Result", "Status", "ValuePending", "best_of", "known_values"]

UNCOUNTED = "queries of the round in which it was killed are not counted"

Status = Literal["completed", "converged", "stopped", "budget", "interrupted", "failed", "running"]

_ROUNDS_SHOWN = 6  # of a table on `print`


@dataclass(frozen=True)
class Record:
    """One round of a run. Counts and seconds are totals since the start, so that they serve as the x-axis of a plot.

    Attributes:
        round: from 1.
        queries: queries of all clients up to the end of this round.
        bytes_up: bytes from clients to the server so far.
        bytes_down: bytes from the server to clients so far.
        seconds: time since the start, without the monitor's and the callback's.
        step: how far x moved in this round (Euclidean, in the user's coordinates).
        monitor: the monitor's value at x, if there is a monitor; F(x) where clients share their values.
        diagnostics: the algorithm's own measurements, averaged over clients and local steps, such as
            "correction_length" (gamma_t).
        queries_per_client: queries per client, as last reported.
        distances: distance of each client's x from the mean of this round, in the unit cube; None if none came.
        failed: queries that failed and were skipped, of all clients up to the end of this round.
        feasible: whether x meets the constraints of all clients; None: there are none, or not all have reported.
        violation: the largest constraint of any client at the x with which the round began; None: there are none, or
            the values stay at the sites, as in a study.
        cut: if the budget left less than a whole round, the size of this one, in local steps or in queries per client,
            depending on the algorithm; 0: the round was whole.
        arrivals: in an asynchronous study, the clients whose replies came or failed, for each time the server waited.
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
    failed: int = 0
    feasible: bool | None = None
    cut: int = 0
    arrivals: tuple[tuple[int, ...], ...] = ()
    violation: float | None = None

    @property
    def measured(self) -> dict[str, float]:
        """The diagnostics, and the violation if it is known: what tables and plots show beside the costs."""
        return {**({} if self.violation is None else {"violation": self.violation}), **self.diagnostics}

    @property
    def row(self) -> dict[str, float | None]:
        """The record as one row of a table; the monitor's value is F there, and clients count from 0.

        Example:
            >>> from fzoos import Record
            >>> record = Record(1, 42, 96, 64, 0.5, 0.1, 2.0, {"correction_length": 1.0}, (21, 21), (0.1, None))
            >>> {name: record.row[name] for name in ("F", "diagnostics/correction_length", "clients/1/queries")}
            {'F': 2.0, 'diagnostics/correction_length': 1.0, 'clients/1/queries': 21}
        """
        return {
            "round": self.round,
            "F": self.monitor,
            "queries": self.queries,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "seconds": self.seconds,
            "step": self.step,
            **({"failed": self.failed} if self.failed else {}),
            **({} if self.feasible is None else {"feasible": int(self.feasible)}),
            **({} if self.violation is None else {"violation": self.violation}),
            **{f"diagnostics/{name}": value for name, value in self.diagnostics.items()},
            **{f"clients/{i}/queries": count for i, count in enumerate(self.queries_per_client)},
            **{f"clients/{i}/distance": distance for i, distance in enumerate(self.distances)},
        }


@dataclass(frozen=True, repr=False)
class Result:
    """The outcome of `minimize`: by attribute, `result.x`, or by name, `result["x"]`.

    SciPy's names of `OptimizeResult` work as well: `success`, `nit`, `nfev` and `fun`. `print(result)` shows a
    table.

    Attributes:
        x: the server's last x, in the user's coordinates. With constraints: the last x that was evaluated and is
            feasible for all clients; if there is none, the last x that was evaluated.
        rounds: complete rounds.
        queries: queries of all clients, those of an incomplete last round included.
        queries_per_client: queries per client.
        bytes_up: bytes from clients to the server.
        bytes_down: bytes from the server to clients.
        seconds: how long the run took.
        status: "completed", "converged" (x no longer moves), "stopped" (by the callback), "budget", "interrupted"
            (Ctrl-C), "failed", or "running" (read from a file during the run).
        message: the status in words.
        history: one `Record` per complete round.
        failed: queries that failed and were skipped (`on_failure="skip"`); they are among `queries`.
        first_failure: the first failure: a traceback, or the value that was returned. Empty if there was none, and in a
            study, where it stays at the site.
        feasible: whether x meets the constraints of all clients. None: there are none, or not all have reported.
        violation: the largest constraint of any client at x; None if it is not known, as in a study.
        best_x: x after the round with the lowest F(x); with constraints, among the rounds whose x is feasible. None if
            F is not known.
        variables: the values of the variables at x, by name, if the run was over a `Space`; otherwise None.
            `Space.variables` gives them for any x.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedZO(), rounds=2, rng=0)
        >>> result.status, len(result.history), result.queries_per_client
        ('completed', 2, (420,))
        >>> result["nit"], result.nfev, result.success, result.fun     # F was not measured
        (2, 420, True, None)
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
    failed: int = 0
    first_failure: str = ""
    variables: Mapping[str, Any] | None = None
    feasible: bool | None = None
    violation: float | None = None
    best_x: FloatArray | None = None

    @property
    def success(self) -> bool:
        """Whether the run ended as intended: it has neither failed nor been interrupted, and is not running."""
        return self.status not in ("failed", "interrupted", "running")

    @property
    def nit(self) -> int:
        """`rounds`, by SciPy's name."""
        return self.rounds

    @property
    def nfev(self) -> int:
        """`queries`, by SciPy's name."""
        return self.queries

    @property
    def fun(self) -> float | None:
        """F(x): the monitor's last value, or the sum of the values that clients share; None if it is not known.

        Example:
            >>> import numpy as np
            >>> from fzoos import FedZO, minimize
            >>> f = lambda x: float(x @ x)
            >>> result = minimize(f, np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=1, monitor=f, rng=0)
            >>> result.fun == f(result.x)
            True
        """
        return self.history[-1].monitor if self.history else None

    @property
    def best_fun(self) -> float | None:
        """F(best_x): the lowest F(x) of all rounds.

        Example:
            >>> import numpy as np
            >>> from fzoos import FedZO, minimize
            >>> f = lambda x: float(x @ x)
            >>> result = minimize(f, np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=3, monitor="clients", rng=0)
            >>> result.best_fun == f(result.best_x) and result.best_fun <= result.fun
            True
        """
        return min(known)[0] if (known := known_values(self.history)) else None

    def keys(self) -> list[str]:
        """The names that `result[name]` accepts."""
        return [*(f.name for f in fields(self)), "success", "nit", "nfev", "fun", "best_fun"]

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(f"a result has no {name!r}; it has {', '.join(self.keys())}")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        x = np.array2string(self.x, threshold=6, edgeitems=3, separator=", ", precision=6)
        x = x if self.variables is None else str(dict(self.variables))
        return f"Result(status={self.status!r}, x={x}, fun={self.fun}, rounds={self.rounds}, queries={self.queries})"

    def __str__(self) -> str:
        x = np.array2string(self.x, threshold=10, edgeitems=4, separator=", ", precision=6, max_line_width=1000)
        rows = [("status", f"{self.status}: {self.message}"), ("x", x)]
        rows += [(name, str(value)) for name, value in (self.variables or {}).items()]
        rows += [("F(x)", "not known" if self.fun is None else f"{self.fun:.6g}"), ("rounds", str(self.rounds))]
        rows.append(("queries", f"{self.queries:,} ({', '.join(f'{n:,}' for n in self.queries_per_client)})"))
        if self.feasibility:
            rows.append(("feasible", self.feasibility))
        if self.failed:
            rows.append(("failed", f"{self.failed:,} of them, the first: {self.first_failure.rpartition(chr(10))[2]}"))
        rows.append(("bytes", f"{self.bytes_up:,} up, {self.bytes_down:,} down"))
        rows.append(("seconds", f"{self.seconds:.2f}"))
        return "\n\n".join(part for part in (plain_table((), rows, words=2), self._last_rounds()) if part)

    @property
    def feasibility(self) -> str:
        """`feasible` and `violation` in words; empty if nothing is known about constraints."""
        if self.feasible is None and self.violation is None:
            return ""
        words = {True: "yes, for all", False: "no", None: "not all clients have reported"}[self.feasible]
        return words if self.violation is None else f"{words}; the largest constraint is {self.violation:.3g}"

    def _last_rounds(self) -> str:
        rows = [
            (str(r.round), "–" if r.monitor is None else f"{r.monitor:.6g}", f"{r.queries:,}", f"{r.step:.4g}")
            for r in self.history[-_ROUNDS_SHOWN:]
        ]
        return plain_table(("round", "F(x)", "queries", "step of x"), rows) if rows else ""

    @property
    def columns(self) -> dict[str, list[float | None]]:
        """The history as a table: the name of each column of `Record.row`, and its value in each round.

        Example:
            >>> import numpy as np
            >>> from fzoos import FedZO, minimize
            >>> result = minimize([lambda x: float(x @ x)], np.ones(3), bounds=(-1, 1), algorithm=FedZO(), rounds=2)
            >>> result.columns["round"], result.columns["queries"]
            ([1, 2], [210, 420])
        """
        rows = [record.row for record in self.history] or [Record(0, 0, 0, 0, 0.0, 0.0, None).row]
        names = {name: None for row in rows for name in row}
        # A diagnostic that the first round does not have stands beside the others.
        ordered = sorted(names, key=lambda name: name.startswith("clients/"))
        return {name: [row.get(name) for row in rows[: len(self.history)]] for name in ordered}

    def to_pandas(self) -> pandas.DataFrame:
        """The history as a table with one row per round and the columns of `Record.row`.

        Raises:
            ImportError: pandas is not installed.

        Example:
            >>> import numpy as np
            >>> from fzoos import FedZO, minimize
            >>> f = lambda x: float(x @ x)
            >>> result = minimize([f], np.ones(3), bounds=(-1, 1), algorithm=FedZO(), rounds=2, monitor=f, rng=0)
            >>> table = result.to_pandas()                              # doctest: +SKIP
            >>> table.plot(x="queries", y="F", logy=True)               # doctest: +SKIP
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install 'fzoos[pandas]'") from None
        return pandas.DataFrame({name: _array(values) for name, values in self.columns.items()})


def _array(values: list[float | None]) -> np.ndarray[tuple[int], np.dtype[np.int64 | np.float64]]:
    """Values as an array: integers stay integers, and None becomes NaN."""
    if values and all(isinstance(value, int) for value in values):
        return np.array(values, dtype=np.int64)
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def best_of(history: Sequence[Record], points: Sequence[FloatArray] | FloatArray) -> FloatArray | None:
    """Return the point of the round with the lowest F(x); None if F is not known in any round."""
    known = known_values(history)
    return np.array(points[min(known)[1]]) if known else None


def known_values(history: Sequence[Record]) -> list[tuple[float, int]]:
    """F(x) and the index in the history of each round in which F(x) is a number and x is not infeasible."""
    met = any(record.feasible for record in history)
    found = [(r.monitor, k) for k, r in enumerate(history) if r.feasible or not (met or r.feasible is False)]
    return [(value, k) for value, k in found if value is not None and not math.isnan(value)]


class ValuePending(RuntimeError):
    """An objective has no value yet and has counted no query: values are entered by hand later."""


class ObjectiveError(RuntimeError):
    """An objective raised, or returned NaN or infinity.

    The original exception, if there was one, is the cause (`__cause__`).

    Attributes:
        client: index of the client.
        round: the round it happened in.
        x: the point, in the user's coordinates (the first point of the batch if a vectorised objective raised).
        result: everything up to the last complete round.

    Example:
        >>> import numpy as np
        >>> from fzoos import ObjectiveError, minimize
        >>> try:
        ...     minimize([lambda x: float("nan")], x0=np.zeros(2), bounds=(-1, 1), rounds=1, rng=0)
        ... except ObjectiveError as error:
        ...     print(error.client, error.round, error.result.rounds)
        0 1 0
    """

    def __init__(self, what: str, client: int, round: int, x: FloatArray) -> None:
        self.client, self.round, self.x, self._what = client, round, x, what
        self.result: Result | None = None
        point = np.array2string(x, threshold=6, edgeitems=3, separator=", ")
        super().__init__(f"objective of client {client} {what} in round {round} at x = {point}")

    def __reduce__(self) -> tuple[Any, ...]:
        """How to pickle the exception: by default it would be created from its message alone."""
        return type(self), (self._what, self.client, self.round, self.x), {"result": self.result}
