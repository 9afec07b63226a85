"""Three regions fine-tune a classifier for a score without a gradient, the mean recall of its classes.

The classifier was trained with the cross-entropy, which tolerates errors in rare classes. The regions change its 63
parameters to improve the mean recall on their own rows. The objectives accept batches of such changes.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score

from fzoos import minimize
from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks.scores import recall

K = 3  # classes
x, y = make_classification(3500, 20, n_informative=8, n_classes=K, weights=[0.75, 0.18, 0.07], random_state=0)
trained = LogisticRegression(max_iter=1000).fit(x[:1000], y[:1000])
start, rows = np.c_[trained.coef_, trained.intercept_].ravel(), np.c_[x, np.ones(len(x))]


def classify(parameters: FloatArray, rows: FloatArray) -> NDArray[np.int64]:
    """Return the classes that n classifiers assign to m rows, shape (n, m)."""
    logits = parameters.reshape(-1, rows.shape[1]) @ rows.T
    return np.asarray(logits.reshape(-1, K, len(rows)).argmax(axis=1), dtype=np.int64)


def region(own: NDArray[np.int64]) -> BatchObjective:
    """Return 1 - mean recall on a region's rows for n changes of the parameters: (n, 63) -> (n,)."""

    def objective(moves: FloatArray) -> FloatArray:
        pairs = K * y[own] + classify(start + moves, rows[own])  # (true class, predicted class)
        return 1.0 - recall(np.array([np.bincount(p, minlength=K * K).reshape(K, K) for p in pairs]))

    return objective


ordered = 1000 + np.argsort(x[1000:2500, 0])  # the regions differ: each has a third of the range of the first column
result = minimize(
    [region(own) for own in np.split(ordered, 3)],
    x0=np.zeros(63),
    bounds=(-1, 1),
    rounds=8,
    vectorized=True,
    rng=0,
)
for name, move in (("cross-entropy", np.zeros(63)), ("fine-tuned", result.x)):
    each = recall_score(y[2500:], classify(start + move, rows[2500:])[0], average=None)
    print(f"{name}: mean recall {each.mean():.3f} on rows that nobody used, of each class {each.round(2)}")
print(f"{result.queries} queries in {result.rounds} rounds")
