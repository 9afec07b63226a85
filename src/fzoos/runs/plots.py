"""What is shown of finished runs: a table, and a plot of F - F* against rounds, queries and bytes."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from rich.filesize import decimal

from fzoos._util.arrays import FloatArray
from fzoos.result import Result

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["COLOURS", "DASHES", "Trial", "check_plot_path", "colour_of", "plot", "plot_curves", "table"]

Curves = Mapping[str, tuple[FloatArray, FloatArray]]

COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000"),  # Okabe & Ito 2008
    *("#882255", "#999933", "#332288", "#8C6239", "#F0C808", "#7A7A7A", "#E6194B"),  # as many again, unlike them
    *("#A6D854", "#B15BFF", "#00CED1", "#7A0000", "#FFB3BA", "#1B4D1B"),
)
_MARKERS = "os^Dv<>PX"
BYTES = "bytes, up and down"
DASHES: tuple[Any, ...] = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), "-")


@dataclass(frozen=True)
class Trial:
    """One run of an algorithm, with F at x0 (round 0) and the smallest value of F; the run's monitor was F."""

    label: str
    result: Result
    start: float  # F(x_0)
    minimum: float | None  # F*, where it is known
    accuracy: tuple[float, float] | None = None  # of a language model at x_0 and at x
    quantity: Literal["F", "margin"] = "F"  # "margin": the monitor was the margin of the averaged logits of an attack

    @property
    def values(self) -> FloatArray:
        """F after each round, that at x0 first; NaN where a record has no monitor."""
        return np.array([self.start, *(record.monitor for record in self.result.history)], dtype=np.float64)

    @property
    def gap(self) -> FloatArray:
        """F - F* after each round, that at x0 first; F where F* is not known."""
        return self.values - (self.minimum or 0.0)

    @property
    def is_attacked(self) -> bool:
        """Whether the attack has succeeded: its margin is below zero."""
        return self.quantity == "margin" and bool(self.values[-1] < 0.0)

    @property
    def queries(self) -> FloatArray:
        """Queries of all clients after each round, 0 first."""
        return np.array([0, *(record.queries for record in self.result.history)], dtype=np.float64)

    @property
    def bytes(self) -> FloatArray:
        """Bytes up and down after each round, 0 first."""
        sent = (record.bytes_up + record.bytes_down for record in self.result.history)
        return np.array([0, *sent], dtype=np.float64)


def colour_of(place: int) -> str:
    """The colour of a line: `COLOURS`, then others, so that no two lines have the same."""
    if place < len(COLOURS):
        return COLOURS[place]
    hue = (place * 0.6180339887) % 1.0  # the golden ratio: far from those just before
    red, green, blue = colorsys.hls_to_rgb(hue, (0.38, 0.55)[place % 2], 0.65)
    return f"#{round(255 * red):02X}{round(255 * green):02X}{round(255 * blue):02X}"


def _by_label(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.label, []).append(trial)
    return groups


def table(trials: Sequence[Trial], title: str) -> Table:
    """One row per algorithm; where it has several trials, their means."""
    from rich.table import Table

    view = Table(title=title, title_justify="left", caption_justify="left")
    view.add_column("algorithm")
    for heading in (trials[0].quantity, _second_heading(trials), "rounds", "queries", "bytes", "seconds"):
        view.add_column(heading, justify="right")
    for label, group in _by_label(trials).items():
        results = [trial.result for trial in group]
        view.add_row(
            label,
            f"{np.mean([trial.values[-1] for trial in group]):.4g}",
            _second(group),
            f"{np.mean([result.rounds for result in results]):g}",
            f"{np.mean([result.queries for result in results]):,.0f}",
            decimal(round(float(np.mean([result.bytes_up + result.bytes_down for result in results])))),
            f"{np.mean([result.seconds for result in results]):.1f}",
        )
    return view


def _second_heading(trials: Sequence[Trial]) -> str:
    if trials[0].quantity == "margin":
        return "attacked"
    if any(trial.accuracy for trial in trials):
        return "accuracy"
    return "best F" if all(trial.minimum is None for trial in trials) else "F - F*"


def _second(group: Sequence[Trial]) -> str:
    """The attacked images, the accuracy, or F - F* at the end; where F* is not known, the lowest F."""
    if group[0].quantity == "margin":
        return f"{sum(trial.is_attacked for trial in group)} of {len(group)}"
    accuracies = [trial.accuracy[1] for trial in group if trial.accuracy]
    if accuracies:
        return f"{np.mean(accuracies):.1%}"
    lowest = [np.nanmin(t.values, initial=math.inf) if t.minimum is None else t.gap[-1] for t in group]
    return f"{np.mean(lowest):.3g}"


def check_plot_path(path: Path) -> None:
    """Raise a ValueError if a plot could not be written there; called before a run, not after it."""
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"the plot cannot be written to {path}: no such directory, or a directory itself")
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"the plot must be a .png, .pdf or .svg file, got {path}")


