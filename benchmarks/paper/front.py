"""The README's front figure: F - F* against queries on the paper's quadratic, from the curves of figure 1.

    python -m benchmarks.paper.front [docs/results/fig1/curves.csv [docs/figures/front.png]]

The curves are those that `fzoos reproduce fig1 --output docs/results` leaves.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fzoos.runs.plots import COLOURS, DASHES

ROOT = Path(__file__).parents[2]
LINES = {
    "FedZO": "FedZO",
    "FedProx": "FedProx",
    "ScaffoldI": "ScaffoldI",
    "ScaffoldII": "ScaffoldII",
    "FZooS, nearest 150": "FZooS, γ = 1/t",
    "FZooS, nearest 150, measured length": "FZooS, γ measured",
    "FedLineSearch (Auto)": "FedLineSearch (Auto)",
}
LEAST, MOST = 3e-3, 10.0  # of F - F*: lower values are drawn at the edge
QUERIES = 30_000  # FedZO's first 28 rounds


def main() -> None:
    """Draw it."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "results" / "fig1" / "curves.csv"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "docs" / "figures" / "front.png"
    panels = _read(source)
    figure = Figure(figsize=(11.0, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (title, lines) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
        for k, (name, label) in enumerate(LINES.items()):
            points = np.array(list(lines[name].values()))
            queries, values = points[0, :, 0], np.maximum(points[:, :, 1], LEAST)
            style = {"color": COLOURS[k], "ls": DASHES[k % len(DASHES)], "lw": 2.4 if k > 3 else 1.5}
            axes.plot(queries, values.mean(axis=0), label=label, clip_on=True, **style)
            axes.fill_between(queries, values.min(axis=0), values.max(axis=0), color=COLOURS[k], alpha=0.12, lw=0)
        axes.set(yscale="log", ylim=(LEAST, MOST), xlim=(0, QUERIES), xlabel="queries of all clients", title=title)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(True, which="major", color="#dddddd")
    figure.axes[0].set_ylabel("F − F*")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(LINES), frameon=False)
    figure.savefig(target, dpi=130)


def _read(source: Path) -> dict[str, dict[str, dict[str, list[tuple[float, float]]]]]:
    """Panel, line and seed to queries and F - F*."""
    found: dict[str, dict[str, dict[str, list[tuple[float, float]]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    with open(source, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found[row["panel"]][row["line"]][row["seed"]].append((float(row["queries"]), float(row["gap"])))
    return found


if __name__ == "__main__":
    main()
