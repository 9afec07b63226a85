"""The directions of a star: orthonormal, random, and the same for whoever has the seed.

Row j of a basis is e_{p_j} C S C S', C the discrete cosine transform, S and S' random signs, p a random order. Its
coordinates are close to normal, as those of a random rotation (with one transform alone they are not, and stars average
less over ripples), but a row costs d log d operations: no matrix of d x d numbers is made.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import panels
from fzoos.algorithms.line_search.control import Control, Mode

__all__ = [
    "COMMON",
    "Directions",
    "block",
    "common_rows",
    "next_used",
    "star_directions",
    "star_rows",
    "star_size",
]

COMMON = 16  # directions that all clients ask in every round of a star, to measure how much they differ
_BLOCK = 0.5  # share of the d directions in a shared star, at most


class Directions(NamedTuple):
    """Orthonormal rows: `common` are asked by all clients, shape (m, d), `own` by one of them alone."""

    common: FloatArray
    own: FloatArray


def star_directions(control: Control, dim: int) -> Directions:
    """The directions of a client in this round.

    Pilot: a few rows of a basis. Shared: the next m rows. Dealt: 16 rows for all while a basis lasts, and of the
    next m - 16 some for each, like cards.

    Example:
        >>> import numpy as np
        >>> from fzoos.algorithms.line_search.control import Control, Mode
        >>> from fzoos.algorithms.line_search.directions import star_directions
        >>> hands = [star_directions(Control(7, Mode.DEALT, 0.1, turn=k, participants=3), 100) for k in range(3)]
        >>> rows = np.vstack([hands[0].common, *(hand.own for hand in hands)])
        >>> rows.shape, bool(np.max(abs(rows @ rows.T - np.eye(100))) < 1e-12)
        ((100, 100), True)
    """
    rows, common = star_rows(control, dim)
    return Directions(rows[:common], rows[common:])


def star_rows(control: Control, dim: int) -> tuple[FloatArray, int]:
    """The same as one array, the common ones first, and how many these are."""
    common = common_rows(control, dim)
    if control.mode is not Mode.DEALT:
        return common, len(common)
    own = _dealt(control, dim)[1]
    rows = np.empty((len(common) + len(own), dim))
    rows[: len(common)] = common
    _transform(rows[len(common) :], control.seed, control.sweep, own)
    return rows, len(common)


def common_rows(control: Control, dim: int) -> FloatArray:
    """Those that all clients ask."""
    common = _dealt(control, dim)[0] if control.mode is Mode.DEALT else _shared(control, dim)
    return _common(control.seed, control.sweep, dim, common)


def block(dim: int) -> int:
    """Directions of a shared star, at most."""
    return math.ceil(_BLOCK * dim)


def next_used(control: Control, dim: int) -> int:
    """How many directions of its basis will have been asked after this round; d: all of them."""
    if control.pilot:
        return dim
    if control.mode is Mode.DEALT:
        return max(COMMON, control.used) + control.size - COMMON if control.size else dim
    return control.used + (control.size or block(dim))


def star_size(control: Control, dim: int) -> int:
    """How many directions they are."""
    return sum(map(len, _dealt(control, dim))) if control.mode is Mode.DEALT else len(_shared(control, dim))


def _shared(control: Control, dim: int) -> range:
    """Rows of the basis that all clients ask."""
    if control.pilot:
        return range(control.used, min(dim, control.used + control.pilot))
    end = min(dim, control.used + (control.size or block(dim)))
    return range(control.used, control.used + control.directions(end - control.used))


def _dealt(control: Control, dim: int) -> tuple[range, range]:
    """Rows that all ask, and those of one client alone."""
    common = min(COMMON, dim)
    first = max(common, control.used)
    end = min(dim, first + control.size - common) if control.size else dim
    own = range(first + control.turn, end, control.participants)
    left = control.directions(common + len(own))
    return range(min(common, left)), own[: max(0, left - common)]


@lru_cache(maxsize=2)  # the clients of one process ask for the same rows one after the other; they may be many
def _common(seed: int, sweep: int, dim: int, which: range) -> FloatArray:
    rows = np.empty((len(which), dim))
    _transform(rows, seed, sweep, which)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=8)
def _basis(seed: int, sweep: int, dim: int) -> tuple[NDArray[np.intp], FloatArray]:
    """p, and the signs of both transforms."""
    rng = np.random.default_rng([seed, sweep])
    return rng.permutation(dim), rng.choice([-1.0, 1.0], (2, dim))


def _transform(rows: FloatArray, seed: int, sweep: int, which: range) -> None:
    """Make these rows of the basis where they are to be."""
    order, signs = _basis(seed, sweep, rows.shape[1])
    chosen = order[which.start : which.stop : which.step]
    for part in panels(*rows.shape):
        panel = rows[part]
        panel[:] = 0.0
        panel[np.arange(len(panel)), chosen[part]] = 1.0
        for sign in signs:
            np.multiply(scipy.fft.dct(panel, norm="ortho", overwrite_x=True), sign, out=panel)
