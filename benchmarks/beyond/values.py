"""Values after some rounds: a table for each number of rounds, a row for each algorithm, a column for each task."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.beyond.plan import FoundRuns, Planned
from benchmarks.beyond.tables import at, counts, labels, problems, queries_at, some, spread, table


def value_tables(value: str, runs: Sequence[Planned], rounds: Sequence[int], found: FoundRuns) -> str:
    """One table for each of the rounds.

    Args:
        value: what the values are, for the head.
        runs: those of the part.
        rounds: after which values are shown.
        found: what came of them.
    """
    return "\n\n".join(_after(value, runs, r, found) for r in rounds)


def _after(value: str, runs: Sequence[Planned], r: int, found: FoundRuns) -> str:
    tasks = problems(runs)
    first = labels(runs)[0]
    rows = [["at x0", *(spread([each.start for each in some(found, p, first)]) for p in tasks), ""]]
    for label in labels(runs):
        here = [some(found, p, label) for p in tasks]
        queries = counts([q for each in here for q in queries_at(each, r)])
        rows.append([label, *(spread(at(each, r)) for each in here), queries])
    return table([f"{value} after {r} rounds", *(str(p) for p in tasks), "queries"], rows)
