r"""Which x to take from a run: the last one, or the mean of the last few where they only wander.

========  =======  ======================================================================================
symbol    shape    meaning
========  =======  ======================================================================================
x_r       (d,)     the server's x after round r = 1, ..., R, in the unit cube
n         scalar   steps of a tail x_{R-n}, ..., x_R
N         scalar   ||x_R - x_{R-n}||^2, the net displacement, squared
Q         scalar   sum of ||x_r - x_{r-1}||^2 over the tail
delta     (d,)     drift of a round
v         scalar   E ||e_r||^2, e_r independent: how far x_r lies from the line along which it drifts
========  =======  ======================================================================================

Under noise x descends and then wanders about a point. A tail is both, x_r = c + r delta + e_r:

    E N = n^2 ||delta||^2 + 2 v,      E Q = n ||delta||^2 + 2 n v                                                  (1)
    ||delta||^2 ~ (N - Q/n) / (n^2 - 1),      2 v ~ Q/n - ||delta||^2                                               (2)

The last x is off its line by v. The mean of the n + 1 is off by v / (n + 1) only, but behind by n/2 rounds of drift.
Where there is drift, the goal lies ahead, and being behind costs the more the further off it is; we take it for three
times as far off as x came in this tail, 3 n ||delta||. The mean is nearer to the goal if

    v / (n + 1) + (3 + 1/2)^2 n^2 ||delta||^2 < v + 3^2 n^2 ||delta||^2,  that is  13 ||delta||^2 n (n + 1) < 4 v   (3)

and with (2), if

    N < Q/n [1 + 2 (n^2 - 1) / (13 n^2 + 13 n + 2)].                                                                (4)

We take the longest tail of which (4) is true; if there is none, the last x. N - Q is the sum of s_i . s_j over all
pairs of different steps, and (4) needs it to be negative: as long as steps do not turn back, as in a descent, the last
x is recommended, and likewise for a walk without memory, N ~ Q, of which no x is better than another. Nothing has to
travel for it: the server knows its own x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Box
from fzoos.objectives.space import SpaceBox, box_of

__all__ = ["recommend", "recommend_for", "recommend_in"]


def recommend(x: FloatArray, width: FloatArray | float = 1.0) -> FloatArray:
    """The recommended x, shape (d,).

    Args:
        x: the server's x after each round, shape (R, d), R >= 1.
        width: the width of the search box in each coordinate; distances are those of the unit cube.

    Example:
        >>> import numpy as np
        >>> from fzoos.runs.recommend import recommend
        >>> descent = np.array([[4.0], [2.0], [1.0], [0.5]])
        >>> recommend(descent)
        array([0.5])
        >>> wandering = np.array([[4.0], [2.0], [0.1], [-0.1], [0.1], [-0.1]])
        >>> abs(recommend(wandering)) < 1e-12
        array([ True])
    """
    n = _steps(x / width)
    if n == 0:
        return np.array(x[-1])
    mean: FloatArray = np.mean(x[-n - 1 :], axis=0)
    return mean


def recommend_in(box: Box, walk: FloatArray) -> FloatArray:
    """The same for a walk in the user's coordinates; means of named variables are taken in the cube.

    Args:
        box: the search box.
        walk: the server's x after each round, shape (R, n), R >= 1.

    Example:
        >>> import numpy as np
        >>> from fzoos.objectives.box import Box
        >>> from fzoos.runs.recommend import recommend_in
        >>> recommend_in(Box.of((0, 10), dim=1), np.array([[4.0], [2.0], [1.0]]))
        array([1.])
    """
    if not isinstance(box, SpaceBox):
        return recommend(walk, box.widths)
    u = box.scale(walk)
    found = recommend(u)
    return np.array(walk[-1]) if np.array_equal(found, u[-1]) else box.from_cube(found)


def recommend_for(study: Mapping[str, Any], walk: Sequence[FloatArray] | FloatArray) -> FloatArray:
    """The same for a stored run.

    Args:
        study: the settings that it was started with.
        walk: x after each round, or before the first.

    Example:
        >>> import numpy as np
        >>> from fzoos.runs.recommend import recommend_for
        >>> recommend_for({"bounds": [[0.0, 10.0]]}, [np.array([4.0]), np.array([2.0]), np.array([1.0])])
        array([1.])
    """
    if "bounds" not in study:
        return recommend(np.array(walk))
    return recommend_in(box_of(study["bounds"], len(walk[0]), study.get("scale")), np.array(walk))


def _steps(x: FloatArray) -> int:
    """n of the longest tail of which (4) is true; 0 if there is none."""
    n = np.arange(1, len(x))
    with np.errstate(over="ignore", invalid="ignore"):  # a walk that left for infinity has no better tail
        q = np.cumsum(np.sum(np.diff(x, axis=0) ** 2, axis=1)[::-1])  # Q of n = 1, 2, ...
        net = np.sum((x[-1] - x[-2::-1]) ** 2, axis=1)  # N of n = 1, 2, ...
        better = net < q / n * (1.0 + 2.0 * (n * n - 1.0) / (13.0 * n * (n + 1.0) + 2.0))  # Eq. (4)
    better[:1] = False  # of a single step N = Q: drift and noise cannot be distinguished
    return int(n[better][-1]) if np.any(better) else 0
