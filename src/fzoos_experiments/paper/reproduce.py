"""Reproduces a figure: its runs, plots, tables and settings."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fzoos._util.arrays import FloatArray
from fzoos._util.describe import describe
from fzoos.runs.plots import plot_curves
from fzoos_experiments.paper.curves import Curve, collect
from fzoos_experiments.paper.figures import DURATIONS, Figure, Line, Panel, Quantity, Scale, make
from fzoos_experiments.paper.reports import success_table, write_prompt_report
from fzoos_experiments.paper.run import Run
from fzoos_experiments.paper.runner import execute
from fzoos_experiments.paper.store import Store

__all__ = ["figure_list", "missing_runs", "reproduce"]

_SHOWN = 5e-4  # share of F - F* at x0 down to which it is drawn

_YLABELS: dict[Quantity, str] = {
    "gap": "F − F*",
    "percent": "F, per cent",
    "success": "success rate",
    "cosine": "cosine to grad F, cumulative mean",
    "loss": "F",
}


def reproduce(
    figure: Figure, results: Path, jobs: int = 1, console: Console | None = None, partial: bool = False
) -> Path:
    """Make the missing runs of a figure, write its files, and return its folder.

    Args:
        figure: the figure.
        results: `results/FIGURE` receives the plots (PNG and PDF), with the paper's algorithms and again with companion
            lines, curves.csv and settings.json, for attacks and the prompt task also table.md, and for the latter
            queries.md and answers.md; `results/runs` stores the runs of all figures.
        jobs: the number of runs that are made at the same time.
        console: where progress is shown; default: standard error.
        partial: whether to make no run, and to draw only the lines whose runs are finished.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from rich.console import Console
        >>> from fzoos_experiments.paper.figures import Scale, make
        >>> figure = make("fig4", Scale(quick=True, seeds=1))
        >>> with TemporaryDirectory() as folder:
        ...     made = reproduce(figure, Path(folder), console=Console(quiet=True))
        ...     sorted(path.name for path in made.iterdir())
        ['curves.csv', 'fig4-companion.pdf', 'fig4-companion.png', 'fig4.pdf', 'fig4.png', 'settings.json']
    """
    runs = results / "runs"
    store = Store(runs)
    labels = _labels(figure)
    if not partial:
        execute(figure.runs, runs, jobs, console)
    figure = _finished(figure, store) if partial else _with_stored(figure, store)
    data = store.data(figure.runs)
    curves = collect(figure, runs)
    folder = results / figure.name
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(figure, curves, folder / "curves.csv")
    settings = {
        "figure": figure.name,
        "caption": figure.caption,
        "made_with": store.made_with(figure.runs),
        "data": data,
        "seconds": {panel.title: round(store.seconds(panel.runs), 1) for panel in figure.panels},
        "panels": describe(figure.panels),
    }
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    _plot(figure, curves, folder, labels)
    if figure.quantity == "success":
        (folder / "table.md").write_text(success_table(curves), encoding="utf-8")
    if figure.quantity == "loss":
        write_prompt_report(figure, curves, store, folder)
    return folder


def missing_runs(figures: Sequence[Figure], results: Path) -> list[Run]:
    """The runs of all unfinished panels, in the order in which they are made.

    The first panels of all figures come first, beginning with the least finished figure, then the second panels.

    Args:
        figures: the figures.
        results: the folder of the results.
    """
    store = Store(results / "runs")
    by_figure = [[panel for panel in figure.panels if not _is_finished(panel, store)] for figure in figures]
    done = [len(figure.panels) - len(panels) for figure, panels in zip(figures, by_figure, strict=True)]
    ranked = [(done[i] + k, i, panel) for i, panels in enumerate(by_figure) for k, panel in enumerate(panels)]
    ranked.sort(key=lambda entry: entry[:2])
    return list(dict.fromkeys(run for _, _, panel in ranked for run in panel.runs))


def _is_finished(panel: Panel, store: Store) -> bool:
    return all(store.load(run) is not None for run in panel.runs)


def _is_stored(line: Line, store: Store) -> bool:
    return _is_finished(Panel("", (replace(line, role="companion"),)), store)


def _with_stored(figure: Figure, store: Store) -> Figure:
    """The figure without "stored" lines whose runs are not stored."""
    panels = tuple(
        replace(panel, lines=tuple(line for line in panel.lines if line.role != "stored" or _is_stored(line, store)))
        for panel in figure.panels
    )
    return replace(figure, panels=panels)


def _finished(figure: Figure, store: Store) -> Figure:
    """The figure without unfinished lines, and without panels that have no other lines.

    Where one of the paper's lines is missing, a "stored" line joins the paper's picture under its own label.
    """
    panels = []
    for panel in figure.panels:
        lines = tuple(line for line in panel.lines if _is_stored(line, store))
        complete = all(line in lines for line in panel.pick("paper").lines)
        panels.append(
            replace(
                panel,
                lines=tuple(
                    replace(line, role="paper") if line.role == "stored" and not complete else line for line in lines
                ),
            )
        )
    if not any(panel.lines for panel in panels):
        raise ValueError(f"no line of {figure.name} is finished yet: run it without --partial")
    return replace(figure, panels=tuple(panel for panel in panels if panel.lines))


def _labels(figure: Figure) -> tuple[str, ...]:
    """The labels of all lines in their order: a line has the same colour in every panel, whatever is missing."""
    return tuple(dict.fromkeys(line.label for panel in figure.panels for line in panel.lines))


def figure_list() -> Table:
    """A table of the figures with their numbers of runs and approximate durations on two cores."""
    view = Table(title="fzoos reproduce FIGURE [--quick] --jobs 2", title_justify="left")
    for heading in ("figure", "shows", "runs", "takes about", "--quick"):
        view.add_column(heading)
    for name, (full, quick) in DURATIONS.items():
        figure = make(name, Scale())
        view.add_row(name, figure.caption, f"{len(figure.runs):,}", full, quick)
    view.add_row("theory", "the paper's theory, measured", "63", "2 min", "10 s")
    return view


def _write_csv(figure: Figure, curves: list[Curve], path: Path) -> None:
    """Write one row per curve, seed and round."""
    axis = "step" if figure.quantity == "cosine" else "round"
    extra = sorted({name for curve in curves for name in curve.extra})
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("figure", "panel", "line", "seed", axis, "queries", figure.quantity, *extra))
        for curve in curves:
            for seed, values in enumerate(curve.values):
                for k, value in enumerate(values):
                    further = [curve.extra[name][seed, k] for name in extra]
                    row = (curve.panel, curve.label, seed, int(curve.rounds[k]), int(curve.queries[k]), value, *further)
                    writer.writerow((figure.name, *row))


def _plot(figure: Figure, curves: list[Curve], folder: Path, labels: Sequence[str]) -> None:
    """Draw the paper's picture and, if there are companion lines, a second one with all lines."""
    as_in_the_paper = replace(figure, panels=tuple(panel.pick("paper") for panel in figure.panels))
    _plot_lines(as_in_the_paper, curves, folder / figure.name, labels)
    if any(line.role != "paper" for panel in figure.panels for line in panel.lines):
        _plot_lines(figure, curves, folder / f"{figure.name}-companion", labels)


