"""The split of data among clients: classes are assigned to clients, and samples of a class to its holders.

=========  ========  ==============================================================================================
symbol     shape     meaning
=========  ========  ==============================================================================================
N, K       scalar    clients, classes
P          scalar    portion in (0, 1]: the share of the classes that a client has; a larger P means less heterogeneity
c          scalar    classes of each client: P K rounded, halves up, and at least 1
A          (N, K)    whether client i holds samples of class k; every row sums to c
=========  ========  ==============================================================================================

The samples of a class are divided among its holders, as in the authors' program, or every holder has all of them, as in
the paper's text: then all clients have the same data at P = 1.

The N c places in the rows of A are distributed over the K classes as evenly as possible: every column sums to N c / K,
rounded down or up. With N = K, as in the paper, every class has c holders. With fewer places than classes (N c < K)
some classes have no holder, and their samples are not used.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fzoos._util.checks import check_count, check_number

__all__ = ["SPLITS", "Split", "assign_classes", "check_split", "classes_per_client", "split_by_class"]

Split = Literal["divided", "whole"]
"""Whether a holder of a class gets a share of its samples (the authors' program) or all of them (the paper's text)."""

SPLITS: tuple[Split, ...] = get_args(Split)

_TRADES = 20  # trades per client: each mixes two rows completely


def classes_per_client(classes: int, portion: float) -> int:
    """c = P K, rounded to the nearest integer, halves up, and at least 1.

    Args:
        classes: K, the number of classes.
        portion: P in (0, 1], the share of the classes that a client has.

    Example:
        >>> from fzoos_experiments.tasks.split import classes_per_client
        >>> [classes_per_client(7, p) for p in (0.05, 0.3, 0.5, 1.0)]       # 0.35, 2.1, 3.5, 7
        [1, 2, 4, 7]
    """
    check_count("classes", classes, low=1)
    check_number("portion", portion)
    if not 0.0 < portion <= 1.0:
        raise ValueError(f"portion must be in (0, 1], got {portion!r}")
    # The small term corrects rounding: 0.145 * 100 is 14.499999999999998 in floating point.
    return max(1, math.floor(portion * classes + 0.5 + 1e-9))


def assign_classes(classes: int, clients: int, portion: float, seed: int) -> NDArray[np.bool_]:
    """Draw A, which client has which classes.

    A table with the right sums is randomised by trades: two clients pool the classes that only one of them has, and
    redistribute them at random, each getting the same number as before. A trade changes no sum of a row or a column,
    and after many trades every table with these sums is equally likely.

    Args:
        classes: K, the number of classes.
        clients: N, the number of clients.
        portion: P in (0, 1], the share of the classes that a client has.
        seed: the seed of the draw.

    Returns:
        A, shape (N, K).

    Example:
        >>> from fzoos_experiments.tasks.split import assign_classes
        >>> table = assign_classes(classes=10, clients=10, portion=0.7, seed=0)
        >>> set(table.sum(axis=0).tolist()), set(table.sum(axis=1).tolist())
        ({7}, {7})

    Reference:
        Strona et al., "A fast and unbiased procedure to randomize ecological binary matrices with fixed row and column
        totals", Nature Communications 5, 2014 (the trades).
    """
    each = classes_per_client(classes, portion)
    check_count("clients", clients, low=1)
    check_count("seed", seed)
    rng = np.random.default_rng(seed)
    table = np.zeros((clients, classes), dtype=np.bool_)
    cyclic = np.arange(clients * each).reshape(clients, each) % classes
    np.put_along_axis(table, rng.permutation(classes)[cyclic], True, axis=1)
    for _ in range(_TRADES * clients if clients > 1 else 0):
        _trade(table, rng.choice(clients, 2, replace=False), rng)
    return table


def _trade(table: NDArray[np.bool_], pair: NDArray[np.int64], rng: np.random.Generator) -> None:
    """Redistribute the classes that only one of two clients has."""
    i, j = pair
    pool = rng.permutation(np.flatnonzero(table[i] ^ table[j]))
    mine = np.count_nonzero(table[i] & ~table[j])
    table[i, pool], table[j, pool] = np.arange(len(pool)) < mine, np.arange(len(pool)) >= mine


def check_split(split: str) -> None:
    """Raise a ValueError unless the split is one of `SPLITS`."""
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")


def split_by_class(
    labels: ArrayLike, clients: int, portion: float, seed: int, split: Split = "divided"
) -> list[NDArray[np.intp]]:
    """Split samples among clients so that each has only a portion of the classes.

    If divided, the samples of a class are shuffled and distributed among its holders; sizes differ by at most one. The
    classes are those that occur in `labels`.

    Args:
        labels: the class of each sample, shape (n,).
        clients: N, the number of clients.
        portion: P in (0, 1], the share of the classes that a client has.
        seed: the seed of the draw.
        split: "divided", or "whole": every holder of a class has all of its samples.

    Returns:
        The indices of each client's samples, in increasing order.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.split import split_by_class
        >>> labels = np.repeat([0, 1, 2, 3], 6)
        >>> [np.bincount(labels[mine], minlength=4).tolist() for mine in split_by_class(labels, 4, 0.5, seed=1)]
        [[0, 3, 3, 0], [0, 3, 0, 3], [3, 0, 0, 3], [3, 0, 3, 0]]
        >>> [len(mine) for mine in split_by_class(labels, 4, 0.5, seed=1, split="whole")]
        [12, 12, 12, 12]
    """
    check_split(split)
    values = np.asarray(labels)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"labels must be a vector with at least one label, got shape {values.shape}")
    names = np.unique(values)
    table = assign_classes(len(names), clients, portion, seed)
    rng = np.random.default_rng([seed, 1])
    shares: list[list[NDArray[np.intp]]] = [[] for _ in range(clients)]
    for k, name in enumerate(names):
        holders = rng.permutation(np.flatnonzero(table[:, k]))
        if not len(holders):
            continue
        samples = rng.permutation(np.flatnonzero(values == name))
        parts = np.array_split(samples, len(holders)) if split == "divided" else [samples] * len(holders)
        for holder, share in zip(holders, parts, strict=True):
            shares[holder].append(share)
    return [np.sort(np.concatenate(mine)) for mine in shares]