def plot(trials: Sequence[Trial], path: Path, title: str) -> None:
    """Draw F - F*, or F where F* is not known, against rounds, queries and bytes, a line for each algorithm.

    Of attacks on several images it is the share of the images that are attacked, of one image the margin.

    Raises:
        ImportError: matplotlib is not installed.
    """
    xlabels = ("rounds", "queries of all clients", BYTES)
    if any(trial.quantity == "margin" for trial in trials):
        _plot_attacks(trials, path, title, xlabels)
        return
    curves = {}
    for label, group in _by_label(trials).items():
        length = min(len(trial.gap) for trial in group)
        costs = [(trial.queries[:length], trial.bytes[:length]) for trial in group]
        curves[label] = np.mean(costs, axis=0), np.stack([trial.gap[:length] for trial in group])
    known = all(trial.minimum is not None for trial in trials)
    ends = sorted(float(values[:, -1].mean()) for _, values in curves.values())
    # The best line may leave the picture, a decade below the second best: the others could not be told apart beside it.
    ylim = (0.1 * ends[1], None) if known and len(ends) > 2 and ends[1] > 0.0 else None
    plot_curves({title: curves}, path, ylabel="F − F*" if known else "F", log=known, xlabels=xlabels, ylim=ylim)


def _plot_attacks(trials: Sequence[Trial], path: Path, title: str, xlabels: tuple[str, ...]) -> None:
    """An attack that has succeeded costs nothing more, and its image stays attacked."""
    groups = _by_label(trials)
    several = any(len(group) > 1 for group in groups.values())
    curves = {}
    for label, group in groups.items():
        length = max(len(trial.values) for trial in group)
        costs = [(_held(trial.queries, length), _held(trial.bytes, length)) for trial in group]
        margins = np.stack([_held(trial.values, length) for trial in group])
        share = np.mean(margins < 0.0, axis=0, keepdims=True)
        curves[label] = np.mean(costs, axis=0), share if several else margins
    ylabel, ylim = ("share of the images attacked", (-0.02, 1.02)) if several else ("margin", None)
    plot_curves({title: curves}, path, ylabel=ylabel, log=False, xlabels=xlabels, ylim=ylim)


def _held(values: FloatArray, length: int) -> FloatArray:
    """Values followed by the last one, up to a length."""
    return np.pad(values, (0, length - len(values)), mode="edge")


def plot_curves(
    panels: Mapping[str, Curves],
    path: Path,
    *,
    ylabel: str = "F − F*",
    log: bool = True,
    xlabels: tuple[str, ...] = ("rounds", "queries of all clients"),
    start: int = 0,
    ylim: tuple[float | None, float | None] | None = None,
    labels: Sequence[str] = (),
    own_axes: bool = False,
) -> None:
    """Draw one or more sets of curves, each against rounds and against costs, and write the figure to `path`.

    A line is the mean over the trials; where there are several, the band is the standard error to both sides.

    Args:
        panels: title to curves; curves are label to queries, shape (n,), or several costs, shape (costs, n), and
            values, shape (trials, n).
        path: a .png, .pdf or .svg file.
        ylabel: what the values are.
        log: whether the vertical axis is logarithmic.
        xlabels: the labels of the horizontal axes: of rounds and of each cost.
        start: number of the first round.
        ylim: range of the vertical axes; None, for both or for one end: that of the values.
        labels: curves whose places in this order give them their colours and markers; others come after them.
        own_axes: whether each panel has a vertical axis of its own; the plots of one panel share theirs in any case.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    one = len(panels) == 1
    count = len(xlabels)
    figure = Figure(figsize=(1.0 + 4.5 * count, 4.6) if one else (4.4 * len(panels), 3.7 * count), layout="constrained")
    FigureCanvasAgg(figure)
    sharey: Literal["col"] | bool = "col" if own_axes and not one else True
    grid = figure.subplots(*((1, count) if one else (count, len(panels))), squeeze=False, sharey=sharey)
    known = list(dict.fromkeys([*labels, *(label for curves in panels.values() for label in curves)]))
    for (title, curves), row in zip(panels.items(), grid if one else grid.T, strict=True):
        _draw(curves, start, row, known)
        for axes, name in zip(row, xlabels, strict=True):
            axes.set(yscale="log" if log else "linear", xlabel=name)
            if name == BYTES:
                axes.xaxis.set_major_formatter(lambda value, _: decimal(round(value)))
        (figure.suptitle if one else row[0].set_title)(title)
    for axes in grid[:, 0]:
        axes.set_ylabel(ylabel)
    if ylim is not None:
        for axes in grid.flat:
            axes.set_ylim(ylim)
    shown = {
        label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    drawn = [label for label in known if label in shown]
    figure.legend(
        [shown[label] for label in drawn], drawn, loc="outside lower center", ncols=3 if one else 6, frameon=False
    )
    undated = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}  # the same curves are the same file
    figure.savefig(path, dpi=150, metadata=undated.get(Path(path).suffix.lower()))


def _draw(curves: Curves, start: int, row: Sequence[Any], labels: Sequence[str]) -> None:
    for label, (costs, values) in curves.items():
        i = labels.index(label)
        marker, dashes = (styles[i % len(styles)] for styles in (_MARKERS, DASHES))
        places = [start + np.arange(values.shape[1]), *np.atleast_2d(costs)]
        apart = max(1, values.shape[1] // 8)
        every = (i % apart, apart)  # lines that lie on each other keep their own markers
        mean = values.mean(axis=0)
        for axes, x in zip(row, places, strict=True):
            axes.plot(x, mean, label=label, color=colour_of(i), marker=marker, markevery=every, ls=dashes)
            if len(values) > 1:
                error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                axes.fill_between(x, mean - error, mean + error, color=colour_of(i), alpha=0.15, linewidth=0)
    for axes in row:
        axes.set_xlim(left=0)
        axes.grid(True, which="major", color="#dddddd")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
