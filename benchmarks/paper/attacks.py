"""The images of figures 2, 7 and 8 that `FZooS()` does not attack, and what every line comes to on them.

    python -m benchmarks.paper.attacks [FOLDER]

FOLDER holds the runs of the figures in its folder `runs`; default: docs/results. An image is attacked when the margin
of the averaged logits is below zero; F, which the algorithms lower, is at most that. Of F the lowest of all rounds is
printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fzoos.experiments.figures import make
from fzoos.experiments.scale import Scale
from fzoos.experiments.store import Store

FIGURES = {"fig2": "cuda", "fig8": "cpu"}  # and where their runs were made; FZooS() is the same at every T


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs" / "results"
    store = Store(folder / "runs")
    print("| figure | panel | image | line | rounds | queries | F, lowest | last margin |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, device in FIGURES.items():
        for panel in make(name, Scale(device=device)).panels:
            runs = {line.label: [run for of_seed in line.runs for run in of_seed] for line in panel.lines}
            for image, ours in enumerate(runs["FZooS"]):
                rows = store.load(ours)
                if rows is None or rows[-1]["margin"] < 0:
                    continue
                for label, theirs in runs.items():
                    rows = store.load(theirs[image])
                    if rows is None:
                        continue
                    lowest, last = min(row["F"] for row in rows), rows[-1]
                    cells = (panel.title, image, label, last["round"], f"{last['queries']:,}", f"{lowest:.1f}")
                    print(f"| {name} | {' | '.join(map(str, cells))} | {last['margin']:.2f} |")


if __name__ == "__main__":
    main()
