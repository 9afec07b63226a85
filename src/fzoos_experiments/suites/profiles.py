"""Results of a suite's runs: a table, a CSV file, and data profiles.

A run reaches the target tau if F(x) - F* <= tau (F(x0) - F*). The data profile of a rival (Moré and Wild 2009) is the
share of the problems whose target it has reached, against queries per client in units of d + 1, the cost of a simplex
gradient. If F* is unknown, the smallest F of all runs of the problem replaces it.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.runs.plots import COLOURS, DASHES
from fzoos_experiments.suites.benchmark import SuiteRun

__all__ = ["TARGETS", "Outcome", "outcomes", "plot_profiles", "summary", "write_csv"]

TARGETS = (1e-1, 1e-3, 1e-5)

_WORSE = 2.0  # the ratio of the returned to the lowest F - F* above which a run is counted as "not the best"


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Args:
        run: the run.
        dim: d.
        queries: the queries of all clients, at x0 and after each round.
        gaps: (F(x) - F*) / (F(x0) - F*), at x0 and after each round.
        status: the status of the result; empty for pooled methods.
        seconds: the CPU time.
    """

    run: SuiteRun
    dim: int
    queries: FloatArray
    gaps: FloatArray
    status: str
    seconds: float

    @property
    def gap(self) -> float:
        """The relative gap of the returned x."""
        return float(self.gaps[-1])

    @property
    def lowest(self) -> float:
        """The lowest relative gap in the trace."""
        return float(self.gaps.min())

    def reached(self, target: float) -> float:
        """Queries per client over d + 1 until the relative gap is at most the target; infinity if it never is.

        Example:
            >>> import numpy as np
            >>> from fzoos_experiments.suites.benchmark import SuiteRun
            >>> from fzoos_experiments.suites.profiles import Outcome
            >>> run = SuiteRun("bbob", "1", dim=4, instance=4, rival="bobyqa", clients=2)
            >>> outcome = Outcome(run, 4, np.array([0.0, 10.0, 20.0]), np.array([1.0, 0.2, 0.01]), "", 0.0)
            >>> outcome.reached(0.1), outcome.reached(0.001)     # 20 queries / 2 clients / (4 + 1)
            (2.0, inf)
        """
        within = self.gaps <= target
        return float(self.queries[within.argmax()] / self.run.clients / (self.dim + 1)) if within.any() else np.inf


def outcomes(records: Mapping[SuiteRun, Mapping[str, Any]]) -> list[Outcome]:
    """The results of runs, in the order of the records."""
    lowest: dict[Any, float] = defaultdict(lambda: np.inf)
    for run, record in records.items():
        lowest[_problem(run)] = min(lowest[_problem(run)], *(value for _, value in record["trace"]))
    found = []
    for run, record in records.items():
        queries, values = np.array(record["trace"], dtype=float).T
        minimum = lowest[_problem(run)] if record["minimum"] is None else record["minimum"]
        gaps = np.nan_to_num((values - minimum) / max(values[0] - minimum, 1e-300), nan=np.inf)
        found.append(Outcome(run, record["dim"], queries, gaps, record["status"], record["seconds"]))
    return found


def _problem(run: SuiteRun) -> tuple[Any, ...]:
    return run.suite, run.problem, run.dim, run.instance, run.seed, run.clients, run.heterogeneity, run.noise


def summary(found: Iterable[Outcome]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The heads and rows of a table with one row per rival, ordered by the problems that reach the middle target.

    The last columns count runs whose returned F - F* is more than twice the lowest one of the trace (and more than 1e-5
    of that at x0), and runs whose returned x is worse than x0.
    """
    heads = ("rival", "runs", *(f"F <= {target:g}" for target in TARGETS), "median gap", "mean log10 gap")
    rows = []
    for rival, mine in _by_rival(found).items():
        solved = [sum(np.isfinite(outcome.reached(target)) for outcome in mine) for target in TARGETS]
        gaps = np.array([outcome.gap for outcome in mine])
        logs = float(np.mean(np.log10(np.clip(gaps, 1e-12, 1e12))))
        worse = sum(outcome.gap > max(_WORSE * outcome.lowest, TARGETS[-1]) for outcome in mine)
        failed = int(np.sum(gaps > 1.0))
        row = (
            rival,
            str(len(mine)),
            *map(str, solved),
            f"{np.median(gaps):.2g}",
            f"{logs:.2f}",
            str(worse),
            str(failed),
        )
        rows.append((-solved[1], logs, (*row, f"{np.mean([outcome.seconds for outcome in mine]):.2g}")))
    return (*heads, "not the best", "worse than x0", "CPU s"), [row for *_, row in sorted(rows)]


def _by_rival(found: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    grouped: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        grouped[outcome.run.rival].append(outcome)
    return grouped


def write_csv(found: Sequence[Outcome], path: Path) -> None:
    """Write one row per run."""
    fields = ("suite", "problem", "dim", "instance", "seed", "clients", "heterogeneity", "noise", "budget", "rival")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        targets = [f"queries to {target:g}" for target in TARGETS]
        writer.writerow([*fields, "status", "queries", "gap", "lowest gap", *targets, "seconds"])
        for outcome in found:
            settings = {name: getattr(outcome.run, name) for name in fields} | {"dim": outcome.dim}
            counts = [outcome.reached(target) * outcome.run.clients * (outcome.dim + 1) for target in TARGETS]
            cells = ["" if np.isinf(count) else round(count) for count in counts]
            ends = [outcome.status, int(outcome.queries[-1]), f"{outcome.gap:.6g}", f"{outcome.lowest:.6g}"]
            writer.writerow([*settings.values(), *ends, *cells, outcome.seconds])


def plot_profiles(found: Sequence[Outcome], path: Path, title: str) -> None:
    """Draw data profiles, one panel per target."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    grouped = _by_rival(found)
    figure, panels = pyplot.subplots(1, len(TARGETS), figsize=(13.0, 4.2), sharey=True, layout="constrained")
    for panel, target in zip(panels, TARGETS, strict=True):
        for k, (rival, mine) in enumerate(grouped.items()):
            costs = np.sort([outcome.reached(target) for outcome in mine])
            costs = costs[np.isfinite(costs)]
            last = max(outcome.run.budget * outcome.dim / (outcome.dim + 1) for outcome in mine)
            shares = np.arange(1, len(costs) + 1) / len(mine)
            x, y = np.concatenate([[0.5], costs, [last]]), np.concatenate([[0.0], shares, [len(costs) / len(mine)]])
            style = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k // 7 % len(DASHES)], "label": rival}
            panel.step(np.maximum(x, 0.5), y, where="post", **style)
        panel.set(xscale="log", title=f"target {target:g}", xlabel="queries per client / (d + 1)", ylim=(0.0, 1.02))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("share of problems")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
