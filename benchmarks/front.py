"""The README's front figure: figure 1 against queries, from the curves that `fzoos reproduce fig1` left.

python benchmarks/front.py [docs/results/fig1/curves.csv] [docs/figures/front.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from claims import read
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fzoos.report import COLOURS, DASHES

HERE = Path(__file__).parent.parent / "docs"


def main() -> None:
    given = [Path(argument) for argument in sys.argv[1:]]
    source = given[0] if given else HERE / "results" / "fig1" / "curves.csv"
    target = given[1] if len(given) > 1 else HERE / "figures" / "front.png"
    _, curves = read(source)
    panels = list(dict.fromkeys(panel for panel, _ in curves))
    figure = Figure(figsize=(11.0, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True), panels, strict=True):
        lines = {line: curve for (where, line), curve in curves.items() if where == panel}
        for k, (line, curve) in enumerate(lines.items()):
            mean, error, queries = np.array([curve[r] for r in sorted(curve)]).T
            axes.plot(queries, mean, label=line, color=COLOURS[k], ls=DASHES[k % len(DASHES)])
            axes.fill_between(queries, mean - error, mean + error, color=COLOURS[k], alpha=0.15, linewidth=0)
        axes.set(yscale="log", xlim=(0, 30_000), xlabel="queries of all clients", title=panel)
        axes.set_xticks([0, 10_000, 20_000, 30_000])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(True, which="major", color="#dddddd")
    figure.axes[0].set_ylabel("F − F*")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
