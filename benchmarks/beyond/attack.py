"""Rounds and queries until an image is attacked."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.beyond.plan import Found, FoundRuns, Planned
from benchmarks.beyond.problems import IMAGES, Problem
from benchmarks.beyond.settings import ALGORITHMS
from benchmarks.beyond.tables import NOTHING, Options, Part, counts, labels, problems, some, table

ROUNDS = (10, 25)
ATTACKED = -1e-300
"""The margin of an attacked image is below zero, and a target is met by what is equal to it too."""


def runs(options: Options) -> list[Planned]:
    rounds = options.rounds(*ROUNDS)[-1]
    return [
        Planned("attack", Problem("attack", p, models=options.first, toy=options.quick), label, image, rounds, ATTACKED)
        for p in (0.5, 0.7)
        for label in ALGORITHMS
        for image in options.images(IMAGES)
    ]


def tables(options: Options, found: FoundRuns) -> str:
    planned, (early, late) = runs(options), options.rounds(*ROUNDS)
    head = [
        "P",
        "algorithm",
        f"attacked within {early} rounds",
        f"within {late}",
        "rounds of those",
        "queries of those",
    ]
    rows = [
        [f"{p.level:g}", label, *_cells(some(found, p, label), early)]
        for p in problems(planned)
        for label in labels(planned)
    ]
    return table([*head, "queries of all"], rows)


def _cells(found: Sequence[Found], early: int) -> list[str]:
    if not found:
        return [NOTHING] * 5
    attacked = [each for each in found if each.values[-1] < 0.0]
    soon = [each for each in attacked if len(each.values) <= early]
    return [
        f"{len(soon)} of {len(found)}",
        f"{len(attacked)} of {len(found)}",
        counts([len(each.values) for each in attacked]),
        counts([each.queries[-1] for each in attacked]),
        f"{sum(each.queries[-1] for each in found):,}",
    ]


PART = Part(
    f"Attack on MNIST, d = 784, N = 10, T = 10, Adam(0.01), {IMAGES} images at most; P is the share of classes that a "
    "client's model knows. A run ends when the averaged logits are wrong; rounds and queries are means over the images "
    "attacked, the last column is the sum over all, until attacked or the end.",
    runs,
    tables,
)
