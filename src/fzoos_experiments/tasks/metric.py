"""Federated optimisation of a metric that has no gradient: precision, recall, F1 or the Jaccard index of a classifier.

=========  ========  ==================================================================================
symbol     shape     meaning
=========  ========  ==================================================================================
N, d       scalar    clients, dimension: the 2189 parameters of a network 54-30-14-7
theta*     (d,)      its parameters, trained with the cross-entropy on one half of Covertype
x          (d,)      the change of the parameters, within +-0.2; x_0 = 0
P          scalar    portion: the share of the seven classes that a client has data of
f_i        scalar    1 - metric of the network theta* + x on client i's data
F          scalar    the objective, the mean of f_i
=========  ========  ==================================================================================

The clients' data are the other half, split by class (see the module `split`). The module `mlp` describes the network
and the order of its parameters, `scores` the metrics.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from fzoos._util.arrays import FloatArray, check_device
from fzoos._util.checks import check_count, check_number
from fzoos.objectives.box import BatchObjective
from fzoos_experiments.tasks.classifier import Classifier, Rows, train
from fzoos_experiments.tasks.clients import WeakModelError
from fzoos_experiments.tasks.data import Table, load_covtype
from fzoos_experiments.tasks.display import Shown, console_of
from fzoos_experiments.tasks.mlp import CLASSES, DIM, Confusion
from fzoos_experiments.tasks.scores import SCORES
from fzoos_experiments.tasks.split import Split, check_split, classes_per_client, split_by_class

__all__ = ["Metric"]


@dataclass(frozen=True)
class Metric:
    """Minimise 1 - metric of a classifier over its parameters, on the clients' data.

    Arguments are checked by the constructor; data are loaded and the classifier is trained (or read from the cache) at
    the first access to `objectives`, `value` or `classifier`.

    Args:
        metric: "precision", "recall", "f1" or "jaccard", macro-averaged.
        portion: P in (0, 1], the share of the classes that a client has.
        seed: the seed of the clients' shares of the data.
        split: "divided", as in the authors' program: the rows of a class are divided among its clients; "whole", as in
            the paper's text: each of these clients has all rows.
        clients: N, the number of clients.
        device: "cpu" or "cuda", for evaluating the networks.
        samples: the number of random rows of Covertype that are used; None: all 581 012.
        model_seed: the seed of the halves and of the training; the same for all runs of one experiment.
        epochs: the number of epochs of the training.
        min_accuracy: the least accuracy of a useful classifier. Half of all rows belong to one class.
        progress: whether a progress bar and the accuracy are shown on standard output, or the console that shows them.
        data: rows and classes 1..7 to use instead of Covertype.
        cache: the folder of the stored classifier; None: `models` of the per-user cache.

    Raises:
        DataError: Covertype is missing and cannot be downloaded.
        WeakModelError: the classifier is less accurate than `min_accuracy`.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from fzoos import minimize
        >>> from fzoos_experiments.tasks.data import Table
        >>> from fzoos_experiments.tasks.metric import Metric
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(1, 8, 2000).astype(np.uint8)
        >>> x = rng.integers(0, 2, (2000, 54)).astype(np.int16)
        >>> x[:, :7] += 2 * (y[:, None] == range(1, 8))        # in the layout of Covertype, and easy to learn
        >>> task = Metric("recall", portion=0.5, epochs=10, data=Table(x, y), cache=tempfile.mkdtemp())
        >>> task.accuracy > 0.6, task.dim, len(task.objectives)
        (True, 2189, 7)
        >>> result = minimize(task.objectives, task.x0, bounds=task.bounds, rounds=1,
        ...                   vectorized=True, monitor=task.value, seed=0)
        >>> 0.0 <= result.history[-1].monitor <= 1.0
        True

    Reference:
        Shu et al., "Federated zeroth-order optimization using trajectory-informed surrogate gradients".
    """

    metric: str = "precision"
    portion: float = 0.3
    seed: int = 0
    split: Split = "divided"
    clients: int = 7
    device: str = "cpu"
    samples: int | None = None
    model_seed: int = 0
    epochs: int = 100
    min_accuracy: float = 0.6
    progress: Shown = field(default=False, repr=False, compare=False)
    data: Table | None = field(default=None, repr=False, compare=False)
    cache: str | Path | None = None

    name: ClassVar[str] = "metric"
    half_width: ClassVar[float] = 0.2
    dim: ClassVar[int] = DIM

    def __post_init__(self) -> None:
        if self.metric not in SCORES:
            raise ValueError(f"metric must be one of {', '.join(SCORES)}, got {self.metric!r}")
        classes_per_client(CLASSES, self.portion)  # for its check of portion
        check_count("seed", self.seed)
        check_split(self.split)
        check_count("clients", self.clients, low=1)
        check_device(self.device)
        if self.samples is not None:
            check_count("samples", self.samples, low=100)
        check_count("model_seed", self.model_seed)
        check_count("epochs", self.epochs, low=1)
        check_number("min_accuracy", self.min_accuracy, 0.0, 1.0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The box (-0.2, 0.2) of every coordinate."""
        return -self.half_width, self.half_width

    @property
    def x0(self) -> FloatArray:
        """The unchanged parameters, x = 0."""
        return np.zeros(self.dim)

    @cached_property
    def objectives(self) -> tuple[BatchObjective, ...]:
        """f_i, each (n, d) -> (n,), evaluated for n networks together."""
        _, (x, y) = self._halves
        objectives = []
        for i, share in enumerate(split_by_class(y, self.clients, self.portion, self.seed, self.split)):
            if not len(share):
                raise ValueError(f"client {i} gets no data: {len(y)} rows are too few for {self.clients} clients")
            features = self.classifier.standardise(x[share])
            objectives.append(self._objective(Confusion(features, y[share], self.device)))
        return tuple(objectives)

    @cached_property
    def classifier(self) -> Classifier:
        """The trained classifier with theta*."""
        classifier = train(
            *self._halves,
            epochs=self.epochs,
            seed=self.model_seed,
            progress=self.progress,
            cache=None if self.cache is None else Path(self.cache),
        )
        words = f"classifier: accuracy {classifier.accuracy:.3f} on the half it was not trained on"
        console_of(self.progress).print(words, highlight=False)
        if classifier.accuracy < self.min_accuracy:
            raise WeakModelError(
                f"the classifier reaches accuracy {classifier.accuracy:.3f}, min_accuracy is {self.min_accuracy:g}: "
                f"too weak for its {self.metric} to mean anything; more samples or epochs may help"
            )
        return classifier

    @property
    def accuracy(self) -> float:
        """The accuracy of the classifier on the other half of the rows."""
        return self.classifier.accuracy

    def value(self, x: FloatArray) -> float:
        """F at one point."""
        return float(np.mean([objective(x[None, :]) for objective in self.objectives]))

    @cached_property
    def _halves(self) -> tuple[Rows, Rows]:
        """The rows for training, and those of the clients; classes 0..6."""
        data = load_covtype() if self.data is None else self.data
        if self.samples is not None and self.samples > len(data.y):
            raise ValueError(f"samples must be at most {len(data.y)}, the rows there are, got {self.samples}")
        order = np.random.default_rng(self.model_seed).permutation(len(data.y))[: self.samples]
        first, other = (Rows(data.x[half], data.y[half].astype(np.int64) - 1) for half in np.array_split(order, 2))
        return first, other

    def _objective(self, confusion: Confusion) -> BatchObjective:
        theta, score = self.classifier.theta, SCORES[self.metric]

        def objective(x: FloatArray) -> FloatArray:
            """1 - metric at each row of x, (n, d) -> (n,)."""
            if x.ndim != 2 or x.shape[1] != DIM:
                raise ValueError(f"x must have shape (n, {DIM}), got {x.shape}")
            return 1.0 - score(confusion(theta + x))

        return objective
