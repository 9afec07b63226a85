"""What the attacks of figures 2, 7 and 8 have come to, also where some of their runs have not been made yet.

    python -m benchmarks.paper.attacks [FOLDER]

FOLDER holds the runs of the figures in its folder `runs`; default: docs/results. "Half" is the round by which 8 of all
15 images were attacked, and the queries that the eighth took; runs that are missing count as not attacked.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fzoos.experiments.figures import make
from fzoos.experiments.scale import Scale
from fzoos.experiments.store import Store

FIGURES = {"fig2": "cuda", "fig7": "cuda", "fig8": "cpu"}  # and where their runs were made


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs" / "results"
    store = Store(folder / "runs")
    print("| figure | panel | line | runs | attacked | half after rounds | queries |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, device in FIGURES.items():
        for panel in make(name, Scale(device=device)).panels:
            for line in panel.lines:
                runs = [run for of_seed in line.runs for run in of_seed]
                made = [rows for run in runs if (rows := store.load(run)) is not None]
                last = [rows[-1] for rows in made if rows[-1]["margin"] < 0]
                ends = sorted((int(row["round"]), int(row["queries"])) for row in last)
                half = len(runs) // 2
                rounds, queries = (f"{n:,}" for n in ends[half]) if len(ends) > half else ("–", "–")
                cells = (panel.title, line.label, f"{len(made)} of {len(runs)}", str(len(ends)), rounds, queries)
                print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
