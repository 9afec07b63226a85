"""The tables of figures: the cost of attacks, and the results of the prompt task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos_experiments.paper.curves import Curve
from fzoos_experiments.paper.figures import Figure
from fzoos_experiments.paper.run import SHOWN
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import TaskSpec, build

__all__ = ["BUDGET", "success_table", "write_prompt_report"]

_RATES = (0.5, 0.9)

BUDGET = 4000
"""The number of queries of all clients after which algorithms are compared on the prompt task."""

_HEADINGS = (
    "C",
    "algorithm",
    f"F after {BUDGET:,} queries",
    "accuracy then",
    "F at the end",
    "accuracy at the end",
    "queries",
    "bytes",
    "queries to the first one's F",
)


def success_table(curves: Sequence[Curve]) -> str:
    """A Markdown table of the rounds, queries and megabytes until success rates are reached, and of the final rate.

    Args:
        curves: the curves of a figure of success rates.
    """
    heads = [f"{what} to {rate:.0%}" for rate in _RATES for what in ("rounds", "queries", "MB sent")]
    lines = ["| panel | line | " + " | ".join(heads) + " | images attacked |", "| --- | --- |" + " ---: |" * 7]
    for curve in curves:
        cells = [cell for rate in _RATES for cell in _first_reached(curve, rate)]
        rate = f"{curve.values[:, -1].mean():.0%}"
        lines.append(f"| {curve.panel} | {curve.label} | {' | '.join(cells)} | {rate} |")
    return "\n".join(lines) + "\n"


def _first_reached(curve: Curve, rate: float) -> tuple[str, str, str]:
    """The round, queries and megabytes at which the mean success rate first reaches a rate."""
    for r, success in enumerate(curve.values.mean(axis=0)):
        if success >= rate:
            return f"{r}", f"{curve.queries[r]:,.0f}", f"{curve.extra['bytes'][0, r] / 1e6:.3g}"
    return "–", "–", "–"


def write_prompt_report(figure: Figure, curves: Sequence[Curve], store: Store, folder: Path) -> None:
    """Write table.md, queries.md and answers.md.

    Args:
        figure: the figure, whose runs are finished.
        curves: its curves; the first one of each panel is the reference for the others.
        store: the store of its runs.
        folder: the folder of the files.
    """
    (folder / "table.md").write_text(_table(figure, curves), encoding="utf-8")
    (folder / "queries.md").write_text(_queries(figure, curves), encoding="utf-8")
    (folder / "answers.md").write_text(_answers(figure, curves, store), encoding="utf-8")


def _table(figure: Figure, curves: Sequence[Curve]) -> str:
    """Means over the seeds, with standard errors."""
    rows = [_HEADINGS, ("---",) * 2 + ("---:",) * 7]
    for panel in figure.panels:
        mine = [curve for curve in curves if curve.panel == panel.title]
        start, accuracy = mine[0].values[:, 0], mine[0].extra["accuracy"][:, 0]
        c = panel.title.removeprefix("C = ")
        rows.append((c, "instruction alone", _mean(start), _percent(accuracy), "", "", "0", "", ""))
        target = _reached(mine[0])
        for curve in mine:
            at, accuracy = _within_budget(curve), curve.extra["accuracy"]
            queries = int(curve.queries[-1])
            rows.append(
                (
                    c,
                    curve.label,
                    _mean(curve.values[:, at]) if queries else "",
                    _percent(accuracy[:, at]) if queries else "",
                    _mean(curve.values[:, -1]),
                    _percent(accuracy[:, -1]),
                    f"{queries:,}" if queries else "–",
                    f"{curve.extra['bytes'][:, -1].mean():,.0f}" if queries else "–",
                    _queries_to(curve, target) if queries else "–",
                )
            )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _queries(figure: Figure, curves: Sequence[Curve]) -> str:
    """The queries that each algorithm needs for the F that each other one reaches within the budget."""
    lines = [f"Queries that a row needs for the mean F that a column has after {BUDGET:,} queries.\n"]
    for panel in figure.panels:
        querying = [curve for curve in curves if curve.panel == panel.title and curve.queries[-1] > 0]
        lines += [
            f"| {panel.title} | {' | '.join(curve.label for curve in querying)} |",
            "| --- |" + " ---: |" * len(querying),
        ]
        for curve in querying:
            needed = (_queries_to(curve, _reached(other)) for other in querying)
            lines.append(f"| {curve.label} | {' | '.join(needed)} |")
        lines.append("")
    return "\n".join(lines)


def _reached(curve: Curve) -> float:
    """The mean F at the end of the budget."""
    return float(curve.values.mean(axis=0)[_within_budget(curve)])


def _within_budget(curve: Curve) -> int:
    """The last round within the budget."""
    return int(np.flatnonzero(curve.queries <= BUDGET)[-1])


def _queries_to(curve: Curve, target: float) -> str:
    """The queries after which the mean F is at most the target."""
    reached = np.flatnonzero(curve.values.mean(axis=0) <= target)
    return f"{curve.queries[reached[0]]:,.0f}" if len(reached) else f"more than {curve.queries[-1]:,.0f}"


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _mean(values: FloatArray) -> str:
    return f"{values.mean():.3f} ± {_error(values):.3f}"


def _percent(values: FloatArray) -> str:
    return f"{100 * values.mean():.1f} ± {100 * _error(values):.1f} %"


def _answers(figure: Figure, curves: Sequence[Curve], store: Store) -> str:
    """The predicted classes before and after tuning: first panel and seed, best line within the budget."""
    panel = figure.panels[0]
    reached = {c.label: _reached(c) for c in curves if c.panel == panel.title and c.queries[-1] > 0}
    line = min((line for line in panel.lines if line.label in reached), key=lambda line: reached[line.label])
    run = line.runs[0][0]
    rows = store.load(run)
    assert rows is not None
    task = build(TaskSpec.of(run.task.name, **(dict(run.task.settings) | {"device": "cpu"})))  # for its texts alone
    lines = [f"{line.label}, {panel.title}, seed 0: the model's choice before and after.\n"]
    lines += ["| text | class | instruction alone | tuned |", "| --- | --- | --- | --- |"]
    for k, (text, right) in enumerate(task.examples(SHOWN)):
        before, after = (task.classes[int(row[f"answer {k}"])] for row in (rows[0], rows[-1]))
        lines.append(f"| {text.replace('|', '/')} | {right} | {before} | {after} |")
    return "\n".join(lines) + "\n"
