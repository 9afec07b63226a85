"""The README's front figure: F - F* against queries, from the runs of `python -m benchmarks.beyond rivals`.

python -m benchmarks.beyond.front [docs/figures/front.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.beyond.fair.entrants import OURS
from benchmarks.beyond.fair.kept import FOLDER, Kept
from fzoos.runs.plots import COLOURS, DASHES

PROBLEMS = {"quadratic-0.5": "C = 0.5", "quadratic-5": "C = 5", "quadratic-50": "C = 50"}
LABELS = {
    "FedZO": "FedZO",
    "FedProx, gamma = 0.1": "FedProx",
    "ScaffoldI": "ScaffoldI",
    "ScaffoldII": "ScaffoldII",
    "DeComFL": "DeComFL",
    "FedCMA": "FedCMA",
    "FedLBFGS": "FedLBFGS",
    OURS: OURS,
}
"""Without those that would be hidden: FedHistory is on FedZO's line, and HiSo on DeComFL's."""
LEAST, MOST = 2e-4, 6.0  # of F - F*; what is less is drawn at the edge
RED = "#c1121f"


def main() -> None:
    """Draw it."""
    target = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[2] / "docs" / "figures" / "front.png"
    kept = Kept(FOLDER / "rivals.jsonl")
    figure = Figure(figsize=(11.0, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (problem, title) in zip(figure.subplots(1, len(PROBLEMS), sharey=True), PROBLEMS.items(), strict=True):
        for k, label in enumerate(LABELS):
            line = kept.get(problem, label)
            if line is not None:
                _draw(axes, list(line["traces"].values()), label, k)
        axes.set(yscale="log", ylim=(LEAST, MOST), xlim=(0, None), xlabel="queries of all clients", title=title)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(True, which="major", color="#dddddd")
    figure.axes[0].set_ylabel("F − F*")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(LABELS), frameon=False)
    figure.savefig(target, dpi=130)


def _draw(axes: Axes, traces: list[list[tuple[int, float]]], label: str, k: int) -> None:
    """Mean over the seeds and, as an area, the best and the worst; seeds need not end after as many rounds."""
    rounds = min(len(trace) for trace in traces)
    queries = np.mean([[asked for asked, _ in trace[:rounds]] for trace in traces], axis=0)
    values = np.maximum([[value for _, value in trace[:rounds]] for trace in traces], LEAST)
    ours, colour = label == OURS, RED if label == OURS else COLOURS[k % len(COLOURS)]
    axes.plot(
        queries,
        values.mean(axis=0),
        label=LABELS[label],
        color=colour,
        ls="-" if ours else DASHES[k % len(DASHES)],
        lw=2.5 if ours else 1.5,
        marker="o",
        ms=4 if ours else 3,
        clip_on=False,
    )
    area = (values.min(axis=0), values.max(axis=0))
    axes.fill_between(queries, *area, color=colour, alpha=0.12, linewidth=0)


if __name__ == "__main__":
    main()
