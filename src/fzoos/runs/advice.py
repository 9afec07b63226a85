"""Which x to take from a stored run, in words: the recommended one, unless what was measured says otherwise."""

from __future__ import annotations

import numpy as np

from fzoos.result import Result
from fzoos.runs.landmarks import UNKNOWN, Landmarks

__all__ = ["advice", "is_advised"]


def is_advised(result: Result, landmarks: Landmarks = UNKNOWN) -> bool:
    """Whether the recommended x is another one than the last, and nothing that was measured speaks for the last.

    `recommend` sees only where x went. Where F was measured, that counts for more: at the recommended x itself, or, if
    it was not measured there, after each round. F that was never as low as at the last x is still descending.

    Args:
        result: of the run.
        landmarks: F at the recommended x, if it is known.

    Example:
        >>> import numpy as np
        >>> from dataclasses import replace
        >>> from fzoos import FedZO, minimize
        >>> from fzoos.runs.advice import is_advised
        >>> from fzoos.runs.landmarks import Landmarks
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=3, seed=0, monitor=f)
        >>> is_advised(result), is_advised(replace(result, recommended=np.zeros(2)), Landmarks(recommended=0.0))
        (False, True)
    """
    if np.array_equal(result.recommended, result.x):
        return False
    values = [record.monitor for record in result.history if record.monitor is not None]
    if result.fun is None or not values:
        return True
    if landmarks.recommended is not None:
        return landmarks.recommended < result.fun
    return min(values) < result.fun


def advice(result: Result, landmarks: Landmarks = UNKNOWN) -> str:
    """What to say of the recommended x; nothing where it is the last.

    Example:
        >>> import numpy as np
        >>> from dataclasses import replace
        >>> from fzoos import FedZO, minimize
        >>> from fzoos.runs.advice import advice
        >>> from fzoos.runs.landmarks import Landmarks
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=3, seed=0, monitor=f)
        >>> advice(replace(result, recommended=np.full(2, 2.0)), Landmarks(recommended=8.0))
        'a mean of the last rounds; F = 8 there is no lower: take x'
    """
    if np.array_equal(result.recommended, result.x):
        return ""
    value, known = landmarks.recommended, result.fun is not None
    if is_advised(result, landmarks):
        there = f"; F = {value:.6g}" if value is not None else "; F was not measured there" if known else ""
        return f"the recommended x, a mean of the last rounds{there}"
    if value is not None:
        return f"a mean of the last rounds; F = {value:.6g} there is no lower: take x"
    return "a mean of the last rounds; F was lowest in the last one: take x"
