"""The duration of each curve of a figure, from the runs that `fzoos reproduce` has stored.

    python -m benchmarks.paper.curve_times RESULTS FIGURE

RESULTS is the folder given to `fzoos reproduce` (`results` by default); the figure is taken at full size. Seconds are
of one run, from its start to its last round, as measured where it was made. Runs that are missing are counted.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from fzoos_experiments.paper.figures import Scale, make
from fzoos_experiments.paper.store import Store


def seconds(folder: Path, figure: str) -> tuple[dict[str, list[float]], set[str], int]:
    """Seconds of each stored run by line, the machines that made them, and how many runs are missing."""
    found: dict[str, list[float]] = defaultdict(list)
    machines, missing, store = set(), 0, Store(folder / "runs")
    for panel in make(figure, Scale()).panels:
        for line in panel.lines:
            for run in (run for runs in line.runs for run in runs):
                if store.load(run) is None:
                    missing += 1
                    continue
                found[line.label].append(store.seconds([run]))
                for made in store.made_with([run]):
                    machines.add(f"{made['machine']}, Python {made['python']}, NumPy {made['numpy']}")
    return found, machines, missing


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python -m benchmarks.paper.curve_times RESULTS FIGURE")
    try:
        found, machines, missing = seconds(Path(sys.argv[1]), sys.argv[2])
    except ValueError as error:
        sys.exit(str(error))
    if not found:
        sys.exit(f"{sys.argv[1]} has no finished run of {sys.argv[2]} at full size")
    print(f"# {sys.argv[2]}, made on {' and on '.join(sorted(machines))}; {missing} runs are missing\n")
    print("| algorithm | runs | seconds per run | shortest | longest |\n| --- | --- | --- | --- | --- |")
    for label, times in found.items():
        print(f"| {label} | {len(times)} | {np.mean(times):.1f} | {min(times):.1f} | {max(times):.1f} |")


if __name__ == "__main__":
    main()
