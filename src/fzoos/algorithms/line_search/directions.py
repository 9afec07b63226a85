"""The directions of a design: orthonormal, random, and the same for all clients with the seed.

Row j of a basis is e_{p_j} C S C S', C the discrete cosine transform, S and S' random signs, p a random order. Its
coordinates are close to normal, as those of a random rotation (with one transform they are not, and designs average
less over ripples), but a row costs d log d operations: no matrix of d x d numbers is made.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos._util.panels import panels
from fzoos.algorithms.line_search.control import Control, Mode

__all__ = [
    "COMMON",
    "block",
    "common_rows",
    "design_rows",
    "design_size",
    "next_used",
]

COMMON = 16  # directions that all clients query in every round, to measure how much they differ
_BLOCK = 0.5  # the largest fraction of the d directions in a shared design


def design_rows(control: Control, dim: int) -> tuple[FloatArray, int]:
    """Return the directions of a client in this round, orthonormal rows, and how many of the first all clients query.

    Probe: a few rows of a basis. Shared: the next m rows. Split: 16 rows for all clients while a basis lasts, and of
    the next m - 16 every N-th for each of N clients.
    """
    common = common_rows(control, dim)
    if control.mode is not Mode.SPLIT:
        return common, len(common)
    own = _split(control, dim)[1]
    rows = np.empty((len(common) + len(own), dim))
    rows[: len(common)] = common
    _transform(rows[len(common) :], control.seed, control.basis, own)
    return rows, len(common)


def common_rows(control: Control, dim: int) -> FloatArray:
    """Return the directions that all clients query, shape (m, d)."""
    common = _split(control, dim)[0] if control.mode is Mode.SPLIT else _shared(control, dim)
    return _common(control.seed, control.basis, dim, common)


def block(dim: int) -> int:
    """Return the largest number of directions in a shared design."""
    return math.ceil(_BLOCK * dim)


def next_used(control: Control, dim: int) -> int:
    """Return how many directions of its basis are used up after this round; d: all of them."""
    if control.probe:
        return dim
    if control.mode is Mode.SPLIT:
        return max(COMMON, control.used) + control.size - COMMON if control.size else dim
    return control.used + (control.size or block(dim))


def design_size(control: Control, dim: int) -> int:
    """Return the number of directions of a client in this round."""
    return sum(map(len, _split(control, dim))) if control.mode is Mode.SPLIT else len(_shared(control, dim))


def _shared(control: Control, dim: int) -> range:
    """Return the rows of the basis that all clients query."""
    if control.probe:
        return range(control.used, min(dim, control.used + control.probe))
    end = min(dim, control.used + (control.size or block(dim)))
    return range(control.used, control.used + control.directions(end - control.used))


def _split(control: Control, dim: int) -> tuple[range, range]:
    """Return the rows that all clients query, and those of one client alone."""
    common = min(COMMON, dim)
    first = max(common, control.used)
    end = min(dim, first + control.size - common) if control.size else dim
    own = range(first + control.client_index, end, control.participants)
    left = control.directions(common + len(own))
    return range(min(common, left)), own[: max(0, left - common)]


@lru_cache(maxsize=2)  # the clients of one process need the same rows one after the other; they may be large
def _common(seed: int, basis: int, dim: int, which: range) -> FloatArray:
    rows = np.empty((len(which), dim))
    _transform(rows, seed, basis, which)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=8)
def _basis(seed: int, basis: int, dim: int) -> tuple[NDArray[np.intp], FloatArray]:
    """Return p, and the signs of both transforms."""
    rng = np.random.default_rng([seed, basis])
    return rng.permutation(dim), rng.choice([-1.0, 1.0], (2, dim))


def _transform(rows: FloatArray, seed: int, basis: int, which: range) -> None:
    """Write these rows of the basis into `rows`."""
    order, signs = _basis(seed, basis, rows.shape[1])
    chosen = order[which.start : which.stop : which.step]
    for part in panels(*rows.shape):
        panel = rows[part]
        panel[:] = 0.0
        panel[np.arange(len(panel)), chosen[part]] = 1.0
        for sign in signs:
            np.multiply(scipy.fft.dct(panel, norm="ortho", overwrite_x=True), sign, out=panel)
