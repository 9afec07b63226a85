"""Macro-averaged scores of a classifier, for many confusion matrices at once.

=========  ==========  ==================================================================================
symbol     shape       meaning
=========  ==========  ==================================================================================
K          scalar      classes
c          (..., K, K) confusion matrices: c[t, p] rows of class t were predicted as p
tp         (..., K)    correct rows of each class, the diagonal of c
true       (..., K)    rows of each class, the sums of the rows of c
predicted  (..., K)    rows predicted as each class, the sums of the columns of c
=========  ==========  ==================================================================================

A score of a class is a quotient q; its macro average is the mean of q over the classes that occur, true or predicted:

    precision  tp / predicted        recall   tp / true
    f1  2 tp / (true + predicted)    jaccard  tp / (true + predicted - tp)

0 / 0 counts as 0. These are scikit-learn's scores with `average="macro"`, `zero_division=0` and its default labels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray

__all__ = ["SCORES", "f1", "jaccard", "precision", "recall"]


def precision(confusion: NDArray[np.int64]) -> FloatArray:
    """Macro precision of each matrix, (..., K, K) -> (...).

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.scores import precision
        >>> float(precision(np.array([[3, 1], [0, 4]])))     # (3/3 + 4/5) / 2
        0.9
    """
    tp, true, predicted = _counts(confusion)
    return _macro(tp, predicted, true + predicted)


def recall(confusion: NDArray[np.int64]) -> FloatArray:
    """Macro recall of each matrix, (..., K, K) -> (...).

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.scores import recall
        >>> float(recall(np.array([[3, 1], [0, 4]])))        # (3/4 + 4/4) / 2
        0.875
    """
    tp, true, predicted = _counts(confusion)
    return _macro(tp, true, true + predicted)


def f1(confusion: NDArray[np.int64]) -> FloatArray:
    """Macro F1 of each matrix, (..., K, K) -> (...).

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.scores import f1
        >>> float(f1(np.array([[2, 2], [0, 4]])))            # (4/6 + 8/10) / 2
        0.7333333333333334
    """
    tp, true, predicted = _counts(confusion)
    return _macro(2 * tp, true + predicted, true + predicted)


def jaccard(confusion: NDArray[np.int64]) -> FloatArray:
    """Macro Jaccard index of each matrix, (..., K, K) -> (...).

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.scores import jaccard
        >>> float(jaccard(np.array([[2, 2], [0, 6]])))       # (2/4 + 6/8) / 2
        0.625
    """
    tp, true, predicted = _counts(confusion)
    return _macro(tp, true + predicted - tp, true + predicted)


SCORES: dict[str, Callable[[NDArray[np.int64]], FloatArray]] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "jaccard": jaccard,
}
"""The scores by their names in the metric task."""


def _counts(confusion: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    return np.diagonal(confusion, axis1=-2, axis2=-1), confusion.sum(axis=-1), confusion.sum(axis=-2)


def _macro(above: NDArray[np.int64], below: NDArray[np.int64], occurrences: NDArray[np.int64]) -> FloatArray:
    """The mean of above / below over the classes that occur; `above` is zero where `below` is."""
    quotients = above / np.maximum(below, 1)
    mean: FloatArray = quotients.sum(axis=-1) / np.maximum(np.count_nonzero(occurrences, axis=-1), 1)
    return mean
