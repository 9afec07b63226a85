"""A run of `minimize` in a file of runs, written round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from fzoos._util.arrays import FloatArray
from fzoos.objectives.evaluator import Evaluator
from fzoos.result import Record
from fzoos.runs.store import Store

__all__ = ["RunWriter", "reference_values"]


class RunWriter:
    """Writes a run while it is running. Call `begin` or `resume` first."""

    def __init__(self, path: str | Path, clients: Sequence[Evaluator]) -> None:
        self._store, self._clients = Store(path), clients
        self._stored = [0] * len(clients)  # values of each client in the file
        self._round = 0

    def begin(
        self,
        name: str,
        settings: Mapping[str, Any],
        x0: FloatArray,
        monitor: Callable[[FloatArray], Any] | None,
    ) -> None:
        """Begin a new run; the monitor, if there is one, is evaluated at x0, so that curves begin there."""
        start = None if monitor is None else _value(monitor, x0)
        known = reference_values(monitor)
        self._run = self._store.begin(name, settings, x0, len(self._clients), start, **known)

    def resume(self, run: int, settings: Mapping[str, Any], round: int) -> None:
        """Continue a run of the file after a round; what clients have evaluated so far is in the file."""
        self._run, self._round = run, round
        self._stored = [len(client.values) for client in self._clients]
        self._store.resume(run, settings)

    def record(self, record: Record, x: FloatArray) -> None:
        """Store a complete round and the values of its queries."""
        self._round = record.round
        self._store_values()
        self._store.record(self._run, record, x)

    def finish(self, status: str, message: str, queries: Sequence[int], extra: Mapping[str, Any]) -> None:
        """Store how the run ended, its queries per client and the values of an incomplete round; close the file."""
        if any(len(client.values) > n for client, n in zip(self._clients, self._stored, strict=True)):
            self._round += 1
            self._store_values()
        self._store.finish(self._run, status, message, extra, queries)
        self._store.close()

    def _store_values(self) -> None:
        values = [client.values for client in self._clients]
        new = [y[n:] for y, n in zip(values, self._stored, strict=True)]
        self._store.store_values(self._run, self._round, new)
        self._stored = [len(y) for y in values]


def reference_values(monitor: Any) -> dict[str, Any]:
    """The task and F*, if the monitor is the `value` of one of `fzoos_experiments.tasks`, or of a task like them.

    A task is described by its `summary`; one that has none, by its name, heterogeneity, dimension and clients.
    """
    task = getattr(monitor, "__self__", None)
    text, minimum = getattr(task, "summary", None), getattr(task, "minimum", None)
    if not isinstance(text, str):
        kinds = {"name": str, "heterogeneity": Real, "dim": Integral, "clients": Integral}
        if task is None or not all(isinstance(getattr(task, name, None), kind) for name, kind in kinds.items()):
            return {}
        text = f"{task.name} C={task.heterogeneity:g} d={task.dim} N={task.clients}"
        noise = getattr(task, "noise", 0.0)
        text += f" noise={noise:g}" if isinstance(noise, Real) and noise else ""
    return {"task": text} | ({"minimum": float(minimum)} if isinstance(minimum, Real) else {})


def _value(monitor: Callable[[FloatArray], Any], x: FloatArray) -> float | None:
    """The monitor's value; None if it raises, which the rounds report, because they call it as well."""
    try:
        return float(monitor(x.copy()))
    except Exception:
        return None
