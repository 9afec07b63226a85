"""What all tables are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.beyond.plan import Found, FoundRuns, Planned
from benchmarks.beyond.problems import IMAGES, Problem

NOTHING = "–"


@dataclass(frozen=True)
class Options:
    """Which runs: seeds `first` to `first + seeds - 1`, so many images; `quick`: a toy, to try the program."""

    seeds: int = 5
    first: int = 0
    most_images: int = IMAGES
    quick: bool = False

    def few(self, most: int | None = None) -> range:
        """The seeds; one if quick, at most `most`."""
        count = 1 if self.quick else self.seeds if most is None else min(self.seeds, most)
        return range(self.first, self.first + count)

    def images(self, count: int) -> range:
        """The attack's images, which take the place of seeds."""
        return range(1 if self.quick else min(count, self.most_images))

    def rounds(self, *rounds: int) -> tuple[int, ...]:
        """After how many rounds a table looks."""
        if not self.quick:
            return rounds
        return (2,) if len(rounds) == 1 else (1, 2)


class Part(NamedTuple):
    """One part of the benchmark."""

    title: str
    runs: Callable[[Options], list[Planned]]
    tables: Callable[[Options, FoundRuns], str]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def some(found: FoundRuns, problem: Problem, label: str) -> list[Found]:
    """The runs of one algorithm on one problem, all seeds that there are."""
    return [value for run, value in found.items() if run.problem == problem and run.label == label]


def problems(runs: Iterable[Planned]) -> list[Problem]:
    """In their order."""
    return list(dict.fromkeys(run.problem for run in runs))


def labels(runs: Iterable[Planned]) -> list[str]:
    """In their order."""
    return list(dict.fromkeys(run.label for run in runs))


def at(found: Iterable[Found], round: int) -> list[float]:
    """The values after a round, of the runs that went so far."""
    return [each.values[round - 1] for each in found if len(each.values) >= round]


def queries_at(found: Iterable[Found], round: int) -> list[float]:
    """The queries of all clients after a round, of the runs that went so far."""
    return [each.queries[round - 1] for each in found if len(each.queries) >= round]


def spread(values: Sequence[float]) -> str:
    """Mean ± standard error, three digits of the mean."""
    if not len(values):
        return NOTHING
    return f"{np.mean(values):.3g} ± {error(values):.1g}" if len(values) > 1 else f"{values[0]:.3g}"


def counts(values: Sequence[float]) -> str:
    """The same for numbers of rounds or queries."""
    if not len(values):
        return NOTHING
    digits = 1 if max(values) < 100 else 0
    mean = f"{np.mean(values):,.{digits}f}"
    return mean if len(values) == 1 or max(values) == min(values) else f"{mean} ± {error(values):,.{digits}f}"


def size(found: Sequence[Found]) -> str:
    """Bytes per client and round."""
    return f"{np.mean([each.bytes_per_client_and_round for each in found]):,.0f}" if found else NOTHING


def error(values: Sequence[float]) -> float:
    """The standard error of the mean."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
