"""The classifier of the metric task: trained once on one half of Covertype, and stored in the per-user cache.

The name of its file is a digest of the settings of the training, the seed and the data.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import FloatArray
from fzoos.runs.progress import round_columns
from fzoos_experiments.tasks.cache import cache_folder, digest, fingerprint, read_archive, write_archive
from fzoos_experiments.tasks.display import Shown, console_of
from fzoos_experiments.tasks.mlp import DIM, LAYERS, Confusion, logits, pack
from fzoos_experiments.tasks.models import Tensor, torch

__all__ = ["Classifier", "Rows", "train"]

_FORMAT = 1  # incremented when the network or its training change, so that older files are not used
_LEARNING_RATE = 0.01
_LARGEST_BATCH = 2048
_SHAPES = {"theta": (DIM,), "mean": (LAYERS[0],), "std": (LAYERS[0],), "accuracy": ()}


class Rows(NamedTuple):
    """Rows of features and their classes."""

    x: NDArray[np.int16]  # (m, 54)
    y: NDArray[np.int64]  # (m,), 0..6


class Classifier(NamedTuple):
    """A trained network, the standardisation of its features, and its accuracy on the other half of the data."""

    theta: FloatArray  # (d,), packed as in fzoos_experiments.tasks.mlp
    mean: FloatArray  # (54,) of the features it was trained on
    std: FloatArray  # (54,), ones for constant columns
    accuracy: float

    def standardise(self, x: NDArray[Any]) -> FloatArray:
        """Standardise features for the network, (x - mean) / std."""
        return (x - self.mean) / self.std


def train(
    rows: Rows,
    test: Rows,
    *,
    epochs: int,
    seed: int,
    progress: Shown = False,
    cache: Path | None = None,
) -> Classifier:
    """Train the network on the cross-entropy, or read it from the cache.

    The optimizer is Adam with a learning rate from 0.01 to zero along a cosine; batches have 2048 rows, or fewer so
    that an epoch has at least 64 batches. Training runs on the CPU: steps this small gain nothing on a GPU.

    Args:
        rows: the rows to train on.
        test: the rows for measuring the accuracy.
        epochs: passes over the rows.
        seed: the seed of the first weights and of the order of rows.
        progress: whether a progress bar is shown on standard output, or the console that shows it.
        cache: the folder of the stored classifier; None: `models` of the per-user cache.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.classifier import Rows, train
        >>> x = np.random.default_rng(0).integers(0, 100, (300, 54)).astype(np.int16)
        >>> y = (x[:, 0] > 50).astype(np.int64)
        >>> cache = Path(tempfile.mkdtemp())
        >>> made = train(Rows(x[:200], y[:200]), Rows(x[200:], y[200:]), epochs=10, seed=0, cache=cache)
        >>> made.theta.shape, made.accuracy > 0.7, len(list(cache.iterdir()))
        ((2189,), True, 1)
    """
    settings = {"format": _FORMAT, "layers": LAYERS, "rate": _LEARNING_RATE, "batch": _LARGEST_BATCH, "epochs": epochs}
    settings |= {"seed": seed, "data": digest(*rows, *test)}
    path = (cache or cache_folder("models")) / f"mlp-{fingerprint(settings)}.npz"
    try:
        arrays = read_archive(path)
        if {name: array.shape for name, array in arrays.items()} == _SHAPES:
            return Classifier(arrays["theta"], arrays["mean"], arrays["std"], float(arrays["accuracy"]))
    except (OSError, ValueError):
        pass  # missing or damaged: train again
    mean, std = rows.x.mean(axis=0), rows.x.std(axis=0)
    untested = Classifier(np.empty(0), mean, np.where(std > 0.0, std, 1.0), 0.0)
    theta = _fit(untested.standardise(rows.x), rows.y, epochs, seed, progress)
    counts = Confusion(untested.standardise(test.x), test.y)(theta[None, :])[0]
    classifier = untested._replace(theta=theta, accuracy=float(np.trace(counts) / counts.sum()))
    write_archive(path, {name: np.asarray(value) for name, value in classifier._asdict().items()})
    return classifier


def _fit(features: FloatArray, labels: NDArray[np.int64], epochs: int, seed: int, progress: Shown) -> FloatArray:
    """Train the parameters, shape (d,)."""
    x, y = torch.as_tensor(features, dtype=torch.float32), torch.as_tensor(labels)
    theta = torch.tensor(_initial(seed), dtype=torch.float32, requires_grad=True)
    size = max(32, min(_LARGEST_BATCH, len(x) // 64))
    optimizer = torch.optim.Adam([theta], lr=_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-len(x) // size))
    generator = torch.Generator().manual_seed(seed)
    with round_columns(console_of(progress)) as bars:
        bar = bars.add_task("training", total=epochs, status="")
        for _ in range(epochs):
            total = sum(
                _step(theta, x[batch], y[batch], optimizer, schedule) * len(batch)
                for batch in torch.randperm(len(x), generator=generator).split(size)
            )
            bars.update(bar, advance=1, status=f"cross-entropy {total / len(x):.3f}")
    trained: FloatArray = theta.detach().numpy().astype(np.float64)
    return trained


def _step(theta: Tensor, x: Tensor, y: Tensor, optimizer: Any, schedule: Any) -> float:
    """Make one step of the optimizer and return the loss before it."""
    loss = torch.nn.functional.cross_entropy(logits(theta, x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    return float(loss.item())


def _initial(seed: int) -> FloatArray:
    """Initial weights, uniform within +-sqrt(6 / inputs) as of He et al. for rectifiers, and zero biases."""
    rng = np.random.default_rng(seed)
    weights = [rng.uniform(-1.0, 1.0, (wide, narrow)) * np.sqrt(6.0 / narrow) for narrow, wide in pairwise(LAYERS)]
    return pack(weights, [np.zeros(wide) for wide in LAYERS[1:]])
