"""A figure from nothing: runs, table, plots and the settings that made them."""

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
from fzoos.experiments.curves import Curve, collect
from fzoos.experiments.figures import DURATIONS, Figure, Panel, Quantity, make
from fzoos.experiments.prompt_report import write_prompt_report
from fzoos.experiments.run import Run
from fzoos.experiments.runner import execute
from fzoos.experiments.scale import Scale
from fzoos.experiments.store import Store
from fzoos.runs.plots import plot_curves

__all__ = ["figure_list", "reproduce", "wanted"]

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
    """Make the missing runs of a figure and leave it under `results`; return its folder.

    Args:
        figure: the figure to make.
        results: `results/FIGURE` gets the plots (PNG and PDF), curves.csv and settings.json, for the prompt task also
            table.md, queries.md and answers.md; `results/runs` keeps the runs of all figures.
        jobs: runs made at the same time.
        console: where progress is shown; default: standard error.
        partial: make no run; draw the lines whose runs are all there.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from rich.console import Console
        >>> from fzoos.experiments.figures import make
        >>> from fzoos.experiments.scale import Scale
        >>> figure = make("fig4", Scale(quick=True, seeds=1))
        >>> with TemporaryDirectory() as folder:
        ...     made = reproduce(figure, Path(folder), console=Console(quiet=True))
        ...     sorted(path.name for path in made.iterdir())
        ['curves.csv', 'fig4.pdf', 'fig4.png', 'settings.json']
    """
    runs = results / "runs"
    store = Store(runs)
    labels = _labels(figure)
    if partial:
        figure = _finished(figure, store)
    else:
        execute(figure.runs, runs, jobs, console)
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
    if figure.quantity == "loss":
        write_prompt_report(figure, curves, store, folder)
    return folder


def wanted(figures: Sequence[Figure], results: Path) -> list[Run]:
    """All runs of the figures, in the order of what is lacked most.

    First one panel of each figure, those first of which least is finished; then a second panel of each, and so on.

    Args:
        figures: what is to be drawn.
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


def _finished(figure: Figure, store: Store) -> Figure:
    """The figure without the lines that miss runs, and without panels that have no other."""
    panels = tuple(
        replace(panel, lines=tuple(line for line in panel.lines if _is_finished(Panel("", (line,)), store)))
        for panel in figure.panels
    )
    if not any(panel.lines for panel in panels):
        raise ValueError(f"no line of {figure.name} is finished yet: run it without --partial")
    return replace(figure, panels=tuple(panel for panel in panels if panel.lines))


def _labels(figure: Figure) -> tuple[str, ...]:
    """Of all lines, in their order: the same line has the same colour in every panel, whatever is missing."""
    return tuple(dict.fromkeys(line.label for panel in figure.panels for line in panel.lines))


def figure_list() -> Table:
    """The figures: what they show, how many runs they are made of and about how long they take on two cores."""
    view = Table(title="fzoos reproduce FIGURE [--quick] --jobs 2", title_justify="left")
    for heading in ("figure", "shows", "runs", "takes about", "--quick"):
        view.add_column(heading)
    for name, (full, quick) in DURATIONS.items():
        figure = make(name, Scale())
        view.add_row(name, figure.caption, f"{len(figure.runs):,}", full, quick)
    return view


def _write_csv(figure: Figure, curves: list[Curve], path: Path) -> None:
    """One line per curve, seed and round."""
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


def _asked(curve: Curve) -> FloatArray:
    """The queries, or nothing to draw against where none were made."""
    return curve.queries if curve.queries.any() else np.full(len(curve.queries), np.nan)


def _plot(figure: Figure, curves: list[Curve], folder: Path, labels: Sequence[str]) -> None:
    panels = {
        panel.title: {curve.label: (_asked(curve), curve.values) for curve in curves if curve.panel == panel.title}
        for panel in figure.panels
    }
    within = figure.quantity == "cosine"
    for suffix in ("png", "pdf"):
        plot_curves(
            panels,
            folder / f"{figure.name}.{suffix}",
            ylabel=_YLABELS[figure.quantity],
            log=figure.quantity == "gap",
            xlabels=("local steps", "queries within the round") if within else ("rounds", "queries of all clients"),
            start=1 if within else 0,
            ylim=(-0.02, 1.02) if figure.quantity == "success" else None,
            labels=labels,
        )
