"""A table of values after some rounds, with the queries until then."""

from __future__ import annotations

from collections.abc import Sequence

from beyond_runs import FoundRuns, Run
from beyond_settings import EXACT
from beyond_tables import at, counts, labels, problems, queries_at, some, spread, table


def value_table(value: str, level: str, runs: Sequence[Run], rounds: Sequence[int], found: FoundRuns) -> str:
    """One row for each problem and algorithm.

    Args:
        value: what the values are, for the head.
        level: likewise, of the problem's level.
        runs: those of the part.
        rounds: after which values are shown.
        found: what came of them.
    """
    head = ["task", level, "algorithm", f"{value} at x0"]
    for r in rounds:
        head += [f"after {r} rounds", "queries"]
    rows = []
    for problem in problems(runs):
        for label in labels(runs):
            here = some(found, problem, label)
            row = [problem.name, f"{problem.level:g}", label, spread([each.start for each in here])]
            for r in rounds:
                row += [spread(at(here, r)), "" if label in EXACT else counts(queries_at(here, r))]
            rows.append(row)
    return table(head, rows)
