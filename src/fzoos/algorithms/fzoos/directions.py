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

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.fzoos.control import Control, Mode

__all__ = ["COMMON", "Directions", "block", "next_used", "star_directions", "star_size"]

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
        >>> from fzoos.algorithms.fzoos.control import Control, Mode
        >>> from fzoos.algorithms.fzoos.directions import star_directions
        >>> hands = [star_directions(Control(7, Mode.DEALT, 0.1, turn=k, participants=3), 100) for k in range(3)]
        >>> rows = np.vstack([hands[0].common, *(hand.own for hand in hands)])
        >>> rows.shape, bool(np.max(abs(rows @ rows.T - np.eye(100))) < 1e-12)
        ((100, 100), True)
    """
    common, own = _dealt(control, dim) if control.mode is Mode.DEALT else (_shared(control, dim), range(0))
    return Directions(_rows(control, dim, common), _rows(control, dim, own) if len(own) else np.empty((0, dim)))


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


def _rows(control: Control, dim: int, which: range) -> FloatArray:
    return _transformed(control.seed, control.sweep, dim, which)


@lru_cache(maxsize=8)  # the clients of one process ask for the same rows one after the other
def _transformed(seed: int, sweep: int, dim: int, which: range) -> FloatArray:
    rng = np.random.default_rng([seed, sweep])
    order, signs = rng.permutation(dim), rng.choice([-1.0, 1.0], (2, dim))
    chosen = np.zeros((len(which), dim))
    chosen[np.arange(len(which)), order[which.start : which.stop : which.step]] = 1.0
    rows: FloatArray = signs[1] * scipy.fft.dct(signs[0] * scipy.fft.dct(chosen, norm="ortho"), norm="ortho")
    rows.flags.writeable = False
    return rows
