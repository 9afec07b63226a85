"""The README's front figure: F - F* against queries, from the runs of `python -m benchmarks.beyond curves`.

python -m benchmarks.beyond.front [benchmarks/beyond/results] [docs/figures/front.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.beyond.curves import LABELS, runs
from benchmarks.beyond.plan import read
from benchmarks.beyond.settings import DEFAULT
from benchmarks.beyond.tables import Options, problems, some
from fzoos.runs.plots import COLOURS, DASHES

HERE = Path(__file__).parent


def main() -> None:
    given = [Path(argument) for argument in sys.argv[1:]]
    planned = runs(Options())
    found = read(planned, given[0] if given else HERE / "results")
    target = given[1] if len(given) > 1 else HERE.parents[1] / "docs" / "figures" / "front.png"
    figure = Figure(figsize=(11.0, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    tasks = problems(planned)
    for axes, task in zip(figure.subplots(1, len(tasks), sharey=True), tasks, strict=True):
        for k, label in enumerate(LABELS):
            here = some(found, task, label)
            values = np.array([[each.start, *each.values] for each in here])
            queries = np.array([0, *here[0].queries])
            mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
            name = "FZooS" if label == DEFAULT else label
            axes.plot(queries, mean, label=name, color=COLOURS[k], ls=DASHES[k % len(DASHES)])
            axes.fill_between(queries, mean - error, mean + error, color=COLOURS[k], alpha=0.15, linewidth=0)
        axes.set(yscale="log", xlim=(0, 21_000), xlabel="queries of all clients", title=f"C = {task.level:g}")
        axes.set_xticks([0, 5_000, 10_000, 15_000, 20_000])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(True, which="major", color="#dddddd")
    figure.axes[0].set_ylabel("F − F*")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=7, frameon=False)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