def _plot_lines(figure: Figure, curves: list[Curve], path: Path, labels: Sequence[str]) -> None:
    drawn = {(panel.title, line.label) for panel in figure.panels for line in panel.lines}
    panels: dict[str, dict[str, tuple[FloatArray, FloatArray]]] = {panel.title: {} for panel in figure.panels}
    for curve in curves:
        if (curve.panel, curve.label) in drawn:
            panels[curve.panel][curve.label] = _queries(curve), curve.values
    within = figure.quantity == "cosine"
    limits: dict[Quantity, tuple[float | None, float | None]] = {
        "success": (-0.02, 1.02),
        "gap": (_SHOWN * max(curve.values[:, 0].mean() for curve in curves), None),
    }
    for suffix in ("png", "pdf"):
        plot_curves(
            {title: lines for title, lines in panels.items() if lines},
            path.with_suffix(f".{suffix}"),
            ylabel=_YLABELS[figure.quantity],
            log=figure.quantity == "gap",
            xlabels=("local steps", "queries within the round") if within else ("rounds", "queries of all clients"),
            start=1 if within else 0,
            ylim=limits.get(figure.quantity),
            labels=labels,
            own_axes=figure.quantity in ("percent", "gap"),
        )


def _queries(curve: Curve) -> FloatArray:
    """The queries for the horizontal axis; not a number if there were none."""
    return curve.queries if curve.queries.any() else np.full(len(curve.queries), np.nan)
