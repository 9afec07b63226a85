"""The curves of a figure, from its stored runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos_experiments.paper.figures import Figure, Line
from fzoos_experiments.paper.run import Row, Run
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import build

__all__ = ["Curve", "collect"]

Load = Callable[[Run], list[Row]]


@dataclass(frozen=True)
class Curve:
    """One line of a figure.

    Attributes:
        panel: the title of its panel.
        label: the name of the line in the legend.
        rounds: shape (n,); local steps in a figure of cosines.
        queries: the queries of all clients so far, shape (n,).
        values: the quantity of the figure, shape (seeds, n).
        extra: further columns of the table, each of shape (seeds, n).
    """

    panel: str
    label: str
    rounds: FloatArray
    queries: FloatArray
    values: FloatArray
    extra: dict[str, FloatArray]


def collect(figure: Figure, folder: Path) -> list[Curve]:
    """All curves of a figure whose runs are finished."""
    store = Store(folder)

    def load(run: Run) -> list[Row]:
        rows = store.load(run)
        if rows is None:
            raise FileNotFoundError(f"a run of {figure.name} is missing in {folder}")
        return rows

    make = {"gap": _gap, "percent": _percent, "success": _success, "cosine": _cosine, "loss": _loss}[figure.quantity]
    return [make(panel.title, line, load) for panel in figure.panels for line in panel.lines]


def _column(line: Line, load: Load, name: str) -> FloatArray:
    """A column of the only run of each seed, shape (seeds, n). A shorter run, which has converged, is extended."""
    found = [[row[name] for row in load(runs[0])] for runs in line.runs]
    n = max(line.runs[0][0].rounds + 1, *map(len, found))  # of a figure of cosines: its local steps
    return np.array([column + column[-1:] * (n - len(column)) for column in found])


def _single(panel: str, line: Line, load: Load, values: FloatArray, axis: str = "round") -> Curve:
    extra = {"F": _column(line, load, "F")} if axis == "round" else {}
    rounds, queries = _column(line, load, axis).max(axis=0), _column(line, load, "queries").mean(axis=0)
    if axis == "round":
        rounds = np.arange(len(rounds), dtype=float)
    return Curve(panel, line.label, rounds, queries, values, extra)


def _gap(panel: str, line: Line, load: Load) -> Curve:
    """The curve of F - F*."""
    minimum = build(line.runs[0][0].task).minimum
    return _single(panel, line, load, _column(line, load, "F") - minimum)


def _percent(panel: str, line: Line, load: Load) -> Curve:
    """The curve of 100 F, for F = 1 - metric."""
    return _single(panel, line, load, 100.0 * _column(line, load, "F"))


def _loss(panel: str, line: Line, load: Load) -> Curve:
    """The curve of F, with the accuracy on test texts."""
    curve = _single(panel, line, load, _column(line, load, "F"))
    bytes_sent = _column(line, load, "bytes_up") + _column(line, load, "bytes_down")
    return replace(curve, extra={"accuracy": _column(line, load, "accuracy"), "bytes": bytes_sent})


def _cosine(panel: str, line: Line, load: Load) -> Curve:
    """The curve of the cumulative mean over local steps."""
    values = _column(line, load, "cosine")
    return _single(panel, line, load, np.cumsum(values, axis=1) / np.arange(1, values.shape[1] + 1), axis="step")


def _success(panel: str, line: Line, load: Load) -> Curve:
    """The curve of the share of images attacked so far: an attack has succeeded once it fools the averaged logits.

    The column `weak` uses the weaker rule, mean f_i < 0. A run ends with its attack, so the queries of a round are the
    mean over the runs that reach it, and likewise `bytes`. The curve ends where all images are attacked.
    """
    longest = max(len(load(run)) for runs in line.runs for run in runs)
    n = min(line.runs[0][0].rounds + 1, longest)
    images = [[load(run) for run in runs] for runs in line.runs]
    by_rule = {
        name: np.array([np.mean([_attacked(rows, name, n) for rows in of_seed], axis=0) for of_seed in images])
        for name in ("margin", "F")
    }
    rows = [rows for of_seed in images for rows in of_seed]
    queries = _cost(n, [[row["queries"] for row in of_image] for of_image in rows])
    sent = _cost(n, [[row["bytes_up"] + row["bytes_down"] for row in of_image] for of_image in rows])
    extra = {"weak": by_rule["F"], "bytes": np.tile(sent, (len(images), 1))}
    return Curve(panel, line.label, np.arange(n, dtype=float), queries, by_rule["margin"], extra)


def _cost(n: int, totals: list[list[float]]) -> FloatArray:
    """The cumulative cost of an image until round 0, ..., n - 1: each round is the mean over the runs that reach it."""
    cost = np.zeros(n)
    for r in range(1, n):
        cost[r] = cost[r - 1] + np.mean([of_run[r] - of_run[r - 1] for of_run in totals if len(of_run) > r])
    return cost


def _attacked(rows: list[Row], name: str, n: int) -> FloatArray:
    """An indicator of the rounds from the first negative value on, shape (n,)."""
    attacked = np.zeros(n)
    for row in rows:
        if row[name] < 0:
            attacked[int(row["round"]) :] = 1.0
            break
    return attacked
