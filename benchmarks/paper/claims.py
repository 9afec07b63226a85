"""The numbers behind docs/results/README.md, from the curves next to it.

    python -m benchmarks.paper.claims [FOLDER] > docs/results/tables.md

FOLDER contains one folder per figure, each with a curves.csv as `fzoos reproduce` writes it; default: docs/results.
"""

from __future__ import annotations

import csv
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

MARKS = {
    "gap": (5, 10, 20, 50),
    "success": (5, 10, 20, 50, 100, 150),
    "percent": (5, 10, 20, 50),
    "cosine": (1, 5, 10, 20),
}
NAMES = {"gap": "F − F*", "success": "success rate", "percent": "100 F", "cosine": "cumulative mean cosine"}
TARGETS = {"gap": 0.1, "success": 0.5}  # rounds and queries to get there are printed
AFFORDED = {"percent": 30_000}  # queries: what was reached with them is printed


def read(path: Path) -> tuple[str, dict[tuple[str, str], dict[int, tuple[float, float, int]]]]:
    """The quantity, and for each panel and line: round to mean, standard error and queries."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    quantity = next(name for name in MARKS if name in rows[0])
    values: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    queries: dict[tuple[str, str, int], int] = {}
    for row in rows:
        at = int(row["step"] if quantity == "cosine" else row["round"])
        values[row["panel"], row["line"]][at].append(float(row[quantity]))
        queries[row["panel"], row["line"], at] = int(row["queries"])
    return quantity, {
        key: {
            at: (
                float(np.mean(v)),
                float(np.std(v, ddof=1) / np.sqrt(len(v))) if len(v) > 1 else 0.0,
                queries[(*key, at)],
            )
            for at, v in curve.items()
        }
        for key, curve in values.items()
    }


def reached(quantity: str, curve: dict[int, tuple[float, float, int]]) -> str:
    """When the mean first is beyond the target."""
    target = TARGETS[quantity]
    for at, (mean, _, queries) in sorted(curve.items()):
        if (mean <= target) if quantity == "gap" else (mean >= target):
            return f"{at} | {queries:,}"
    return "– | –"


def afforded(quantity: str, curve: dict[int, tuple[float, float, int]]) -> str:
    """The mean after the last round within a number of queries."""
    mean, error, _ = curve[max(at for at, (_, _, queries) in curve.items() if queries <= AFFORDED[quantity])]
    return f"{mean:.2f} ± {error:.2f}"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs" / "results"
    print("# Numbers of the figures\n\nPrinted by `python -m benchmarks.paper.claims` from the curves of each figure.")
    for path in sorted(folder.glob("*/curves.csv"), key=lambda path: (len(path.parent.name), path.parent.name)):
        if path.parent.name == "prompt":  # has a table of its own
            continue
        quantity, curves = read(path)
        last = max(max(curve) for curve in curves.values())
        marks = [m for m in MARKS[quantity] if m <= last]
        unit = "steps" if quantity == "cosine" else "rounds"
        head = [f"after {m}" for m in marks]
        if quantity in TARGETS:
            sign = "≤" if quantity == "gap" else "≥"
            head += [f"rounds to {sign} {TARGETS[quantity]:g}", "queries"]
        if quantity in AFFORDED:
            head.append(f"with {AFFORDED[quantity]:,} queries")
        name = path.parent.name
        print(f"\n## {name}\n\n{NAMES[quantity]} after some {unit}, mean ± standard error:")
        shown = None
        for (panel, line), curve in curves.items():
            if panel != shown:
                print(f"\n**{panel}**\n\n| line | " + " | ".join(head) + " |\n| --- |" + " ---: |" * len(head))
                shown = panel
            digits = 2 if quantity in ("success", "percent") else 3
            end = max(curve)  # a line may be shorter than others; attacks end when all images are attacked
            at = [min(m, end) if quantity == "success" else m for m in marks]
            cells = [
                f"{curve[m][0]:.{digits}f}" + (f" ± {curve[m][1]:.{digits}f}" if curve[m][1] else "")
                if m in curve
                else "–"
                for m in at
            ]
            if quantity in TARGETS:
                cells.append(reached(quantity, curve))
            if quantity in AFFORDED:
                cells.append(afforded(quantity, curve))
            print(f"| {line} | " + " | ".join(cells) + " |")
        if quantity == "success":
            print("\nCost of half and of nine tenths of the images:\n")
            print((path.parent / "table.md").read_text(encoding="utf-8").strip())
    print_times(folder)


def print_times(folder: Path) -> None:
    """Print the hours that the runs of each figure took, one after another."""
    times = {}
    for path in sorted(folder.glob("*/settings.json")):
        times[path.parent.name] = sum(json.loads(path.read_text(encoding="utf-8")).get("seconds", {}).values()) / 3600
    known = {name: hours for name, hours in times.items() if hours}
    print("\n## Time\n\nHours of all runs of a figure; runs that two figures share are counted in both.\n")
    print("| figure | hours |\n| --- | ---: |")
    for name, hours in known.items():
        print(f"| {name} | {hours:.2f} |")
    print(f"| sum | {sum(known.values()):.2f} |")


if __name__ == "__main__":
    main()
